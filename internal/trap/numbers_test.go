package trap

import (
	"testing"

	"github.com/gorxe/gorxe/internal/trap/filter"
)

// TestFromTop: the numbers of ranges one after another, each from its top.
func TestFromTop(t *testing.T) {
	in := []filter.Range{{Base: 10, Count: 2}, {Base: 30, Count: 0}, {Base: 20, Count: 3}}
	for n, want := range []uint32{11, 10, 22, 21, 20} {
		if got := fromTop(in, uint32(n)); got != want {
			t.Errorf("number %d is %d, want %d", n, got, want)
		}
	}
}
