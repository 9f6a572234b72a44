package sched

import (
	"testing"
	"time"
)

// TestStops: posts in a row use the stops up, and one comes back each StopEvery.
func TestStops(t *testing.T) {
	var s Stops
	now := time.Hour
	const some = 16
	for i := range MostStops {
		if more := s.Take(now); more != (i < MostStops-1) {
			t.Fatalf("stop %d leaves more: %v", i, more)
		}
	}
	for _, c := range []struct {
		after time.Duration
		more  bool
	}{
		{0, false}, {StopEvery / 2, false}, {StopEvery, false}, {2 * StopEvery, true}, {StopEvery / 2, true}, {0, false},
		{time.Hour, true},
	} {
		now += c.after
		if more := s.Take(now); more != c.more {
			t.Errorf("%v after the stop before: more is %v", c.after, more)
		}
	}
	for s.Take(now) {
	}
	s.Allow(some)
	n := 1
	for ; s.Take(now); n++ {
	}
	if n != some {
		t.Errorf("%d stops after a call, want %d", n, some)
	}
}
