package sanitize

import (
	"testing"

	"github.com/gorxe/gorxe/internal/sys/procmaps"
)

const mappings = `55d0c0000000-55d0c0001000 r-xp 00000000 08:01 131 /usr/bin/program
7f0000000000-7f0000010000 rw-s 00002000 00:01 2055 /memfd:memory (deleted)
7f0000010000-7f0000020000 rw-p 00000000 00:01 2055 /memfd:memory (deleted)
7f0000020000-7f0000030000 rw-s 00000000 00:00 0
7f0000030000-7f0000040000 rw-s 00000000 00:01 2056
`

// TestSharedIn: memory is shared if all of it is in one mapping that writes to a file.
func TestSharedIn(t *testing.T) {
	for _, c := range []struct {
		name          string
		start, length uint64
		want          *Shared
	}{
		{"all of a memfd", 0x7f0000000000, 0x10000, &Shared{procmaps.File{Minor: 1, Inode: 2055}, 0x2000}},
		{"its end", 0x7f000000ffff, 1, &Shared{procmaps.File{Minor: 1, Inode: 2055}, 0x11fff}},
		{"a file without a name", 0x7f0000030008, 8, &Shared{procmaps.File{Minor: 1, Inode: 2056}, 8}},
		{"a copy", 0x7f0000010000, 8, nil},
		{"no file", 0x7f0000020000, 8, nil},
		{"two mappings", 0x7f000000f000, 0x2000, nil},
		{"nothing", 0x1000, 8, nil},
		{"more than there is", 0x7f0000000000, 1 << 63, nil},
	} {
		got := SharedIn(mappings, c.start, c.length)
		if (got == nil) != (c.want == nil) || got != nil && *got != *c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// FuzzSharedIn: a program chooses the names of its files, and what it maps.
func FuzzSharedIn(f *testing.F) {
	f.Add(mappings, uint64(0x7f0000000000), uint64(64))
	f.Add("7f00-8000 rw-s 0 0 0 x\n- s\n", uint64(0x7f00), uint64(1))
	f.Fuzz(func(t *testing.T, maps string, start, length uint64) {
		if s := SharedIn(maps, start, length); s != nil && s.Inode == 0 {
			t.Errorf("%+v", s)
		}
	})
}
