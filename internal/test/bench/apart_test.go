package bench

import (
	"testing"

	"golang.org/x/sys/unix"
)

// TestApart: a cache line takes nanoseconds to another processor, and back. On one processor both
// threads take turns, and the time means nothing.
func TestApart(t *testing.T) {
	var all unix.CPUSet
	if err := unix.SchedGetaffinity(0, &all); err != nil {
		t.Fatal(err)
	}
	first, last := outermost(&all)
	if !all.IsSet(first) || !all.IsSet(last) || (first == last) != (all.Count() == 1) {
		t.Errorf("the processors are %d to %d of %d", first, last, all.Count())
	}
	if first == last {
		return
	}
	ns, err := processorsApart()
	// Both threads may have to wait for their processors, up to seconds for the rounds of one
	// measurement.
	if err != nil || ns < 1 || ns > 1e8 {
		t.Errorf("a cache line takes %v ns, %v", ns, err)
	}
}
