package rxe

import "errors"

// A responder with credits tells its peer how many receive work requests it has, and a requester
// without a credit sends no message that takes one (IBA 9.7.7.2). This device and rdma_rxe give no
// credits. But if the peer is a queue pair of the same device, the requester can look at its
// receive queue. A message that finds no receive work request has to wait for the RNR time, which
// is longer than most programs need to post the next one.

// ErrNoCredit is returned by QP.PostSendCredited. The peer has no receive work request for the next
// message.
var ErrNoCredit = errors.New("no receive work request at the peer")

// PostSendCredited is PostSend, except that it ends with ErrNoCredit at the first message without a
// credit: a peer on the same device has no receive work request for it. The caller may post the
// rest later. Other queue pairs may take receive work requests from a shared queue meanwhile, so a
// posted message may still find none.
//
// It posts all work requests if it knows of no credits. That is so if the peer is on another
// device, or has its receive queue in the engine's memory (QP.PostRecv), and while the requester
// waits for an RNR time.
func (q *QP) PostSendCredited(wrs []SendWR) (n int, err error) { return q.post(wrs, true) }

// credited returns how many of the work requests come before the first message without a credit.
func (q *QP) credited(wrs []SendWR) int {
	credits, known := 0, false
	for i := range wrs {
		if !takesReceive(wrs[i].Op) {
			continue
		}
		if !known {
			if credits, known = q.credits(); !known {
				break
			}
		}
		if credits--; credits < 0 {
			return i
		}
	}
	return len(wrs)
}

// takesReceive reports whether messages of an operation take a receive work request.
func takesReceive(op WROpcode) bool {
	return op == WRSend || op == WRSendImm || op == WRSendInv || op == WRWriteImm
}

// credits returns how many more messages find a receive work request at the peer, if that is known.
// It is less by all work requests that have not completed, as if each took one. The caller has
// locked the QP.
func (q *QP) credits() (n int, known bool) {
	switch {
	case q.typ != QPRC || q.attr.State != QPRTS || q.send.rnrUntil != 0:
		return 0, false
	case !q.peerIsLocal() || q.intercepted():
		return 0, false
	}
	peer := q.dev.lookupQP(q.attr.DestQPN)
	if peer == nil {
		return 0, false
	}
	n, known = peer.receives()
	return n - int(q.sq.prod-q.sq.cons), known
}

// receives returns how many receive work requests wait, if a thread may ask that has not locked the
// QP.
func (q *QP) receives() (n int, known bool) {
	switch {
	case q.typ == QPXRCTgt:
		return 0, false // its SRQ changes with the QP locked
	case q.srq != nil:
		return q.srq.waiting()
	case q.rring != nil:
		return 0, false
	}
	return waitingIn(q.rq)
}
