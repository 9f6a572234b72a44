package sched

import (
	"testing"

	"golang.org/x/sys/unix"
)

// TestMove: a Taker is on the processors that its policy names, tells where a program polls, and is
// given back as it was.
func TestMove(t *testing.T) {
	lock(t)
	allowed := func() (set unix.CPUSet) {
		t.Helper()
		if err := unix.SchedGetaffinity(0, &set); err != nil {
			t.Fatal(err)
		}
		return set
	}
	all := allowed()
	if all.Count() < 2 {
		t.Skip("it needs two processors")
	}
	cpu := 0
	for !all.IsSet(cpu) {
		cpu++
	}
	var told unix.CPUSet
	taker := NewTaker(System{Processors: 2}, nil, NewPolling(func(cpus unix.CPUSet) { told = cpus }))
	for _, c := range []struct {
		to     Decision
		count  int // processors that the thread may use
		on     bool
		polled int
	}{
		{Decision{Where: OnProgram, CPU: cpu, Polls: true}, 1, true, 1},
		{Decision{Where: OffProgram, CPU: cpu, Polls: true}, all.Count() - 1, false, 1}, // it spins
		{Decision{Where: OffProgram, CPU: cpu}, all.Count() - 1, false, 0},
		{Decision{}, all.Count(), true, 0},
		{Decision{Where: OnProgram, CPU: cpu, Polls: true}, 1, true, 1},
	} {
		taker.move(c.to)
		if set := allowed(); set.Count() != c.count || set.IsSet(cpu) != c.on || told.Count() != c.polled {
			t.Errorf("%+v: the thread may use %d processors, and programs poll on %d", c.to, set.Count(), told.Count())
		}
	}
	if taker.End(); allowed() != all || told.Count() != 0 {
		t.Error("the thread was not given back as it was")
	}
}

// TestProcessorNotAllowed: a program on a processor that the thread may not use is one whose
// processor is not known.
func TestProcessorNotAllowed(t *testing.T) {
	lock(t)
	const none = 1000 // more than a machine has, and less than a CPUSet has
	taker := NewTaker(System{Running: func(int) (int, bool) { return none, true }}, nil, nil)
	if _, ok := (*asked)(taker).Processor(1); ok {
		t.Error("the thread would go to a processor that it may not use")
	}
}
