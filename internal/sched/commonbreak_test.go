package sched

import (
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestCommonBreak: a thread that runs or is ready nearly all the time, and often waits for a processor, leaves the class for a
// while once in a common period. Others stay.
func TestCommonBreak(t *testing.T) {
	for name, s := range map[string]struct {
		ran, waited float64 // of the time
		breaks      bool
	}{
		"two on one processor":  {0.5, 0.5, true},
		"four on one processor": {0.25, 0.75, true},
		"alone":                 {0.7, 0.05, false},
		"waits without need":    {0.05, 0.4, false},
		"idle":                  {0.01, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			policy := lock(t)
			c := classOf(1)
			begin := now()
			c.spent = func() time.Duration { return time.Duration(s.ran * float64(now()-begin)) }
			c.waited = func() time.Duration { return time.Duration(s.waited * float64(now()-begin)) }
			th := Thread{Class: c}
			defer th.End()
			breaks := 0
			for now()-begin < 8*commonPeriod {
				before := now()
				th.Rest()
				if policy() == unix.SCHED_NORMAL {
					breaks++
					if th.later < before+commonTime {
						t.Error("the break is too short")
					}
					for now() < th.later {
						th.Rest()
					}
				}
				time.Sleep(time.Millisecond)
			}
			if breaks > 8 || breaks > 0 != s.breaks {
				t.Errorf("%d breaks in 8 periods", breaks)
			}
		})
	}
}

// TestDelay: the time that a thread waits for a processor grows beside a rival, and does not become less.
func TestDelay(t *testing.T) {
	lock(t)
	last, ok := Delay()
	if !ok {
		t.Skip("this kernel does not count delays")
	}
	var all, one unix.CPUSet
	if err := unix.SchedGetaffinity(0, &all); err != nil {
		t.Fatal(err)
	}
	cpu := 0
	for !all.IsSet(cpu) {
		cpu++
	}
	one.Set(cpu)
	bind := func() {
		if err := unix.SchedSetaffinity(0, &one); err != nil {
			t.Error(err)
		}
	}
	var stop atomic.Bool
	defer stop.Store(true)
	bind()
	go func() {
		lock(t)
		bind()
		for !stop.Load() {
		}
	}()
	for deadline, first := time.Now().Add(10*time.Second), last; last <= first+int64(time.Millisecond); {
		ns, ok := Delay()
		if !ok || ns < last {
			t.Fatalf("the thread has waited for %d, and then for %d, %t", last, ns, ok)
		}
		last = ns
		if time.Now().After(deadline) {
			t.Fatal("the thread did not wait for its processor")
		}
	}
}
