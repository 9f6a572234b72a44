package trap

import (
	"sync/atomic"

	"github.com/gorxe/gorxe/internal/sched/standby"
)

// progress says how far a receiver is with its call, for itself and for its duty, which replaces
// it if the call takes too long.
type progress struct {
	standby.Worker
	// taken is a call that may be answered with success although it is still being carried out:
	// a doorbell that has been read.
	taken atomic.Uint64 // a standby.Call
	value atomic.Int64  // what it is answered with
}

// take notes that the call in hand has been read, and may succeed with value from
// now on whatever it still waits for. It reports whether the receiver was replaced:
// nobody else answers the call then.
func (p *progress) take(value int64) bool {
	p.value.Store(value)
	p.taken.Store(uint64(p.Call()))
	// In this order, as markBlocked has the other: one of the two sees what the other did,
	// or both do, and the kernel takes one answer.
	return p.Replaced()
}

// markBlocked replaces the receiver, unless it just came back from the call. taken says
// that this may be answered with value.
func (p *progress) markBlocked(call standby.Call) (ok, taken bool, value int64) {
	if !p.Replace(call) {
		return false, false, 0
	}
	return true, standby.Call(p.taken.Load()) == call, p.value.Load()
}
