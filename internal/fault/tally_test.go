package fault

import (
	"slices"
	"testing"
)

// TestTally: what the sets of several sessions did is counted, and stays when the rules are gone.
func TestTally(t *testing.T) {
	var tally Tally
	for range 2 {
		s := newSet(t, "packet mark,first=1") // before the set is counted
		s.CountIn(&tally)
		for _, text := range []string{"packet drop,count=3", "packet delay,time=1ms,first=1"} {
			r, err := Parse(text)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := s.Add(r); err != nil {
				t.Fatal(err)
			}
		}
		hits(s, 10)
		s.Close()
		s.Clear()
	}
	got := tally.Hits()
	n := 0
	for i := range places {
		n += len(places[i].whats)
	}
	if len(got) != n {
		t.Errorf("%d faults, want %d", len(got), n)
	}
	got = slices.DeleteFunc(got, func(h Hits) bool { return h.Fired == 0 })
	if want := []Hits{{"packet", "drop", 6}, {"packet", "delay", 2}}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
