package sched

import (
	"testing"
	"time"
)

// TestArrivals: a reader gets a thread when busyBatches batches come within busyTime, and not for
// as many in a longer time.
func TestArrivals(t *testing.T) {
	for name, c := range map[string]struct {
		between time.Duration
		want    bool
	}{
		"many": {busyTime / busyBatches, true},
		"few":  {busyTime/(busyBatches-1) + 1, false},
	} {
		var a Arrivals
		at := time.Hour
		for i := 1; i <= 3*busyBatches; i++ {
			if got, want := a.Busy(at), c.want && i%busyBatches == 0; got != want {
				t.Errorf("%s: after batch %d the reader is busy: %t", name, i, got)
			}
			at += c.between
		}
	}
}

// TestForPackets: threads that wait for packets want the class, unless a machine with more than two
// processors has one to spare. An answer of the machine holds for a while, and a machine with two
// is not asked.
func TestForPackets(t *testing.T) {
	for _, c := range []struct {
		processors, ready int
		want              bool
	}{{2, 0, true}, {2, 9, true}, {4, 3, false}, {4, 4, true}, {4, 9, true}, {64, 63, false}, {64, 64, true}} {
		asked := 0
		class := &Class{processors: c.processors, ready: func() (int, bool) { asked++; return c.ready, true }}
		if got := class.ForPackets(); got != c.want || class.ForPackets() != c.want {
			t.Errorf("%+v: threads want the class: %t", c, got)
		}
		if most := min(1, c.processors/(pair+1)); asked > most {
			t.Errorf("%+v: the machine was asked %d times in a moment", c, asked)
		}
	}
	if (*Class)(nil).ForPackets() {
		t.Error("threads want a class that is not there")
	}
}
