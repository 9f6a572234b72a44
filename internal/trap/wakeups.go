package trap

import (
	"sync/atomic"

	"github.com/gorxe/gorxe/internal/trap/notify"
)

// wakeUps says where a caller wakes up that the receiver answers: on the receiver's processor
// (notify.Listener.SyncWakeUp), or where the scheduler finds room.
//
//	the receiver, before the call  after the answer  the caller wakes up
//	has slept                      sleeps            on the receiver's processor, which becomes free
//	has slept                      takes a call      elsewhere: this processor stays busy
//	has not slept                  either            elsewhere: an earlier caller may wait for this one
//
// Otherwise two programs that post in turn both wait for one processor, while another one is idle,
// until the scheduler balances them after 4 ms. So it was under the sanitizer, whose answers take
// longer than the peer's program takes to post next.
type wakeUps struct {
	fixed bool // the kernel has only one way (Linux before 6.6)
	// A receiver that was replaced may answer at the same time. If one overwrites what the other
	// has noted, one caller wakes up on the wrong processor.
	busy      atomic.Bool // the receiver has not slept since its last answer
	elsewhere atomic.Bool // what the listener does
}

// handOver is called before an answer, with whether another call waits. It reports whether the
// receiver hands its processor over to the caller.
func (w *wakeUps) handOver(waits bool) bool {
	slept := !w.busy.Swap(waits)
	return slept && !waits
}

// prepare tells the listener before an answer.
func (w *wakeUps) prepare(l notify.Listener) {
	if w.fixed {
		return
	}
	elsewhere := !w.handOver(l.Waiting())
	if w.elsewhere.Swap(elsewhere) != elsewhere {
		l.SyncWakeUp(!elsewhere)
	}
}
