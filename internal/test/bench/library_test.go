package bench

import (
	"testing"
	"time"
)

// TestLibrary: the Go library does every row, and each has a baseline of its own.
func TestLibrary(t *testing.T) {
	seen := map[baseline]string{}
	for _, r := range Rows() {
		b := r.library()
		if other, ok := seen[b]; ok {
			if r.Place != OneRun {
				t.Errorf("%s and %s have one baseline", r.Name(), other)
			}
			continue
		}
		seen[b] = r.Name()
		v, err := b.row.limit(t.Context(), time.Millisecond, 0)
		if err != nil || v <= 0 {
			t.Errorf("%s: %v, %v", b.name(), v, err)
		}
	}
}
