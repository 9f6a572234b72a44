package trap

import (
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gorxe/gorxe/internal/sched/standby"
)

// nobody decides nothing about a worker.
type nobody struct{}

func (nobody) TooLong(standby.Call, func() bool) {}
func (nobody) Idle(int) bool                     { return false }

func newProgress(t *testing.T) *progress {
	t.Helper()
	p := new(progress)
	w := standby.NewWatch(time.Hour)
	t.Cleanup(w.Close)
	w.Add(nobody{}).Appoint(&p.Worker)
	return p
}

// TestTakenAndBlocked: a call that is taken and blocked at the same moment is answered
// by the receiver or by its duty.
func TestTakenAndBlocked(t *testing.T) {
	const rounds, value = 3000, 32
	p := newProgress(t)
	var begun, done atomic.Uint64
	var byReceiver atomic.Bool
	go func() {
		for seq := uint64(1); seq <= rounds; seq++ {
			for spins := 0; begun.Load() != seq; spins++ {
				if spins > 1000 {
					runtime.Gosched()
				}
			}
			byReceiver.Store(p.take(value))
			done.Store(seq)
		}
	}()
	for seq := uint64(1); seq <= rounds; seq++ {
		p.Enter()
		begun.Store(seq)
		for range seq % 256 { // while the other notices
			p.Call()
		}
		ok, byWatchdog, v := p.markBlocked(p.Call())
		for done.Load() != seq {
			runtime.Gosched()
		}
		switch {
		case !ok || !p.Replaced() || p.Leave():
			t.Errorf("call %d: blocked %v, replaced %v", seq, ok, p.Replaced())
		case !byWatchdog && !byReceiver.Load():
			t.Errorf("call %d is answered by nobody", seq)
		case byWatchdog && v != value:
			t.Errorf("call %d is answered with %d", seq, v)
		}
	}
}

// TestProgress: what is noted of one call says nothing of the next.
func TestProgress(t *testing.T) {
	p := newProgress(t)
	p.Enter()
	first := p.Call()
	if p.take(32) || p.Replaced() || !p.Leave() {
		t.Error("a receiver that nobody looked at was replaced")
	}
	p.Enter()
	if ok, _, _ := p.markBlocked(first); ok {
		t.Error("blocked with a call that it has answered")
	}
	if ok, taken, _ := p.markBlocked(p.Call()); !ok || taken {
		t.Errorf("in its second call: blocked %v, that is taken %v", ok, taken)
	}
	if !p.take(32) || p.Leave() {
		t.Error("the receiver did not notice")
	}
}
