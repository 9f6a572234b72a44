package rxe

import "time"

// A UC sender has no window. On one device it would fill the inbox of a receiver
// that merely waits for a processor, and what does not fit is lost, as it never is
// between two programs of one host. So it waits while there is much in the inbox;
// but a receiver that has taken nothing for long is left to itself, as on a
// network.
const (
	ucPauseBytes = inboxLimit / 4
	ucPauseStep  = Time(100 * time.Microsecond)
	ucPauseLimit = Time(100 * time.Millisecond)
)

// Nothing says how much of what a UC sender sends over a network has been taken
// in. So it sleeps between portions: where the receiver is on the same machine, it
// then has less of a processor than the receiver, which does not sleep while there
// is something to take in.
const (
	ucQuantum      = 4 << 20
	ucQuantumPause = Time(100 * time.Microsecond)
)

// pauseUC reports whether the requester is to wait for the receiver, and sets the
// time to look again.
func (q *QP) pauseUC(o *outbox) bool {
	if q.typ != QPUC {
		return false
	}
	if !q.peerIsLocal() {
		return q.pauseAfterQuantum()
	}
	peer := q.dev.lookupQP(q.attr.DestQPN)
	if peer == nil || peer == q || peer.gate.queuedBytes.Load() < ucPauseBytes {
		q.req.pausedSince = 0
		return false
	}
	if q.req.pausedSince == 0 {
		q.req.pausedSince = o.now
	}
	if o.now-q.req.pausedSince >= ucPauseLimit {
		return false
	}
	q.send.pausedUntil = o.now + ucPauseStep
	return true
}

// pauseAfterQuantum reports whether a portion was sent, and sets the time for the next. The
// pause begins now: o.now is when the portion was begun, and sending it takes
// longer than the pause.
func (q *QP) pauseAfterQuantum() bool {
	if q.req.quantumSent < ucQuantum {
		return false
	}
	q.req.quantumSent = 0
	q.send.pausedUntil = q.dev.cfg.Clock.Now() + ucQuantumPause
	return true
}

// yieldsToInbox reports whether the requester is to stop for what was left for this QP
// meanwhile. It goes on when whoever holds the QP has run that, which is before
// the QP is given back. Windows keep RC from sending for so long that the inbox
// overflows; UC would send all that was posted.
func (q *QP) yieldsToInbox() bool {
	return q.typ == QPUC && q.gate.queuedBytes.Load() >= ucPauseBytes
}
