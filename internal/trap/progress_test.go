package trap

import (
	"runtime"
	"sync/atomic"
	"testing"
)

// TestTakenAndBlocked: a call that is taken and blocked at the same moment is answered
// by the receiver or by the watchdog.
func TestTakenAndBlocked(t *testing.T) {
	const rounds, value = 3000, 32
	var p progress
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
		p.begin(seq)
		begun.Store(seq)
		for range seq % 256 { // while the other notices
			p.state.Load()
		}
		ok, byWatchdog, v := p.markBlocked(p.state.Load())
		for done.Load() != seq {
			runtime.Gosched()
		}
		switch {
		case !ok || !p.Replaced() || p.end(seq):
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
	var p progress
	p.begin(1)
	first := p.state.Load()
	if p.take(32) || p.Replaced() || !p.end(1) {
		t.Error("a receiver that nobody looked at was replaced")
	}
	p.begin(2)
	if ok, _, _ := p.markBlocked(first); ok {
		t.Error("blocked with a call that it has answered")
	}
	if ok, taken, _ := p.markBlocked(p.state.Load()); !ok || taken {
		t.Errorf("in its second call: blocked %v, that is taken %v", ok, taken)
	}
	if !p.take(32) || p.end(2) {
		t.Error("the receiver did not notice")
	}
}
