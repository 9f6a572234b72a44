package trap

import (
	"slices"
	"testing"

	"github.com/gorxe/gorxe/internal/trap/filter"
)

// The table of answers has an entry for each call that the filter traps, and no other.
func TestAnswers(t *testing.T) {
	want := filter.Calls()
	var got []uint32
	for _, a := range answers {
		got = append(got, a.nr)
		if handlers[a.nr] == nil {
			t.Errorf("call %d has no handler", a.nr)
		}
	}
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("answers to %d, the filter traps %d", got, want)
	}
}
