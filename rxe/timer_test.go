package rxe

import (
	"math/rand/v2"
	"sort"
	"testing"
	"time"

	"github.com/gorxe/gorxe/wire"
)

type armRecorder struct{ now, armed Time }

func (a *armRecorder) Now() Time   { return a.now }
func (a *armRecorder) Arm(at Time) { a.armed = at }

// However deadlines are set, moved and removed, QPs come out in order of time,
// none before it is due, and the clock is armed for the first that is left.
func TestTimerHeapOrder(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	var h timerHeap
	clock := &armRecorder{}
	qps := make([]*QP, 200)
	want := map[*QP]Time{}
	for i := range qps {
		qps[i] = &QP{qpMade: qpMade{qpn: wire.QPN(i + 2)}}
	}
	for range 3000 {
		q := qps[rng.IntN(len(qps))]
		if rng.IntN(5) == 0 {
			h.remove(q)
			delete(want, q)
			continue
		}
		at := Time(1 + rng.IntN(1_000_000))
		h.set(q, at, clock)
		want[q] = at
	}
	var times []Time
	for _, at := range want {
		times = append(times, at)
	}
	sort.Slice(times, func(i, j int) bool { return times[i] < times[j] })
	for _, at := range times {
		if q := h.popDue(at-1, clock); q != nil {
			t.Fatalf("QP %d came out at %d, before its time %d", q.qpn, at-1, want[q])
		}
		if clock.armed != at {
			t.Fatalf("clock armed for %d, want %d", clock.armed, at)
		}
		q := h.popDue(at, clock)
		if q == nil || want[q] != at {
			t.Fatalf("at %d: %v came out", at, q)
		}
	}
	if h.popDue(1<<60, clock) != nil {
		t.Fatal("a QP came out twice")
	}
}

func TestAckTimeout(t *testing.T) {
	for code, want := range map[uint8]time.Duration{
		0: 0, 1: time.Millisecond, 8: 1048576 * time.Nanosecond,
		14: 67108864 * time.Nanosecond, 31: 8796093022208 * time.Nanosecond,
	} {
		if got := ackTimeout(code); got != want {
			t.Errorf("ackTimeout(%d) = %v, want %v", code, got, want)
		}
	}
}
