package sched

import (
	"testing"
	"time"
)

// TestPolled: without a doorbell the pauses grow, and with one they are short again. A thread spins
// only on a machine where a processor is to spare.
func TestPolled(t *testing.T) {
	for _, processors := range []int{1, 2, 4, 16, 64} {
		for ready := 1; ready <= processors+1; ready++ {
			asked := 0
			p := Polled{Processors: processors, Ready: func() (int, bool) { asked++; return ready, true }}
			now := time.Hour
			if spins, want := p.Observe(now, true, Unguarded) == (Pause{}), processors > 1 && ready <= processors; spins != want {
				t.Errorf("%d of %d processors: spins: %t, want %t", ready, processors, spins, want)
			}
			looks, last := 0, time.Duration(0)
			for end := now + time.Second; now < end; looks++ {
				last = p.Observe(now, false, Unguarded).For
				now += last + time.Microsecond
			}
			if last != polledLast || looks > 400 {
				t.Errorf("%d of %d processors: %d looks in a second, and then pauses of %v", ready, processors, looks, last)
			}
			if asked > 2 {
				t.Errorf("%d of %d processors: asked %d times", ready, processors, asked)
			}
			if pause := p.Observe(now, true, Unguarded); pause.For > polledFirst || pause.Guard {
				t.Errorf("%d of %d processors: a pause of %+v after a doorbell", ready, processors, pause)
			}
		}
	}
}

// TestPolledUnknown: a machine that does not say how busy it is has nothing to spare.
func TestPolledUnknown(t *testing.T) {
	p := Polled{Processors: 8, Ready: func() (int, bool) { return 0, false }}
	if pause := p.Observe(time.Hour, true, Unguarded); pause != (Pause{For: polledFirst}) {
		t.Errorf("a pause of %+v", pause)
	}
}

// TestPolledClass: the thread wants the class only after a doorbell, on a machine that has nothing
// to spare.
func TestPolledClass(t *testing.T) {
	for _, ready := range []int{2, 3} {
		p := Polled{Processors: 2, Ready: func() (int, bool) { return ready, true }}
		p.Observe(time.Hour, true, Unguarded)
		if got := p.Class(); got != (ready > 2) {
			t.Errorf("%d threads ready: in the class: %t", ready, got)
		}
		p.Observe(time.Hour+polledClass, false, Unguarded)
		if p.Class() {
			t.Errorf("%d threads ready: in the class without a doorbell", ready)
		}
	}
}

// TestPolledGuarded: a guarded program has a guard once it has not rung for a while, and the same
// pauses as others before.
func TestPolledGuarded(t *testing.T) {
	for _, ready := range []int{2, 3} {
		for _, idle := range []time.Duration{0, 1, polledSpin, polledGuard - 1, polledGuard, time.Second} {
			var got [3]Pause
			for g := range Wholly + 1 {
				p := Polled{Processors: 2, Ready: func() (int, bool) { return ready, true }}
				p.Observe(time.Hour, true, g)
				got[g] = p.Observe(time.Hour+idle, false, g)
			}
			want := [3]Pause{got[0], got[0], got[0]}
			if idle >= polledGuard {
				want = [3]Pause{got[0], {For: polledLast, Guard: true}, {For: polledSafety, Guard: true}}
			}
			if got != want || got[0].Guard {
				t.Errorf("%d ready, %v: %+v, want %+v", ready, idle, got, want)
			}
		}
	}
}
