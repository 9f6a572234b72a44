package sanitize

import (
	"slices"
	"testing"

	"github.com/gorxe/gorxe/rxe"
)

// TestCrossed: two threads at one doorbell are a mistake if libmlx5 has led them there.
func TestCrossed(t *testing.T) {
	const maps = "1000-2000 r-xp 0 0:0 1 /usr/lib/libibverbs/libmlx5-rdmav34.so\n3000-4000 r-xp 0 0:0 2 /opt/libmlx5/program\n"
	for name, c := range map[string]struct {
		at   [2]*Stack
		want []string
	}{
		"both in libmlx5":     {[2]*Stack{{PC: 0x1000}, {PC: 0x1fff}}, []string{threadDomain}},
		"one in the program":  {[2]*Stack{{PC: 0x1000}, {PC: 0x3000}}, nil},
		"one elsewhere":       {[2]*Stack{{PC: 0x2000}, {PC: 0x1000}}, nil},
		"one is not known":    {[2]*Stack{{PC: 0x1000}, nil}, nil},
		"no list of mappings": {[2]*Stack{{PC: 0x1000, Maps: -1}, {PC: 0x1000}}, nil},
	} {
		r := newRig(t, Default)
		r.s.Maps(maps)
		two := r.two()
		for range 2 {
			r.Crossed([]*rxe.QP{r.qp, two.qp}, c.at)
		}
		r.Crossed([]*rxe.QP{new(rxe.QP)}, c.at)
		if found := r.found(); !slices.Equal(found, c.want) {
			t.Errorf("%s: found %q, want %q", name, found, c.want)
		}
	}
}
