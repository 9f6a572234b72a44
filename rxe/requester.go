package rxe

import "github.com/gorxe/gorxe/wire"

// The requester turns send work requests into packets (rxe_req.c). Its position is
// (cur, psn): every header follows from the work request and the distance of psn
// from the request's first PSN. To go back after a NAK, a timeout or an RNR wait,
// it sets the position. So a retry resumes in the middle of a message, as IBA
// 9.7.5.1 allows and Linux does.

// requester holds what only the requester uses. Its position is in sender.
type requester struct {
	sinceAckReq int  // payload bytes since the last AckReq
	pausedSince Time // since when holdPeer has paused it; 0: it is not paused
	quantumSent int  // payload bytes since a UC QP's last pause
	resent      bool // the outbox of this step has retransmissions
}

// runRequester sends what may be sent now (rxe_requester). The caller has locked
// the QP.
func (q *QP) runRequester(st *step) {
	before := q.send.psn
	for {
		why := q.mayGoOn(st)
		if why <= goOnAnyway {
			if why == goOn {
				q.req.pausedSince = 0
			}
			why = q.step(q.sq.at(q.send.cur), st)
		}
		if why != goOn && q.hold(why, st) {
			break
		}
	}
	if q.send.psn != before {
		q.resp.held.requested(q, st)
	}
	q.retire()
	if q.reliable && q.send.retransmitAt == 0 && q.send.rnrUntil == 0 && q.send.una != q.send.psn {
		q.comp.armRetransmit(q, st.now)
	}
}

// step continues with wqe.
func (q *QP) step(wqe *sendEntry, st *step) hold {
	switch {
	case wqe.status != WCSuccess:
		return holdFailed
	case wqe.isLocalOp():
		return q.doLocalOp(wqe)
	case !wqe.started:
		if why := q.begin(wqe, st); why != goOn {
			return why
		}
	}
	if wqe.done {
		return goOn
	}
	return q.sendSome(wqe, st)
}

// begin gives a work request its PSNs, unless it must wait.
func (q *QP) begin(wqe *sendEntry, st *step) hold {
	switch {
	case wqe.flags&SendFence != 0 && q.send.reads.n > 0:
		return holdFence // IBA 10.8.3.3: after all earlier READs and atomics
	case q.postpones(wqe):
		return holdPause
	case q.chaos != nil && !q.chaos.fenced(q, wqe):
		return holdFailed
	}
	if q.typ == QPUD && int(wqe.length) > int(q.dev.activeMTU()) {
		// IBA C10-93.1.1, and rxe_req.c: the request completes, and nothing is
		// sent.
		wqe.started, wqe.done = true, true
		q.send.cur++
		return goOn
	}
	packets := uint32(1)
	switch {
	case q.typ == QPUD || wqe.op == WRFlush:
	case q.typ == QPRaw:
		return q.sendFrame(st)
	default:
		packets = readPackets(wqe.length, q.mtu())
	}
	wqe.begin(q.send.psn, packets)
	q.began(wqe)
	return goOn
}

// begin gives the work request its PSNs.
func (wqe *sendEntry) begin(first wire.PSN, packets uint32) {
	wqe.started, wqe.packets = true, packets
	wqe.first, wqe.last = first, first.Add(packets-1)
}

// doLocalOp executes BIND MW, LOCAL INV and NOP once all earlier requests have completed
// (rxe_do_local_ops). So nothing that is outstanding uses the key that changes.
func (q *QP) doLocalOp(wqe *sendEntry) hold {
	q.retire()
	if q.sq.cons != q.send.cur || q.sq.empty() {
		return holdDrain
	}
	if wqe.op != WRNop && q.chaos != nil && !q.chaos.invalidates(q) {
		return holdFailed
	}
	switch wqe.op {
	case WRNop:
	case WRBindMW:
		wqe.status = q.bindMW(wqe.bind)
	default:
		wqe.status = q.localInvalidate(wqe.invRKey)
	}
	wqe.started = true
	if wqe.status != WCSuccess {
		q.blame(Failure{Cause: CauseWindow, PSN: q.send.psn, Key: q.refused})
		q.refused = KeyRefusal{}
		return holdFailed
	}
	wqe.done = true
	q.send.cur++
	return goOn
}

// sendSome sends the next packets of wqe.
func (q *QP) sendSome(wqe *sendEntry, st *step) hold {
	room := uint32(groupPackets)
	if q.reliable {
		out := q.send.psn.Diff(q.send.una)
		if out >= q.send.window {
			return holdWindow
		}
		room = uint32(q.send.window - out)
	}
	switch {
	case !wqe.needsResponse():
		if q.rate.limited() {
			room = q.allowed(room, st.now)
		}
		return q.sendData(wqe, room, st)
	case q.send.reads.n >= max(int(q.attr.MaxRdAtomic), 1):
		return holdReads
	case wqe.op == WRRead:
		return q.sendRead(wqe, room, st)
	default:
		return q.sendSingle(wqe, st)
	}
}

// advance moves the position past n PSNs of wqe.
func (q *QP) advance(wqe *sendEntry, n uint32) {
	s := &q.send
	if s.psn.Less(s.limit) {
		q.tallies.stats.Retransmits.Add(uint64(n))
		q.req.resent = true
	}
	s.psn = s.psn.Add(n)
	if s.limit.Less(s.psn) {
		s.limit = s.psn
	}
	if s.psn.Diff(wqe.last) > 0 {
		s.cur++
		if !q.reliable {
			wqe.done = true
			s.una = s.psn
		}
	}
}
