package standby

import "sync/atomic"

// Worker is a thread that does the work of a role, until a call blocks it. The zero value is ready
// for [Entry.Appoint].
//
// Its state is one word, so that a replacement is one step:
//
//	state     becomes
//	outside   inside, with the next number, by Enter
//	inside    outside by Leave; replaced by Replace
//	replaced  nothing else
type Worker struct {
	state atomic.Uint64 // a Call
	calls uint64        // that it has begun; of the worker
	watch *Watch
}

// A Call is the number of a worker's call in the upper bits, and inside and replaced below.
type Call uint64

const (
	inside    = 1 << iota // the worker is in the call
	replaced              // another worker has its role
	stateBits = iota
)

// Enter marks the begin of a call that may block. From here on the watch may start another
// worker. That worker sees all that this one wrote before Enter.
func (h *Worker) Enter() {
	h.calls++
	h.state.Store(h.calls<<stateBits | inside)
	if h.watch.asleep.Load() {
		h.watch.rouse()
	}
}

// Leave marks the end of the call. If it reports false, the role has another worker: this one
// must then return without touching the role's data.
func (h *Worker) Leave() bool {
	return h.state.CompareAndSwap(h.calls<<stateBits|inside, h.calls<<stateBits)
}

// Call returns the call that the worker is in, or has left last.
func (h *Worker) Call() Call { return Call(h.state.Load() &^ replaced) }

// Inside reports whether the call was not over.
func (c Call) Inside() bool { return c&inside != 0 }

// Replaced reports whether another worker has the role.
func (h *Worker) Replaced() bool { return h.state.Load()&replaced != 0 }

// Replace takes the role from the worker, unless it has left the call c.
func (h *Worker) Replace(c Call) bool {
	return c.Inside() && h.state.CompareAndSwap(uint64(c), uint64(c)|replaced)
}
