package rxe

import (
	"encoding/binary"

	"github.com/gorxe/gorxe/wire"
)

// The operations, under the names that rxe_resp.c gives them. Each checks the key
// and then acts. The expected PSN has moved only if it returns faultNone.

// execute does what a request asks for, once check has passed it.
func (r *responder) execute(q *QP, pkt packet, st *step) fault {
	switch info := pkt.Info(); {
	case info.Has(wire.OpSend):
		return r.sendDataIn(q, pkt, st)
	case info.Has(wire.OpWrite):
		return r.writeDataIn(q, pkt, st)
	case info.Has(wire.OpRead):
		return r.queueRead(q, pkt.Packet, st)
	case info.Has(wire.OpAtomic):
		return r.atomicReply(q, pkt.Packet, st)
	case info.Has(wire.OpAtomicWrite):
		return r.atomicWriteReply(q, pkt.Packet, st)
	case info.Has(wire.OpFlush):
		return r.processFlush(q, pkt.Packet, st)
	default:
		return faultSequence
	}
}

// sendDataIn puts a packet of a SEND into the receive work request (send_data_in).
func (r *responder) sendDataIn(q *QP, pkt packet, st *step) fault {
	if f := r.scatter(q, pkt.Payload(), st); f != faultNone {
		return f
	}
	if pkt.Info().Has(wire.OpEnd) {
		if f := r.doComplete(q, pkt, WCRecv, uint32(r.recv.bytes), st); f != faultNone {
			return f
		}
	}
	r.advance(pkt.Info(), pkt.count)
	return faultNone
}

// scatter puts data into the receive buffer, after what it holds already.
func (r *responder) scatter(q *QP, data []byte, st *step) fault {
	recv := &r.recv
	if recv.bytes+uint64(len(data)) > recv.capacity {
		return faultRecvShort
	}
	recv.bytes += uint64(len(data))
	for len(data) > 0 {
		rest, ok := recv.at.rest(recv.wqe.SGL)
		if !ok {
			return faultRecvShort
		}
		n := min(len(data), int(rest.Length))
		if !r.pend.extend(wire.OpSend, uint32(rest.LKey), rest.Addr, data[:n]) {
			if f := r.scatterChecked(q, rest, data[:n], st); f != faultNone {
				return f
			}
		}
		recv.at.off += uint32(n)
		data = data[n:]
	}
	return faultNone
}

// scatterChecked puts data at the beginning of rest. It checks all of rest if its
// key covers that, so that later pieces need no check. A buffer may be posted
// longer than it is registered, and fails only where data reaches beyond.
func (r *responder) scatterChecked(q *QP, rest SGE, data []byte, st *step) fault {
	ref, why := q.localAccess(q.recvPD(), rest, AccessLocalWrite)
	if why != keyOK {
		rest.Length = uint32(len(data))
		if ref, why = q.localAccess(q.recvPD(), rest, AccessLocalWrite); why == keyOK {
			q.refused = KeyRefusal{} // of the longer range, which is not needed
		}
	}
	if why != keyOK {
		return faultRecvAccess
	}
	checked := ref.checkedRange(uint32(rest.LKey), rest.Addr, uint64(rest.Length))
	if !r.deposit(q, ref, checked, data, wire.OpSend, st) {
		return faultRecvAccess
	}
	return faultNone
}

// writeDataIn takes a packet of an RDMA WRITE (write_data_in). It checks the whole
// range at the first packet, so that a WRITE that reaches outside changes nothing.
// In each later batch it checks the rest again, because the key may have gone by
// then.
func (r *responder) writeDataIn(q *QP, pkt packet, st *step) fault {
	info, data := pkt.Info(), pkt.Payload()
	w := r.inboundWrite(pkt)
	n := uint32(len(data))
	if n == 0 || !r.pend.extend(wire.OpWrite, uint32(w.rkey), w.va, data) {
		// the rest of the WRITE: at its first packet, all of it
		ref, f := q.checkRKey(w.rkey, w.va, uint64(w.left), AccessRemoteWrite)
		if f != faultNone && info.Has(wire.OpImm) {
			return faultImmAccess
		}
		if f != faultNone {
			return f
		}
		checked := ref.checkedRange(uint32(w.rkey), w.va, uint64(w.left))
		if n > 0 && !r.deposit(q, ref, checked, data, wire.OpWrite, st) {
			return faultRemoteAccess
		}
	}
	if q.chaos != nil && !q.mayDelay(w.rkey) && !r.placed(q, st) {
		return faultRemoteAccess
	}
	w.va += uint64(n)
	w.left -= n
	if info.Has(wire.OpImm) {
		if f := r.doComplete(q, pkt, WCRecvImm, w.total, st); f != faultNone {
			return f
		}
	}
	r.write = w
	r.advance(info, pkt.count)
	return faultNone
}

// inboundWrite returns the WRITE that a packet belongs to.
func (r *responder) inboundWrite(pkt packet) inboundWrite {
	if pkt.Info().Has(wire.OpStart) {
		return inboundWrite{rkey: pkt.RKey(), va: pkt.VA(), left: pkt.DMALen(), total: pkt.DMALen()}
	}
	return r.write
}

// deposit adds a piece to the payload that waits to be written; checked is the
// range that ref stands for. It reports false, with the QP in ERR, when earlier
// payload could not be written.
func (r *responder) deposit(q *QP, ref regionRef, checked checkedRange, data []byte, kind wire.OpFlags, st *step) bool {
	pend := &r.pend
	if !pend.batch.fits(ref.mem) || (len(pend.batch.spans) > 0 && pend.kind != kind) {
		if !r.flushPayload(q, st) {
			ref.release()
			return false
		}
	}
	if len(pend.batch.spans) == 0 {
		pend.kind, pend.psn, pend.msn = kind, r.psn, r.msn
	}
	pend.batch.addChecked(ref, checked, data)
	return true
}

// flushPayload writes the payload that waits to memory. If the address space has
// ended, the first request whose payload waited is at fault: the peer takes a NAK
// as acknowledgement of everything before it. It reports false if the QP failed.
func (r *responder) flushPayload(q *QP, st *step) bool {
	pend := &r.pend
	if len(pend.batch.spans) == 0 {
		return q.attr.State != QPErr
	}
	if c := q.chaos; c != nil {
		if err := c.writes.keep(c, &pend.batch, *pend, st.now); err != nil {
			c.failed(q, err, st)
			return false
		}
		return true
	}
	n, err := pend.batch.writeParts()
	psn, msn := pend.psn, pend.msn
	for i := range r.delivered[:n] {
		d := &r.delivered[i]
		if !r.push(q, &d.wc, d.solicited) {
			r.delivered = append(r.delivered[:0], r.delivered[i+1:]...)
			r.end(q, faultOverflow, psn, msn, st)
			return false
		}
		psn, msn = d.psn, d.msn
	}
	if err == nil {
		r.delivered = r.delivered[:0]
		return true
	}
	r.recallDelivery(n)
	r.end(q, pend.fault().inMemory(err), psn, msn, st)
	return false
}

// recallDelivery makes the receive work request of SEND n of those that were delivered the one at
// fault, if there are as many. Those before it have completed. Those behind it are flushed.
func (r *responder) recallDelivery(n int) {
	if n == len(r.delivered) {
		r.delivered = r.delivered[:0]
		return
	}
	id := r.delivered[n].wc.ID
	r.delivered = append(r.delivered[:0], r.delivered[n+1:]...)
	if r.recv.hasWQE {
		r.delivered = append(r.delivered, delivery{wc: WC{ID: r.recv.wqe.ID}})
	}
	r.recv.wqe.ID, r.recv.hasWQE = id, true
}

// fault returns what is wrong with a request whose payload cannot be written.
func (pend *pendingWrite) fault() fault {
	if pend.kind == wire.OpWrite {
		return faultRemoteAccess
	}
	return faultRecvAccess
}

// placed is flushPayload before an operation that promises that all that came before it is in
// memory. It reports false if the QP failed.
func (r *responder) placed(q *QP, st *step) bool {
	if !r.flushPayload(q, st) {
		return false
	}
	if c := q.chaos; c != nil {
		if err := c.writes.place(all); err != nil {
			c.failed(q, err, st)
			return false
		}
	}
	return true
}

// doComplete finishes the receive work request (do_complete): first the data is in
// memory, then the key is invalidated, then the completion is pushed.
func (r *responder) doComplete(q *QP, pkt packet, op WCOpcode, n uint32, st *step) fault {
	later := q.placesTogether() && q.reliable && r.pend.kind == wire.OpSend &&
		len(r.pend.batch.spans) > 0 && !pkt.Info().Has(wire.OpInv)
	if !later && !r.flushPayload(q, st) {
		return faultRecvAccess
	}
	r.wc = WC{ID: r.recv.wqe.ID, Opcode: op, ByteLen: n,
		QPN: q.qpn, SrcQP: q.attr.DestQPN, SRQN: q.srqn, PKeyIndex: q.attr.PKeyIndex}
	wc, info := &r.wc, pkt.Info()
	if f := r.recvFault(q, op); f != faultNone {
		return f
	}
	if info.Has(wire.OpInv) {
		if !r.placed(q, st) {
			return faultRecvAccess
		}
		if q.remoteInvalidate(pkt.InvRKey()) != keyOK {
			return faultInvalidate
		}
		wc.InvRKey = pkt.InvRKey()
		wc.Flags |= WCWithInv
	}
	if info.Has(wire.OpImm) {
		wc.Imm = pkt.Imm()
		wc.Flags |= WCWithImm
	}
	if q.typ == QPUD {
		// Only a datagram's buffer has a GRH (ibv_poll_cq(3)). rdma_rxe sets the flag for connected
		// QPs, too.
		wc.Flags |= WCGRH
		wc.SrcQP, wc.SL = pkt.SrcQP(), r.packetType()
	}
	r.recv.hasWQE = false
	switch c := q.chaos; {
	case later:
		r.pend.batch.endPart()
		r.delivered = append(r.delivered, delivery{*wc, pkt.Solicited(), r.psn.Add(pkt.count), (r.msn + 1) & wire.MSNMask})
		return faultNone
	case c != nil:
		if !c.receive(q, wc, pkt.Solicited(), st) {
			return faultOverflow
		}
		q.countRecv(wc)
	case !r.push(q, wc, pkt.Solicited()):
		return faultOverflow
	}
	return faultNone
}

// push adds a completion to the receive queue's CQ.
func (r *responder) push(q *QP, wc *WC, solicited bool) bool {
	if !q.pushRecv(wc, solicited) {
		return false
	}
	q.countRecv(wc)
	return true
}

func (q *QP) countRecv(wc *WC) {
	q.dev.counters.RDMARecvs.Add(1)
	if wc.Opcode == WCRecvImm {
		q.tallies.done.add(workRecvImm)
	} else {
		q.tallies.done.add(workRecv)
	}
}

// atomicBytes is the operand size of atomics and ATOMIC WRITE (IBA 9.4.5).
const atomicBytes = 8

// atomicReply does a compare-and-swap or fetch-and-add (atomic_reply).
func (r *responder) atomicReply(q *QP, pkt wire.Packet, st *step) fault {
	ref, f := r.atomicTarget(q, pkt, AccessRemoteAtomic, st)
	if f != faultNone {
		return f
	}
	var old uint64
	var err error
	if pkt.Opcode().Operation() == wire.RCCompareSwap {
		old, err = ref.mem.CompareSwap(ref.va, pkt.Compare(), pkt.SwapAdd())
	} else {
		old, err = ref.mem.FetchAdd(ref.va, pkt.SwapAdd())
	}
	ref.release()
	if err != nil {
		return faultRemoteAccess.inMemory(err)
	}
	r.answer(q, pkt, response{kind: respondAtomic, orig: old})
	return faultNone
}

// atomicWriteReply stores eight bytes at once (atomic_write_reply; IBA A19.4.2).
func (r *responder) atomicWriteReply(q *QP, pkt wire.Packet, st *step) fault {
	ref, f := r.atomicTarget(q, pkt, AccessRemoteWrite, st)
	if f != faultNone {
		return f
	}
	// The payload is bytes, like a WRITE's: memory gets them in this order.
	err := ref.mem.Store(ref.va, hostWord(pkt.Payload()))
	ref.release()
	if err != nil {
		return faultRemoteAccess.inMemory(err)
	}
	r.answer(q, pkt, response{kind: respondEmpty})
	return faultNone
}

// atomicTarget checks the eight bytes that an atomic names. Both the address in
// the request and that in memory must be multiples of eight. Everything that came
// before is in memory, and answered, when it returns.
func (r *responder) atomicTarget(q *QP, pkt wire.Packet, need Access, st *step) (regionRef, fault) {
	if pkt.VA()%atomicBytes != 0 {
		return regionRef{}, faultMisaligned
	}
	if !r.placed(q, st) {
		return regionRef{}, faultRemoteAccess
	}
	ref, f := q.checkRKey(pkt.RKey(), pkt.VA(), atomicBytes, need)
	if f == faultNone && ref.va%atomicBytes != 0 {
		ref.release()
		f = faultMisaligned
	}
	return ref, f
}

// processFlush makes what was written visible or persistent (process_flush; IBA
// A19.4.1). Writes are in memory once placed has returned, so that
// only the checks remain.
func (r *responder) processFlush(q *QP, pkt wire.Packet, st *step) fault {
	if !r.placed(q, st) {
		return faultRemoteAccess
	}
	need := flushAccess(pkt)
	if _, level := pkt.FlushType(); level == wire.FlushMR {
		// The key stands for the whole region; the range means nothing.
		if !q.flushesRegion(pkt.RKey(), need) {
			return faultRemoteAccess
		}
	} else {
		ref, f := q.checkRKey(pkt.RKey(), pkt.VA(), uint64(pkt.DMALen()), need)
		if f != faultNone {
			return f
		}
		ref.release()
	}
	r.answer(q, pkt, response{kind: respondEmpty})
	return faultNone
}

func flushAccess(pkt wire.Packet) (need Access) {
	placement, _ := pkt.FlushType()
	if placement&wire.FlushGlobal != 0 {
		need |= AccessFlushGlobal
	}
	if placement&wire.FlushPersistent != 0 {
		need |= AccessFlushPersist
	}
	return need
}

// answer records a request that is executed only once, with the result that every
// replay gets, and queues its response.
func (r *responder) answer(q *QP, pkt wire.Packet, resp response) {
	resp.psn = pkt.PSN()
	r.advance(pkt.Info(), 1)
	resp.msn = r.msn
	r.history.add(resource{response: resp, opcode: pkt.Opcode(), last: resp.psn})
	r.ack = acking{} // implied by the response
	r.respond(q, resp)
}

// flushesRegion reports whether a key allows flushing its whole region, whatever
// range it covers.
func (q *QP) flushesRegion(rkey wire.RKey, need Access) bool {
	k := q.dev.lookupKey(uint32(rkey))
	if k == nil {
		return false
	}
	var e *extent
	if k.mw != nil {
		if b := k.mw.bound.Load(); b != nil {
			e = &b.extent
		}
	} else if reg := k.mr.reg.Load(); reg != nil {
		e = &reg.extent
	}
	return e != nil && e.check(q, q.pd, uint32(rkey), e.base, 0, need) == keyOK
}

// queueRead accepts a READ. Its data is read when it is sent (read_reply).
func (r *responder) queueRead(q *QP, pkt wire.Packet, st *step) fault {
	n := pkt.DMALen()
	ref, f := q.checkRKey(pkt.RKey(), pkt.VA(), uint64(n), AccessRemoteRead)
	if f != faultNone {
		return f
	}
	ref.release()
	if !r.placed(q, st) {
		return faultRemoteAccess
	}
	if c := q.chaos; c != nil && r.pace.until == 0 {
		if late := c.draw(lateResponse); late != 0 {
			r.pace.until = st.now + Time(late)
		}
	}
	packets := readPackets(n, q.mtu())
	resp := response{kind: respondRead, psn: pkt.PSN(), rkey: pkt.RKey(), pd: q.pd, va: pkt.VA(), left: n, total: n}
	r.psn = r.psn.Add(packets)
	r.msn = (r.msn + 1) & wire.MSNMask
	resp.msn = r.msn
	r.history.add(resource{response: resp, opcode: pkt.Opcode(), last: r.psn.Sub(1)})
	r.ack = acking{} // implied by the response
	r.respond(q, resp)
	return faultNone
}

// readPackets returns the number of responses to a READ of n bytes, at least one.
func readPackets(n uint32, mtu int) uint32 {
	if n == 0 {
		return 1
	}
	return (n-1)/uint32(mtu) + 1
}

// hostWord returns eight bytes of payload as the number that memory holds when they
// lie there in this order.
func hostWord(b []byte) uint64 { return binary.NativeEndian.Uint64(b) }
