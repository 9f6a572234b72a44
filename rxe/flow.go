package rxe

import (
	"math"
	"sync/atomic"
)

// The requester asks mayGoOn before each message, and stops for one of these reasons. The question
// changes nothing. If the answer is a hold, runRequester calls hold, which makes sure that
// something ends it.

// hold is a reason for the requester not to go on.
type hold uint8

// Each hold, and what ends it. Those from holdRNR on are counted.
const (
	goOn          hold = iota
	goOnAnyway         // the peer takes nothing, for longer than the requester waits for it
	holdIdle           // a posted work request
	holdState          // Modify
	holdFailed         // nothing: the work request fails once those before it have completed
	holdRNR            // the end of the time for which the peer asked
	holdPause          // the end of a pause, which another hold or chaos began
	holdRate           // the time when the rate allows a packet (pacing_ecn.go)
	holdAdmission      // other queue pairs that become idle, or admissionDelay (admission.go)
	holdYield          // the receivers on this device have run (run_queue.go)
	holdPeer           // UC within the device: less in the peer's inbox, or ucPauseLimit
	holdQuantum        // UC to another device: ucQuantumPause
	holdInbox          // UC: the thread that has locked the QP has run its inbox
	holdWindow         // an acknowledgement
	holdReads          // an answer to a READ or an atomic (max_rd_atomic)
	holdFence          // an answer to all of them
	holdDrain          // the completion of all requests before a local one
	numHolds
)

// holdNames are the names of the counters.
var holdNames = [numHolds]string{
	holdRNR: "wait_rnr", holdPause: "wait_pause", holdRate: "wait_rate", holdAdmission: "wait_admission", holdYield: "wait_yield",
	holdPeer: "wait_peer", holdQuantum: "wait_quantum", holdInbox: "wait_inbox", holdWindow: "wait_window", holdReads: "wait_reads",
	holdFence: "wait_fence", holdDrain: "wait_drain",
}

// waits counts holds by reason.
type waits [numHolds - holdRNR]atomic.Uint64

// of returns the counter of a hold.
func (w *waits) of(why hold) *atomic.Uint64 { return &w[why-holdRNR] }

// mayGoOn returns goOn or goOnAnyway if the requester may continue with the next work request, and
// otherwise the reason why not. It changes nothing. The caller has locked the QP.
func (q *QP) mayGoOn(st *step) hold {
	switch s := &q.send; {
	case s.cur == q.sq.prod:
		return holdIdle
	case q.attr.State != QPRTS && (q.attr.State != QPSQD || !q.sq.at(s.cur).started):
		return holdState
	case s.rnrUntil != 0:
		return holdRNR
	case s.pausedUntil != 0:
		return holdPause
	case q.rate.limited() && q.rateWait(st.now) > 0:
		return holdRate
	case q.lacksAdmission():
		return holdAdmission
	case st.sinceYield >= yieldBytes && (q.typ == QPUD || q.typ == QPRaw || q.peerIsLocal()):
		return holdYield
	case q.typ == QPUC:
		return q.mayGoOnUC(st.now)
	}
	return goOn
}

// mayGoOnUC is mayGoOn for a UC sender, which has no window.
//
// On one device it would fill the inbox of a receiver that merely waits for a CPU, and what does
// not fit is lost. Between two programs of one host nothing should be lost that way. So the sender
// pauses while much is queued in that inbox. A receiver that has taken nothing for ucPauseLimit
// gets no more consideration than on a network.
//
// Over a network a UC sender cannot know how much has been received. So it pauses after each
// quantum. If the receiver is on the same machine, the sender then gets less CPU than the receiver,
// which does not pause while it has packets to process.
//
// It also stops if much has been queued for itself meanwhile. RC's window keeps it from sending for
// so long that the inbox overflows. UC would send all that was posted.
func (q *QP) mayGoOnUC(now Time) hold {
	why := goOn
	if !q.peerIsLocal() {
		if q.req.quantumSent >= ucQuantum {
			return holdQuantum
		}
	} else if peer := q.dev.lookupQP(q.attr.DestQPN); peer != nil && peer != q && peer.gate.queuedBytes.Load() >= ucPauseBytes {
		if since := q.req.pausedSince; since == 0 || now-since < ucPauseLimit {
			return holdPeer
		}
		why = goOnAnyway
	}
	if q.gate.queuedBytes.Load() >= ucPauseBytes {
		return holdInbox
	}
	return why
}

// turn returns how many bytes the requester may send before it asks again.
func (q *QP) turn(st *step) int {
	switch {
	case q.typ == QPUD || q.peerIsLocal():
		return yieldBytes - st.sinceYield
	case q.typ == QPUC:
		return ucQuantum - q.req.quantumSent
	default:
		return math.MaxInt
	}
}

// hold stops the requester. It reports false if it may go on all the same.
func (q *QP) hold(why hold, st *step) bool {
	switch why {
	case holdRate:
		q.send.pausedUntil = st.now + q.rateWait(st.now)
	case holdAdmission:
		if q.activeEpoch.Load() == 0 && q.dev.admission.admit(q, st.now) {
			return false
		}
	case holdYield:
		q.dev.runQueue.yield(q)
	case holdPeer:
		if q.req.pausedSince == 0 {
			q.req.pausedSince = st.now
		}
		q.send.pausedUntil = st.now + ucPauseStep
	case holdQuantum:
		q.req.quantumSent = 0
		// Sending the quantum took longer than the pause, so that begins now.
		q.send.pausedUntil = q.dev.cfg.Clock.Now() + ucQuantumPause
	default:
	}
	if why >= holdRNR {
		q.tallies.stats.Waits.of(why).Add(1)
	}
	return true
}
