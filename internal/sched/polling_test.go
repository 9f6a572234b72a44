package sched

import (
	"testing"

	"golang.org/x/sys/unix"
)

// TestPolling: a processor counts while the program of at least one Taker polls there.
func TestPolling(t *testing.T) {
	var last unix.CPUSet
	calls := 0
	p := NewPolling(func(cpus unix.CPUSet) { last, calls = cpus, calls+1 })
	for _, step := range []struct {
		from, to int // plus one
		want     []int
	}{
		{0, 2, []int{1}},
		{0, 2, []int{1}},
		{2, 3, []int{1, 2}},
		{2, 0, []int{2}},
		{3, 0, nil},
	} {
		p.move(step.from, step.to)
		var want unix.CPUSet
		for _, cpu := range step.want {
			want.Set(cpu)
		}
		if last != want {
			t.Fatalf("from %d to %d: got %v, want %v", step.from, step.to, last, want)
		}
	}
	before := calls
	p.move(1, 1)
	if calls != before {
		t.Error("told without a change")
	}
	(*Polling)(nil).move(0, 1)
}
