package rxe

// A UC sender has no window. On one device it would fill the inbox of a receiver
// that merely waits for a CPU, and what does not fit is lost. Between two programs
// of one host nothing should be lost that way. So the sender pauses while much is
// queued in that inbox. A receiver that has taken nothing for ucPauseLimit gets no
// more consideration than on a network.
//
// Over a network a UC sender cannot know how much has been received. So it pauses
// after each quantum. If the receiver is on the same machine, the sender then gets
// less CPU than the receiver, which does not pause while it has packets to process.

// pauseUC reports whether the requester must wait for the receiver, and sets the
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

// pauseAfterQuantum reports whether a quantum was sent, and sets the time for the
// next. The pause begins now and not at o.now, when the quantum was begun: sending
// it takes longer than the pause.
func (q *QP) pauseAfterQuantum() bool {
	if q.req.quantumSent < ucQuantum {
		return false
	}
	q.req.quantumSent = 0
	q.send.pausedUntil = q.dev.cfg.Clock.Now() + ucQuantumPause
	return true
}

// yieldsToInbox reports whether the requester must stop because much has been
// queued for this QP meanwhile. The thread that has locked the QP runs the inbox
// before it unlocks it, and the requester then continues. RC's window keeps it from
// sending for so long that the inbox overflows. UC would send all that was posted.
func (q *QP) yieldsToInbox() bool {
	return q.typ == QPUC && q.gate.queuedBytes.Load() >= ucPauseBytes
}
