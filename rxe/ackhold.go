package rxe

import "github.com/gorxe/gorxe/wire"

// An acknowledgement costs a system call, a packet, and a wake-up of the peer. If the
// program answers each message with one of its own, the acknowledgement can go with that
// answer, in one burst. So the responder holds it back for a short time, once the program
// has answered several messages in a row.
//
// The peer's program may wait for the acknowledgement and nothing else. So a held one that
// had to leave alone ends the habit: the next ones leave at once, until answers come again.
// NAKs and the responses to READs and atomics are never held, and a held acknowledgement
// leaves before them.

// ackHold is a held acknowledgement, and what the responder knows of the program's habit.
type ackHold struct {
	until   Time     // the held one leaves then; 0: none is held
	alone   Time     // when the last ACK was sent without a request behind it; 0: none
	since   wire.PSN // what the first acknowledgement of this hold named
	answers uint8    // messages in a row that a request followed in time
	ack     response // the held one
}

// hold reports whether an acknowledgement that is due stays here, and keeps it if so.
func (h *ackHold) hold(q *QP, ack *response, now Time) bool {
	switch {
	case h.answers < ackHoldAnswers, q.resp.openMessage != 0, q.attr.State != QPRTS, q.peerIsLocal():
		return false
	case h.until == 0:
		h.until, h.since = now+ackHoldTime, ack.psn
	case now >= h.until, ack.psn.Diff(h.since) >= ackHoldPackets:
		return false
	}
	h.ack = *ack
	return true
}

// leftAlone notes that an acknowledgement left without a request.
func (h *ackHold) leftAlone(now Time) {
	if h.until != 0 || h.alone != 0 {
		h.answers = 0 // it was held in vain, or the program did not answer the one before
	}
	h.until, h.alone = 0, now
}

// requested notes that the requester has sent a request, and sends the acknowledgement
// that is held behind it.
func (h *ackHold) requested(q *QP, st *step) {
	if h.until != 0 {
		h.until, h.alone = 0, 0
		h.ack.emit(q, st)
		return
	}
	switch {
	case h.alone == 0:
	case st.now-h.alone >= ackHoldTime:
		h.answers = 0
	case h.answers < ackHoldAnswers:
		h.answers++
	}
	h.alone = 0
}

// release sends the acknowledgement that is held, if there is one.
func (h *ackHold) release(q *QP, st *step) {
	if h.until != 0 {
		h.leftAlone(st.now)
		h.ack.emit(q, st)
	}
}

// releaseLast is release for a QP that is about to forget its peer, whose program may wait
// for the acknowledgement of its last message. The caller has locked the QP.
func (h *ackHold) releaseLast(q *QP) {
	if h.until == 0 {
		return
	}
	st := q.dev.newStep()
	h.release(q, st)
	st.flush()
	st.close()
}
