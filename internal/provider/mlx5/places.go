package mlx5

import (
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/provider"
	"github.com/gorxe/gorxe/internal/sys/userfault"
)

// placesOf finds where a program has mapped pages of a file, in its /proc/PID/maps
// (proc_pid_maps(5)): registers for writing, and the clock.
func placesOf(maps string, file int, registers []*page, clock *page) (list []*place) {
	var st unix.Stat_t
	if unix.Fstat(file, &st) != nil {
		return nil
	}
	for line := range strings.Lines(maps) {
		m, ok := parseLine(line)
		if !ok || m.private || m.inode != st.Ino || m.major != unix.Major(uint64(st.Dev)) || m.minor != unix.Minor(uint64(st.Dev)) {
			continue
		}
		if clock != nil && m.has(clock) {
			list = append(list, m.place(clock, true))
		}
		for _, p := range registers {
			if m.writes && m.has(p) {
				list = append(list, m.place(p, false))
			}
		}
	}
	return list
}

// mapping is a line of the maps.
type mapping struct {
	start, end, offset, inode uint64
	major, minor              uint32
	writes, private           bool
}

func (m *mapping) has(p *page) bool { return uint64(p.offset)-m.offset < m.end-m.start }

func (m *mapping) place(p *page, clock bool) *place {
	at := m.start + uint64(p.offset) - m.offset
	return &place{Range: userfault.Range{Start: at, Len: provider.PageSize}, page: p, clock: clock}
}

// parseLine parses a line (fs/proc/task_mmu.c: show_map_vma).
func parseLine(line string) (m mapping, ok bool) {
	f := strings.Fields(line)
	if len(f) < 5 || len(f[1]) != 4 {
		return m, false
	}
	start, end, _ := strings.Cut(f[0], "-")
	major, minor, _ := strings.Cut(f[3], ":")
	ok = true
	number := func(text string, base, bits int) uint64 {
		n, err := strconv.ParseUint(text, base, bits)
		ok = ok && err == nil
		return n
	}
	m = mapping{start: number(start, 16, 64), end: number(end, 16, 64), offset: number(f[2], 16, 64), inode: number(f[4], 10, 64),
		major: uint32(number(major, 16, 32)), minor: uint32(number(minor, 16, 32)), writes: f[1][1] == 'w', private: f[1][3] != 's'}
	return m, ok && m.start < m.end
}
