package rxe

import "time"

// A UC sender has no window. On one device it would fill the inbox of a receiver
// that merely waits for a processor, and what does not fit is lost, as it never is
// between two programs of one host. So it waits while there is much in the inbox;
// but a receiver that has taken nothing for long is left to itself, as on a
// network.
const (
	holdBytes = inboxBytes / 4
	holdStep  = Time(100 * time.Microsecond)
	holdLimit = Time(100 * time.Millisecond)
)

// Nothing says how much of what a UC sender sends over a network has been taken
// in. So it sleeps between portions: where the receiver is on the same machine, it
// then has less of a processor than the receiver, which does not sleep while there
// is something to take in.
const (
	portion      = 4 << 20
	portionPause = Time(100 * time.Microsecond)
)

// hold reports whether the requester is to wait for the receiver, and sets the
// time to look again.
func (q *QP) hold(o *outbox) bool {
	if q.typ != QPUC {
		return false
	}
	if !q.local() {
		return q.rest()
	}
	peer := q.dev.lookupQP(q.attr.DestQPN)
	if peer == nil || peer == q || peer.gate.left.Load() < holdBytes {
		q.req.heldSince = 0
		return false
	}
	if q.req.heldSince == 0 {
		q.req.heldSince = o.now
	}
	if o.now-q.req.heldSince >= holdLimit {
		return false
	}
	q.timer.hold = o.now + holdStep
	return true
}

// rest reports whether a portion was sent, and sets the time for the next. The
// pause begins now: o.now is when the portion was begun, and sending it takes
// longer than the pause.
func (q *QP) rest() bool {
	if q.req.portion < portion {
		return false
	}
	q.req.portion = 0
	q.timer.hold = q.dev.cfg.Clock.Now() + portionPause
	return true
}

// yields reports whether the requester is to stop for what was left for this QP
// meanwhile. It goes on when whoever holds the QP has run that, which is before
// the QP is given back. Windows keep RC from sending for so long that the inbox
// overflows; UC would send all that was posted.
func (q *QP) yields() bool {
	return q.typ == QPUC && q.gate.left.Load() >= holdBytes
}
