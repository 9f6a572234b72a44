package doorbell

import (
	"runtime"
	"testing"
)

// TestContention: it is high with more than two threads for each processor, and an answer holds for a while. A machine that does not
// say how many there are may have many.
func TestContention(t *testing.T) {
	ready, known, asked := 0, true, 0
	c := Contention{Load: &Load{Ready: func() (int, bool) { asked++; return ready, known }}}
	most := 2 * runtime.NumCPU()
	for _, s := range []struct {
		ready int
		known bool
		high  bool
	}{{most, true, false}, {most + 1, true, true}, {1, true, false}, {1, false, true}} {
		ready, known, c.next = s.ready, s.known, 0
		if c.High() != s.high {
			t.Errorf("with %d threads (known: %t), high: %t, want %t", s.ready, s.known, !s.high, s.high)
		}
		before := asked
		ready, known = 0, true
		if c.High() != s.high || asked != before {
			t.Error("the answer did not hold")
		}
	}
	if new(Contention).High() {
		t.Error("the zero value reports contention")
	}
}
