package fallback

import (
	"cmp"
	"io"
	"os"
	"slices"
	"sort"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/sys/procfs"
	"github.com/gorxe/gorxe/internal/sys/procmaps"
	"github.com/gorxe/gorxe/internal/trap/inflight"
)

// A program whose doorbells go to a pipe has no descriptor of its device's memfd. It has mapped the
// queues from there, so they are reached in its memory.

// A mapping is a part of a memfd in the memory of a process.
type mapping struct {
	from, to int64 // in the file
	addr     uintptr
}

// mapped is the parts of one memfd that a process has mapped, in order. It implements Queues.
type mapped struct {
	pid   int
	parts []mapping
}

// flushMapped completes the work requests in all queues that a process has mapped, as far as it can
// reach them.
func (f fallback) flushMapped(pid int) {
	maps, err := os.Open(procfs.Path(pid, "maps"))
	if err != nil {
		return
	}
	defer maps.Close()
	for _, m := range mappedQueues(maps, pid) {
		f.flush(m, nobody{})
	}
}

// mappedQueues returns what /proc/PID/maps says of our memfds.
func mappedQueues(maps io.Reader, pid int) []*mapped {
	files := make(map[procmaps.File]*mapped)
	lines := 0
	for m, err := range procmaps.Read(maps) {
		if lines++; lines > maxMappings {
			break
		}
		if err != nil || m.Offset >= maxOffset || !strings.HasPrefix(m.Path, inflight.MemfdPrefix) || m.Rights != "rw-s" {
			continue
		}
		if files[m.File] == nil {
			files[m.File] = &mapped{pid: pid}
		}
		off, size := int64(m.Offset), int64(m.End-m.Start)
		files[m.File].parts = append(files[m.File].parts, mapping{off, off + size, uintptr(m.Start)})
	}
	list := make([]*mapped, 0, len(files))
	for _, m := range files {
		slices.SortFunc(m.parts, func(a, b mapping) int { return cmp.Compare(a.from, b.from) })
		list = append(list, m)
	}
	return list
}

// Data implements Queues.
func (m *mapped) Data(off int64) (from, to int64, err error) {
	for _, p := range m.parts[max(m.last(off), 0):] {
		if off < p.to {
			return max(off, p.from), p.to, nil
		}
	}
	return 0, 0, io.EOF
}

// last returns the last part that begins at off or before, -1 if there is none.
func (m *mapped) last(off int64) int {
	return sort.Search(len(m.parts), func(i int) bool { return m.parts[i].from > off }) - 1
}

// ReadAt implements io.ReaderAt within one mapping.
func (m *mapped) ReadAt(b []byte, off int64) (int, error) { return m.copy(b, off, unix.ProcessVMReadv) }

// WriteAt implements io.WriterAt within one mapping.
func (m *mapped) WriteAt(b []byte, off int64) (int, error) {
	return m.copy(b, off, unix.ProcessVMWritev)
}

func (m *mapped) copy(b []byte, off int64, call func(int, []unix.Iovec, []unix.RemoteIovec, uint) (int, error)) (int, error) {
	i := m.last(off)
	if i < 0 || off+int64(len(b)) > m.parts[i].to || len(b) == 0 {
		return 0, unix.EFAULT
	}
	local := []unix.Iovec{{Base: &b[0]}}
	local[0].SetLen(len(b))
	remote := []unix.RemoteIovec{{Base: m.parts[i].addr + uintptr(off-m.parts[i].from), Len: len(b)}}
	return call(m.pid, local, remote, 0)
}
