package rxe

import (
	"encoding/binary"

	"github.com/gorxe/gorxe/wire"
)

// The operations: each checks length, then key, then acts; only when it
// returns faultNone has the expected PSN moved.

// sendDataIn takes a packet of a SEND into the receive work request in hand.
func (r *responder) sendDataIn(q *QP, pkt packet, o *outbox) fault {
	info, data := pkt.Info(), pkt.Payload()
	if !pkt.validLength(q.mtu()) || r.recv.bytes+uint64(len(data)) > MaxMessage {
		return faultLength
	}
	if !r.drain(q, o) {
		return faultRemoteAccess
	}
	if f := r.scatter(q, data, o); f != faultNone {
		return f
	}
	if info.Has(wire.OpEnd) {
		if f := r.doComplete(q, pkt.Packet, WCRecv, uint32(r.recv.bytes), o); f != faultNone {
			return f
		}
	}
	r.advance(info, pkt.count)
	return faultNone
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

// scatter puts data into the receive buffer, after what is there already.
func (r *responder) scatter(q *QP, data []byte, o *outbox) fault {
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
			if f := r.scatterChecked(q, rest, data[:n], o); f != faultNone {
				return f
			}
		}
		recv.at.off += uint32(n)
		data = data[n:]
	}
	return faultNone
}

// scatterChecked deposits the first bytes of rest, under a lease of all of it
// if its key covers that: a buffer may be announced longer than it is
// registered, and fails only where data reaches beyond.
func (r *responder) scatterChecked(q *QP, rest SGE, data []byte, o *outbox) fault {
	ref, why := q.localAccess(rest, AccessLocalWrite)
	if why != keyOK {
		rest.Length = uint32(len(data))
		ref, why = q.localAccess(rest, AccessLocalWrite)
	}
	if why != keyOK {
		return faultRecvAccess
	}
	checked := ref.checkedRange(uint32(rest.LKey), rest.Addr, uint64(rest.Length))
	if !r.deposit(q, ref, checked, data, wire.OpSend, o) {
		return faultRecvAccess
	}
	return faultNone
}

// writeDataIn takes a packet of an RDMA WRITE. The range is checked as a whole
// at the first packet, so that a WRITE that reaches outside changes nothing,
// and what is left of it again in each batch: the key may be gone by then.
func (r *responder) writeDataIn(q *QP, pkt packet, o *outbox) fault {
	info, data := pkt.Info(), pkt.Payload()
	w := r.inboundWrite(pkt)
	n := uint32(len(data))
	if w.total > MaxMessage || !pkt.validLength(q.mtu()) ||
		n > w.left || info.Has(wire.OpEnd) != (n == w.left) {
		return faultLength
	}
	if !r.drain(q, o) {
		return faultRemoteAccess
	}
	if n == 0 || !r.pend.extend(wire.OpWrite, uint32(w.rkey), w.va, data) {
		// All that is left of the WRITE: at its first packet, the whole.
		ref, why := q.remoteAccess(w.rkey, w.va, uint64(w.left), AccessRemoteWrite)
		if why != keyOK {
			return faultRemoteAccess
		}
		checked := ref.checkedRange(uint32(w.rkey), w.va, uint64(w.left))
		if n > 0 && !r.deposit(q, ref, checked, data, wire.OpWrite, o) {
			return faultRemoteAccess
		}
	}
	w.va += uint64(n)
	w.left -= n
	if info.Has(wire.OpImm) {
		if f := r.doComplete(q, pkt.Packet, WCRecvImm, w.total, o); f != faultNone {
			return f
		}
	}
	r.write = w
	r.advance(info, pkt.count)
	return faultNone
}

// inboundWrite is the WRITE that a packet is of.
func (r *responder) inboundWrite(pkt packet) inboundWrite {
	if pkt.Info().Has(wire.OpStart) {
		return inboundWrite{rkey: pkt.RKey(), va: pkt.VA(), left: pkt.DMALen(), total: pkt.DMALen()}
	}
	return r.write
}

// deposit adds a piece to the payload that waits to be written, under a lease of
// all that g was checked for. It reports false when what waited before could not be:
// the QP has failed then.
func (r *responder) deposit(q *QP, ref regionRef, checked checkedRange, data []byte, kind wire.OpFlags, o *outbox) bool {
	pend := &r.pend
	if !pend.batch.fits(ref.mem) || (len(pend.batch.spans) > 0 && pend.kind != kind) {
		if !r.settle(q, o) {
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

// settle writes the payload that waits to memory. An address space that is
// gone is a fault of the first request whose payload waited: the peer takes a
// NAK as acknowledgement of all before it. It reports false if the QP failed.
func (r *responder) settle(q *QP, o *outbox) bool {
	pend := &r.pend
	if len(pend.batch.spans) == 0 {
		return q.attr.State != QPErr
	}
	err := pend.batch.write()
	if err == nil {
		return true
	}
	f := faultRecvAccess
	if pend.kind == wire.OpWrite {
		f = faultRemoteAccess
	}
	f = f.inMemory(err)
	f.count(&q.dev.counters)
	if r.drain(q, o) {
		r.terminate(q, f, pend.psn, pend.msn, o)
	}
	return false
}

// doComplete finishes the receive work request in hand: the data is in memory,
// the key invalidated, then the completion.
func (r *responder) doComplete(q *QP, pkt wire.Packet, op WCOpcode, n uint32, o *outbox) fault {
	if !r.settle(q, o) {
		return faultRecvAccess
	}
	// rdma_rxe sets the GRH flag on connected QPs as well.
	r.wc = WC{ID: r.recv.wqe.ID, Opcode: op, Flags: WCGRH, ByteLen: n,
		QPN: q.qpn, SrcQP: q.attr.DestQPN, PKeyIndex: q.attr.PKeyIndex}
	wc, info := &r.wc, pkt.Info()
	if info.Has(wire.OpInv) {
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
		wc.SrcQP, wc.SL = pkt.SrcQP(), r.packetType()
	}
	r.recv.hasWQE = false
	if !q.recvCQ.push(wc, pkt.Solicited()) {
		return faultOverflow
	}
	q.dev.counters.RDMARecvs.Add(1)
	return faultNone
}

// atomicReply does a compare-and-swap or fetch-and-add.
func (r *responder) atomicReply(q *QP, pkt wire.Packet, o *outbox) fault {
	const size = 8
	switch {
	case len(pkt.Payload()) != 0:
		return faultLength
	case pkt.VA()%size != 0:
		return faultMisaligned
	case !r.settle(q, o) || !r.drain(q, o):
		return faultRemoteAccess
	}
	ref, why := q.remoteAccess(pkt.RKey(), pkt.VA(), size, AccessRemoteAtomic)
	if why != keyOK {
		return faultRemoteAccess
	}
	if ref.va%size != 0 {
		ref.release()
		return faultMisaligned
	}
	var old uint64
	var err error
	if pkt.Opcode() == wire.RCCompareSwap {
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

// atomicWriteReply stores eight bytes at once (IBA A19.4.2).
func (r *responder) atomicWriteReply(q *QP, pkt wire.Packet, o *outbox) fault {
	const size = 8
	data := pkt.Payload()
	switch {
	case len(data) != size || pkt.DMALen() != size:
		return faultLength
	case pkt.VA()%size != 0:
		return faultMisaligned
	case !r.settle(q, o) || !r.drain(q, o):
		return faultRemoteAccess
	}
	ref, why := q.remoteAccess(pkt.RKey(), pkt.VA(), size, AccessRemoteWrite)
	if why != keyOK {
		return faultRemoteAccess
	}
	if ref.va%size != 0 {
		ref.release()
		return faultMisaligned
	}
	// The payload is bytes, as a WRITE's: memory gets them in this order.
	err := ref.mem.Store(ref.va, hostWord(data))
	ref.release()
	if err != nil {
		return faultRemoteAccess.inMemory(err)
	}
	r.answer(q, pkt, response{kind: respondEmpty})
	return faultNone
}

// processFlush makes what was written visible or persistent (IBA A19.4.1). Every
// write is in memory once settled, so there is only the check.
func (r *responder) processFlush(q *QP, pkt wire.Packet, o *outbox) fault {
	_, level := pkt.FlushType()
	need := flushAccess(pkt)
	switch {
	case len(pkt.Payload()) != 0 || need == 0 || level > wire.FlushMR || pkt.DMALen() > MaxMessage:
		return faultLength
	case !r.settle(q, o):
		return faultRemoteAccess
	}
	va, n := pkt.VA(), uint64(pkt.DMALen())
	if level == wire.FlushMR {
		// The key stands for the whole region; the range means nothing.
		if !q.flushesRegion(pkt.RKey(), need) {
			return faultRemoteAccess
		}
	} else {
		ref, why := q.remoteAccess(pkt.RKey(), va, n, need)
		if why != keyOK {
			return faultRemoteAccess
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

// answer records a request that is executed once, with the result that every
// replay gets, and queues its response.
func (r *responder) answer(q *QP, pkt wire.Packet, resp response) {
	resp.psn = pkt.PSN()
	r.advance(pkt.Info(), 1)
	resp.msn = r.msn
	r.history.add(resource{response: resp, opcode: pkt.Opcode(), last: resp.psn})
	r.ack = acking{} // implied by the response
	r.respond(q, resp)
}

// flushesRegion says whether a key, whatever range it covers, may be used to
// flush all of it.
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
	return e != nil && e.check(q, uint32(rkey), e.base, 0, need) == keyOK
}

// queueRead accepts a READ; the data is read when its turn to be sent comes.
func (r *responder) queueRead(q *QP, pkt wire.Packet, o *outbox) fault {
	n := pkt.DMALen()
	if len(pkt.Payload()) != 0 || n > MaxMessage {
		return faultLength
	}
	ref, why := q.remoteAccess(pkt.RKey(), pkt.VA(), uint64(n), AccessRemoteRead)
	if why != keyOK {
		return faultRemoteAccess
	}
	ref.release()
	if !r.settle(q, o) {
		return faultRemoteAccess
	}
	packets := readPackets(n, q.mtu())
	resp := response{kind: respondRead, psn: pkt.PSN(), rkey: pkt.RKey(), va: pkt.VA(), left: n, total: n}
	r.psn = r.psn.Add(packets)
	r.msn = (r.msn + 1) & wire.MSNMask
	resp.msn = r.msn
	r.history.add(resource{response: resp, opcode: pkt.Opcode(), last: r.psn.Sub(1)})
	r.ack = acking{} // implied by the response
	r.respond(q, resp)
	return faultNone
}

// readPackets is how many responses a READ of n bytes has, one at least.
func readPackets(n uint32, mtu int) uint32 {
	if n == 0 {
		return 1
	}
	return (n-1)/uint32(mtu) + 1
}

// hostWord is eight bytes of payload as the number that memory holds when they
// lie there in this order.
func hostWord(b []byte) uint64 { return binary.NativeEndian.Uint64(b) }
