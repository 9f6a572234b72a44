package mlx5

import (
	"strings"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/provider"
	"github.com/gorxe/gorxe/internal/sys/procmaps"
	"github.com/gorxe/gorxe/internal/sys/userfault"
)

// placesOf finds where a program has mapped pages of a file, in its /proc/PID/maps
// (proc_pid_maps(5)): registers for writing, and the clock.
func placesOf(maps string, file int, registers []*page, clock *page) (list []*place) {
	var st unix.Stat_t
	if unix.Fstat(file, &st) != nil {
		return nil
	}
	mapped := procmaps.File{Major: unix.Major(uint64(st.Dev)), Minor: unix.Minor(uint64(st.Dev)), Inode: st.Ino}
	for m, err := range procmaps.Read(strings.NewReader(maps)) {
		if err != nil || m.File != mapped || !m.Shared() {
			continue
		}
		if clock != nil && has(&m, clock) {
			list = append(list, placeIn(&m, clock, true))
		}
		for _, p := range registers {
			if m.Writable() && has(&m, p) {
				list = append(list, placeIn(&m, p, false))
			}
		}
	}
	return list
}

func has(m *procmaps.Mapping, p *page) bool { return uint64(p.offset)-m.Offset < m.End-m.Start }

func placeIn(m *procmaps.Mapping, p *page, clock bool) *place {
	at := m.Start + uint64(p.offset) - m.Offset
	return &place{Range: userfault.Range{Start: at, Len: provider.PageSize}, page: p, clock: clock}
}
