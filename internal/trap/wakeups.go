package trap

import "sync"

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
	listener syncer
	// A receiver that was replaced may answer beside the next one. If the kernel got the two
	// changes of the listener in another order than elsewhere, all calls would be slow from then
	// on.
	mu        sync.Mutex // a leaf lock
	fixed     bool       // answers are short, or the kernel has only one way (Linux before 6.6)
	busy      bool       // the receiver has not slept since its last answer
	elsewhere bool       // what the listener does
}

// syncer is a notify.Listener.
type syncer interface {
	SyncWakeUp(on bool) bool
	Waiting() bool
}

// init says how the first caller wakes up. With slow, answers take long enough for calls to meet;
// all callers of others wake up alike. It reports false if the kernel has only one way.
func (w *wakeUps) init(l syncer, slow bool) bool {
	can := l.SyncWakeUp(true)
	w.listener, w.fixed = l, !can || !slow
	return can
}

// handOver is called before an answer, with whether another call waits. It reports whether the
// receiver hands its processor over to the caller.
func (w *wakeUps) handOver(waits bool) bool {
	slept := !w.busy
	w.busy = waits
	return slept && !waits
}

// prepare tells the listener before an answer.
func (w *wakeUps) prepare() {
	if w.fixed {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	elsewhere := !w.handOver(w.listener.Waiting())
	if w.elsewhere != elsewhere && w.listener.SyncWakeUp(!elsewhere) {
		w.elsewhere = elsewhere
	}
}
