package rxe

import "github.com/gorxe/gorxe/wire"

// The checks of a request, in the order and under the names of the kernel's
// rxe_resp.c: checkPSN, checkOpSeq, checkOpValid, checkResource, checkLength,
// checkRKey. The PSN is checked by each service for itself: see requestRC and
// requestUC. The key is checked by the operation, because responses that wait
// must be sent between the check of the length and that of the key.

// check makes the checks of a request that has the expected PSN, except that of
// its key. A SEND, or a WRITE with immediate data, has its receive work request
// afterwards.
func (r *responder) check(q *QP, pkt packet, st *step) fault {
	if !r.checkOpSeq(pkt.Info()) {
		return faultSequence
	}
	if !q.checkOpValid(pkt.Packet) {
		return faultQPAccess
	}
	if f := r.checkResource(q, pkt.Packet, st); f != faultNone {
		return f
	}
	return r.checkLength(q, pkt)
}

// checkPSN compares the PSN of an RC request with the expected one and answers
// what is ahead of it or behind it (check_psn). It reports whether the request
// must be executed.
func (r *responder) checkPSN(q *QP, pkt packet, st *step) bool {
	switch ahead := pkt.PSN().Diff(r.psn); {
	case ahead > 0:
		r.nakSequence(q, st)
		return false
	case ahead < 0:
		r.duplicateRequest(q, pkt.Packet, st)
		return false
	}
	if r.nakSent {
		r.nakSent = false
		r.cancelNAK()
	}
	return true
}

// nakSequence answers a request beyond the expected one: one NAK that names the
// missing PSN, and silence until that arrives (IBA 9.7.4.1).
func (r *responder) nakSequence(q *QP, st *step) {
	q.tallies.stats.OutOfSequence.Add(1)
	if r.nakSent {
		q.dev.counters.OutOfSeqDrop.Add(1)
		return
	}
	if !r.flushPayload(q, st) {
		return
	}
	q.dev.counters.OutOfSeqRequest.Add(1)
	r.nakSent = true
	r.ack = acking{} // implied by the NAK
	q.tallies.stats.SeqNAKsSent.Add(1)
	r.respond(q, response{
		kind: respondAck, psn: r.psn, msn: r.msn,
		syndrome: wire.SyndromeNAK(wire.NAKPSNSequence),
	})
}

const (
	// hasResponse are the requests with a response of their own, which
	// max_dest_rd_atomic limits.
	hasResponse = wire.OpRead | wire.OpAtomic | wire.OpAtomicWrite | wire.OpFlush
	messageKind = wire.OpSend | wire.OpWrite
)

// checkOpSeq reports whether a packet may follow the one before it
// (check_op_seq; IBA 9.7.4.1).
func (r *responder) checkOpSeq(info *wire.OpInfo) bool {
	if info.Has(wire.OpStart) {
		return r.openMessage == 0
	}
	return r.openMessage != 0 && info.Has(r.openMessage)
}

// checkOpValid reports whether qp_access_flags allow the operation
// (check_op_valid).
func (q *QP) checkOpValid(pkt wire.Packet) bool {
	info := pkt.Info()
	var need Access
	switch {
	case info.Has(wire.OpWrite | wire.OpAtomicWrite):
		need = AccessRemoteWrite
	case info.Has(wire.OpRead):
		need = AccessRemoteRead
	case info.Has(wire.OpAtomic):
		need = AccessRemoteAtomic
	case info.Has(wire.OpFlush):
		need = flushAccess(pkt)
	}
	return q.attr.Access&need == need
}

// chooseSRQ makes the SRQ that a request names the target's intake. Each packet names it, and those
// of one message name the same one (IBA A14). The number may have lost its SRQ since the last
// packet.
func (r *responder) chooseSRQ(q *QP, pkt wire.Packet, st *step) fault {
	s := q.dev.xrcSRQs.lookup(pkt.XRCSRQN())
	switch {
	case s == nil || s.xrc.xrcd != q.xrcd:
		return faultSRQN
	case s == q.srq:
		return faultNone
	case !pkt.Info().Has(wire.OpStart):
		return faultSRQN
	case !r.flushPayload(q, st): // it completes receives of the SRQ before
		return faultSRQN // the QP fails because of that
	}
	if r.recv.hasWQE { // for a message that its sender has given up
		r.recv.hasWQE = false
		q.pushRecvError(r.recv.wqe.ID, WCFlushErr)
	}
	q.intake, q.srqn = intake{srq: s, recvCQ: s.xrc.cq, pd: s.pd}, s.xrc.num
	return faultNone
}

// checkResource makes sure that the responder has what the request uses up: a
// place for its response, or a receive work request (check_resource).
func (r *responder) checkResource(q *QP, pkt wire.Packet, st *step) fault {
	info := pkt.Info()
	if info.Has(wire.HasXRCETH) {
		if f := r.chooseSRQ(q, pkt, st); f != faultNone {
			return f
		}
	}
	if info.Has(hasResponse) && (q.attr.MaxDestRdAtomic == 0 || r.resourcesFull(q, st)) {
		return faultDepth
	}
	if info.Has(wire.OpRecv) {
		if q.withholdsReceive() {
			return faultNoRecv
		}
		return r.getRecvWQE(q)
	}
	return faultNone
}

// withholdsReceive reports whether WorkFaults says that the message at hand finds no receive work
// request.
func (q *QP) withholdsReceive() bool { return q.faults != nil && q.faults.NoReceive(q) }

// getRecvWQE takes the next receive work request, unless the responder has taken
// it already (get_srq_wqe and the receive queue's side of check_resource).
func (r *responder) getRecvWQE(q *QP) fault {
	recv := &r.recv
	if !recv.hasWQE {
		if recv.hasWQE, recv.malformed = q.popRecv(&recv.wqe); !recv.hasWQE {
			if q.srq != nil && q.srq.broken() {
				return faultOverflow
			}
			return faultNoRecv
		}
	}
	recv.measure()
	if recv.malformed {
		return faultRecvMalformed
	}
	return faultNone
}

// measure prepares for a message from its beginning.
func (recv *receiving) measure() {
	recv.capacity = 0
	for i := range recv.wqe.SGL {
		recv.capacity += uint64(recv.wqe.SGL[i].Length)
	}
	recv.rewind()
}

// checkLength checks the packet's payload, and the message's length as far as it
// is known (rxe_resp_check_length).
func (r *responder) checkLength(q *QP, pkt packet) fault {
	info, size := pkt.Info(), len(pkt.Payload())
	ok, message := true, uint64(0)
	switch {
	case info.Has(wire.OpSend):
		ok, message = pkt.validLength(q.mtu()), r.recv.bytes+uint64(size)
	case info.Has(wire.OpWrite):
		w, n := r.inboundWrite(pkt), uint32(size)
		ok = pkt.validLength(q.mtu()) && n <= w.left && info.Has(wire.OpEnd) == (n == w.left)
		message = uint64(w.total)
	case info.Has(wire.OpRead):
		ok, message = size == 0, uint64(pkt.DMALen())
	case info.Has(wire.OpAtomic):
		ok = size == 0
	case info.Has(wire.OpAtomicWrite):
		ok = size == atomicBytes && pkt.DMALen() == atomicBytes
	case info.Has(wire.OpFlush):
		_, level := pkt.FlushType()
		ok = size == 0 && flushAccess(pkt.Packet) != 0 && level <= wire.FlushMR && pkt.DMALen() <= MaxMessage
	}
	if !ok {
		r.misfit = pkt.otherMTU(q.attr.PathMTU)
		return faultLength
	}
	return q.inboundMessage(message)
}

// validLength checks a packet's payload against its place in the message
// (IBA 9.7.4.1.6 to 9.7.4.1.8).
func (pkt packet) validLength(mtu int) bool {
	size, full := len(pkt.Payload()), int(pkt.count)*mtu
	switch info := pkt.Info(); {
	case info.Has(wire.OpFirst | wire.OpMiddle):
		return size == full
	case info.Has(wire.OpLast) || pkt.count > 1:
		return size > full-mtu && size <= full
	default:
		return size <= full
	}
}

// otherMTU returns how long a packet is whose sender has another path MTU, or 0 if nothing suggests
// that it has.
func (pkt packet) otherMTU(mtu MTU) MTU {
	size := len(pkt.Payload()) / int(pkt.count)
	switch {
	case pkt.Info().Has(wire.OpFirst|wire.OpMiddle) && size != int(mtu) && MTU(size).Valid(),
		size > int(mtu) && size <= int(maxMTU):
		return MTU(size)
	}
	return 0
}

// checkRKey checks the n bytes that a request names, for one or more remote
// rights (check_rkey). The region is in use until the caller releases ref.
func (q *QP) checkRKey(rkey wire.RKey, va, n uint64, need Access) (ref regionRef, f fault) {
	ref, why := q.remoteAccess(q.pd, rkey, va, n, need)
	if why != keyOK {
		return regionRef{}, faultRemoteAccess
	}
	return ref, faultNone
}
