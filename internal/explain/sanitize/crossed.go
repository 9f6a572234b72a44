package sanitize

import (
	"fmt"
	"path"
	"strings"

	"github.com/gorxe/gorxe/internal/sys/procmaps"
	"github.com/gorxe/gorxe/rxe"
)

// Crossed notes that two threads stand in posts at once, at one doorbell of these queue pairs,
// which is for one thread at a time. libmlx5 has a lock for it, unless the program has said that it
// needs none. A program that rings without libmlx5 (mlx5dv) may know better.
func (f *File) Crossed(qps []*rxe.QP, at [2]*Stack) {
	f.s.mu.Lock()
	defer f.s.mu.Unlock()
	places := []Place{{What: "one thread posted", Stack: at[0]}, {What: "the other thread posted", Stack: at[1]}}
	var objects []string
	for _, q := range qps[:min(len(qps), maxCrossed)] {
		if o := f.byQP[q]; o != nil {
			if objects = append(objects, o.name()); len(objects) <= len(at) {
				places = append(places, Place{What: o.name() + " was made", Stack: o.made})
			}
		}
	}
	if len(objects) == 0 || !f.s.inLibrary(at[0]) || !f.s.inLibrary(at[1]) {
		return
	}
	f.find(threadDomain, Finding{
		What: fmt.Sprintf("threads %d and %d post at the same time, each to one of %s. These have one doorbell without a lock, because of a thread domain or MLX5_SINGLE_THREADED",
			at[0].TID, at[1].TID, strings.Join(objects, ", ")),
		Objects: objects, Places: places,
	})
}

// inLibrary reports whether a thread stands in libmlx5. s.mu is held.
func (s *Session) inLibrary(at *Stack) bool {
	if at == nil || at.Maps < 0 || at.Maps >= len(s.maps) {
		return false
	}
	for m, err := range procmaps.Read(strings.NewReader(s.maps[at.Maps])) {
		if err == nil && m.Start <= at.PC && at.PC < m.End {
			return strings.HasPrefix(path.Base(m.Path), "libmlx5")
		}
	}
	return false
}
