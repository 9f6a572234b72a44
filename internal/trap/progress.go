package trap

import "sync/atomic"

// progress says how far a receiver is with its call, for itself and for the watchdog, which
// replaces it if the call takes too long. The replacement is one step, on one word.
type progress struct {
	state atomic.Uint64 // the number of the call in the upper bits, and those below
	// taken is the state of a call that may be answered with success although it is
	// still being carried out: a doorbell that has been read.
	taken atomic.Uint64
	value atomic.Int64 // what it is answered with
}

const (
	busy      = 1 << iota // has a call in hand
	blocked               // the watchdog has put a spare in its place
	stateBits = iota
)

// begin notes that the receiver has its next call, number seq, in hand.
func (p *progress) begin(seq uint64) { p.state.Store(seq<<stateBits | busy) }

// end notes that it has answered that, and reports whether it still is in its place.
func (p *progress) end(seq uint64) bool {
	return p.state.CompareAndSwap(seq<<stateBits|busy, seq<<stateBits)
}

// Replaced implements doorbell.Taker: another receiver is in its place.
func (p *progress) Replaced() bool { return p.state.Load()&blocked != 0 }

// take notes that the call in hand has been read, and may succeed with value from
// now on whatever it still waits for. It reports whether the receiver was replaced:
// nobody else answers the call then.
func (p *progress) take(value int64) bool {
	p.value.Store(value)
	p.taken.Store(p.state.Load() &^ blocked)
	// In this order, as markBlocked has the other: one of the two sees what the other did,
	// or both do, and the kernel takes one answer.
	return p.Replaced()
}

// markBlocked replaces the receiver, unless it just came back from the call. taken says
// that this may be answered with value.
func (p *progress) markBlocked(state uint64) (ok, taken bool, value int64) {
	if !p.state.CompareAndSwap(state, state|blocked) {
		return false, false, 0
	}
	return true, p.taken.Load() == state, p.value.Load()
}
