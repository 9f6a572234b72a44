package rxe

import "github.com/gorxe/gorxe/wire"

// The operations: each checks length, then key, then acts; only when it
// returns faultNone has the expected PSN moved.

// execSend takes a packet of a SEND into the receive work request in hand.
func (r *responder) execSend(q *QP, p train, o *outbox) fault {
	info, data := p.Info(), p.Payload()
	if !p.validLength(q.mtu()) || r.recv.bytes+uint64(len(data)) > MaxMessage {
		return faultLength
	}
	if !r.drain(q, o) {
		return faultRemoteAccess
	}
	if f := r.scatter(q, data, o); f != faultNone {
		return f
	}
	if info.Has(wire.OpEnd) {
		if f := r.complete(q, p.Packet, WCRecv, uint32(r.recv.bytes), o); f != faultNone {
			return f
		}
	}
	r.follow(info, p.n)
	return faultNone
}

// validLength checks a packet's payload against its place in the message
// (IBA 9.7.4.1.6 to 9.7.4.1.8).
func (t train) validLength(mtu int) bool {
	size, full := len(t.Payload()), int(t.n)*mtu
	switch info := t.Info(); {
	case info.Has(wire.OpFirst | wire.OpMiddle):
		return size == full
	case info.Has(wire.OpLast) || t.n > 1:
		return size > full-mtu && size <= full
	default:
		return size <= full
	}
}

// scatter puts data into the receive buffer, after what is there already.
func (r *responder) scatter(q *QP, data []byte, o *outbox) fault {
	v := &r.recv
	if v.bytes+uint64(len(data)) > v.room {
		return faultRecvShort
	}
	v.bytes += uint64(len(data))
	for len(data) > 0 {
		rest, ok := v.at.rest(v.wqe.SGL)
		if !ok {
			return faultRecvShort
		}
		n := min(len(data), int(rest.Length))
		if !r.pend.leased(wire.OpSend, uint32(rest.LKey), rest.Addr, data[:n]) {
			if f := r.scatterChecked(q, rest, data[:n], o); f != faultNone {
				return f
			}
		}
		v.at.off += uint32(n)
		data = data[n:]
	}
	return faultNone
}

// scatterChecked deposits the first bytes of rest, under a lease of all of it
// if its key covers that: a buffer may be announced longer than it is
// registered, and fails only where data reaches beyond.
func (r *responder) scatterChecked(q *QP, rest SGE, data []byte, o *outbox) fault {
	g, why := q.localAccess(rest, AccessLocalWrite)
	if why != keyOK {
		rest.Length = uint32(len(data))
		g, why = q.localAccess(rest, AccessLocalWrite)
	}
	if why != keyOK {
		return faultRecvAccess
	}
	l := g.lease(uint32(rest.LKey), rest.Addr, uint64(rest.Length))
	if !r.deposit(q, g, l, data, wire.OpSend, o) {
		return faultRecvAccess
	}
	return faultNone
}

// execWrite takes a packet of an RDMA WRITE. The range is checked as a whole
// at the first packet, so that a WRITE that reaches outside changes nothing,
// and what is left of it again in each batch: the key may be gone by then.
func (r *responder) execWrite(q *QP, p train, o *outbox) fault {
	info, data := p.Info(), p.Payload()
	w := r.writing(p)
	n := uint32(len(data))
	if w.total > MaxMessage || !p.validLength(q.mtu()) ||
		n > w.left || info.Has(wire.OpEnd) != (n == w.left) {
		return faultLength
	}
	if !r.drain(q, o) {
		return faultRemoteAccess
	}
	if n == 0 || !r.pend.leased(wire.OpWrite, uint32(w.rkey), w.va, data) {
		// All that is left of the WRITE: at its first packet, the whole.
		g, why := q.remoteAccess(w.rkey, w.va, uint64(w.left), AccessRemoteWrite)
		if why != keyOK {
			return faultRemoteAccess
		}
		l := g.lease(uint32(w.rkey), w.va, uint64(w.left))
		if n > 0 && !r.deposit(q, g, l, data, wire.OpWrite, o) {
			return faultRemoteAccess
		}
	}
	w.va += uint64(n)
	w.left -= n
	if info.Has(wire.OpImm) {
		if f := r.complete(q, p.Packet, WCRecvImm, w.total, o); f != faultNone {
			return f
		}
	}
	r.write = w
	r.follow(info, p.n)
	return faultNone
}

// writing is the WRITE that a packet is of.
func (r *responder) writing(p train) writing {
	if p.Info().Has(wire.OpStart) {
		return writing{rkey: p.RKey(), va: p.VA(), left: p.DMALen(), total: p.DMALen()}
	}
	return r.write
}

// deposit adds a piece to the payload that waits to be written, under a lease of
// all that g was checked for. It reports false when what waited before could not be:
// the QP has failed then.
func (r *responder) deposit(q *QP, g grant, l lease, data []byte, kind wire.OpFlags, o *outbox) bool {
	d := &r.pend
	if !d.batch.fits(g.mem) || (len(d.batch.spans) > 0 && d.kind != kind) {
		if !r.settle(q, o) {
			g.release()
			return false
		}
	}
	if len(d.batch.spans) == 0 {
		d.kind, d.psn, d.msn = kind, r.psn, r.msn
	}
	d.batch.addLease(g, l, data)
	return true
}

// settle writes the payload that waits to memory. An address space that is
// gone is a fault of the first request whose payload waited: the peer takes a
// NAK as acknowledgement of all before it. It reports false if the QP failed.
func (r *responder) settle(q *QP, o *outbox) bool {
	d := &r.pend
	if len(d.batch.spans) == 0 {
		return q.attr.State != QPErr
	}
	err := d.batch.write()
	if err == nil {
		return true
	}
	f := faultRecvAccess
	if d.kind == wire.OpWrite {
		f = faultRemoteAccess
	}
	f = f.inMemory(err)
	f.count(&q.dev.counters)
	if r.drain(q, o) {
		r.terminate(q, f, d.psn, d.msn, o)
	}
	return false
}

// complete finishes the receive work request in hand: the data is in memory,
// the key invalidated, then the completion.
func (r *responder) complete(q *QP, p wire.Packet, op WCOpcode, n uint32, o *outbox) fault {
	if !r.settle(q, o) {
		return faultRecvAccess
	}
	// rdma_rxe sets the GRH flag on connected QPs as well.
	r.wc = WC{ID: r.recv.wqe.ID, Opcode: op, Flags: WCGRH, ByteLen: n,
		QPN: q.qpn, SrcQP: q.attr.DestQPN, PKeyIndex: q.attr.PKeyIndex}
	wc, info := &r.wc, p.Info()
	if info.Has(wire.OpInv) {
		if q.remoteInvalidate(p.InvRKey()) != keyOK {
			return faultInvalidate
		}
		wc.InvRKey = p.InvRKey()
		wc.Flags |= WCWithInv
	}
	if info.Has(wire.OpImm) {
		wc.Imm = p.Imm()
		wc.Flags |= WCWithImm
	}
	if q.typ == QPUD {
		wc.SrcQP, wc.SL = p.SrcQP(), r.packetType()
	}
	r.recv.held = false
	if !q.recvCQ.push(wc, p.Solicited()) {
		return faultOverflow
	}
	q.dev.counters.RDMARecvs.Add(1)
	return faultNone
}

// execAtomic does a compare-and-swap or fetch-and-add.
func (r *responder) execAtomic(q *QP, p wire.Packet, o *outbox) fault {
	const size = 8
	switch {
	case len(p.Payload()) != 0:
		return faultLength
	case p.VA()%size != 0:
		return faultMisaligned
	case !r.settle(q, o) || !r.drain(q, o):
		return faultRemoteAccess
	}
	g, why := q.remoteAccess(p.RKey(), p.VA(), size, AccessRemoteAtomic)
	if why != keyOK {
		return faultRemoteAccess
	}
	if g.va%size != 0 {
		g.release()
		return faultMisaligned
	}
	var old uint64
	var err error
	if p.Opcode() == wire.RCCompareSwap {
		old, err = g.mem.CompareSwap(g.va, p.Compare(), p.SwapAdd())
	} else {
		old, err = g.mem.FetchAdd(g.va, p.SwapAdd())
	}
	g.release()
	if err != nil {
		return faultRemoteAccess.inMemory(err)
	}
	r.answer(q, p, response{kind: respondAtomic, orig: old})
	return faultNone
}

// execAtomicWrite stores eight bytes at once (IBA A19.4.2).
func (r *responder) execAtomicWrite(q *QP, p wire.Packet, o *outbox) fault {
	const size = 8
	data := p.Payload()
	switch {
	case len(data) != size || p.DMALen() != size:
		return faultLength
	case p.VA()%size != 0:
		return faultMisaligned
	case !r.settle(q, o) || !r.drain(q, o):
		return faultRemoteAccess
	}
	g, why := q.remoteAccess(p.RKey(), p.VA(), size, AccessRemoteWrite)
	if why != keyOK {
		return faultRemoteAccess
	}
	if g.va%size != 0 {
		g.release()
		return faultMisaligned
	}
	// The payload is bytes, as a WRITE's: memory gets them in this order.
	err := g.mem.Store(g.va, hostWord(data))
	g.release()
	if err != nil {
		return faultRemoteAccess.inMemory(err)
	}
	r.answer(q, p, response{kind: respondEmpty})
	return faultNone
}

// execFlush makes what was written visible or persistent (IBA A19.4.1). Every
// write is in memory once settled, so there is only the check.
func (r *responder) execFlush(q *QP, p wire.Packet, o *outbox) fault {
	_, level := p.FlushType()
	need := flushAccess(p)
	switch {
	case len(p.Payload()) != 0 || need == 0 || level > wire.FlushMR || p.DMALen() > MaxMessage:
		return faultLength
	case !r.settle(q, o):
		return faultRemoteAccess
	}
	va, n := p.VA(), uint64(p.DMALen())
	if level == wire.FlushMR {
		// The key stands for the whole region; the range means nothing.
		if !q.flushesRegion(p.RKey(), need) {
			return faultRemoteAccess
		}
	} else {
		g, why := q.remoteAccess(p.RKey(), va, n, need)
		if why != keyOK {
			return faultRemoteAccess
		}
		g.release()
	}
	r.answer(q, p, response{kind: respondEmpty})
	return faultNone
}

func flushAccess(p wire.Packet) (need Access) {
	placement, _ := p.FlushType()
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
func (r *responder) answer(q *QP, p wire.Packet, a response) {
	a.psn = p.PSN()
	r.follow(p.Info(), 1)
	a.msn = r.msn
	r.history.add(resource{response: a, opcode: p.Opcode(), last: a.psn})
	r.ack = acking{} // implied by the response
	r.respond(q, a)
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
