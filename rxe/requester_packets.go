package rxe

import "github.com/gorxe/gorxe/wire"

// maxHeader bounds the transport headers of a data packet: BTH, RETH, ImmDt.
const maxHeader = 12 + 16 + 4 + 3 // IBA 9.2 and 9.3, and the pad

// sendData sends up to room packets of a SEND or WRITE and returns how many. If a
// payload cannot be read, nothing is sent.
func (q *QP) sendData(wqe *sendEntry, room uint32, o *outbox) uint32 {
	index := uint32(q.send.psn.Diff(wqe.first))
	n := min(wqe.packets-index, room)
	if q.dev.cfg.CostlyMemory && index == 0 && wqe.length <= aheadMessage && wqe.flags&SendInline == 0 {
		q.gatherAhead(room, o)
	}
	if q.dev.cfg.CostlyMemory && index == 0 && wqe.isLong() && q.typ == QPRC && q.sendsSuperPackets() {
		q.gatherLong(room, o)
	}
	if n > 1 {
		n = min(n, q.gathered(wqe, index))
	}
	n = q.untilSplit(wqe, index, n)
	ok := false
	if n > 1 && q.sendsSuperPackets() {
		ok = q.sendSuperPacket(wqe, index, n, o)
	} else {
		ok = q.sendPackets(wqe, index, n, o)
	}
	if !ok {
		q.blameMemory()
		wqe.status = WCLocProtErr
		return 0
	}
	q.countMessage(wqe, index, n, o)
	return n
}

// countMessage counts n packets of wqe, from packet number index on, which are sent.
func (q *QP) countMessage(wqe *sendEntry, index, n uint32, o *outbox) {
	mtu := q.payloadMTU()
	q.countSent(n, min(int(wqe.length)-int(index)*mtu, int(n)*mtu), o)
	o.sent.addMessage(q.messageOps(wqe.op), index == 0, index+n == wqe.packets, n, &q.dev.opcodes.sent)
	if index+n == wqe.packets && wqe.op != WRWrite && wqe.op != WRWriteImm {
		q.dev.counters.RDMASends.Add(1)
	}
}

// gathered returns how many packets of wqe are gathered at once, from packet number index on. For the network these are
// as many as fill a burst, and one more if it takes no further burst or call. The first packet of a WRITE takes
// none, because it is longer than the next ones and begins a burst anyway. A message that is a packet longer than a burst
// is gathered whole.
func (q *QP) gathered(wqe *sendEntry, index uint32) uint32 {
	n := uint32(q.group(maxHeader + wire.ICRCLen))
	if index == 0 && !q.peerIsLocal() && (wqe.packets == n+1 || q.messageOps(wqe.op).at(true, false).Info().RETH != 0) {
		n++
	}
	return n
}

// sendPackets builds n packets of wqe, from packet number index on. It reports
// false when the payload cannot be read.
func (q *QP) sendPackets(wqe *sendEntry, index, n uint32, o *outbox) bool {
	mtu := q.payloadMTU()
	bytes := min(int(wqe.length)-int(index)*mtu, int(n)*mtu)
	o.reserve(int(n)*(maxHeader+wire.ICRCLen)+bytes, q.reservesWide(wqe.length))
	o.flushFull(bytes)
	mark := o.mark()
	acks := q.ackPace()
	if !q.buildPackets(wqe, index, n, &acks, o) || o.in.read() != nil {
		o.in.drop()
		o.rewind(mark)
		return false
	}
	q.req.sinceAckReq = acks.since
	return true
}

// buildPackets is sendPackets without the payload, which o.in reads afterwards.
func (q *QP) buildPackets(wqe *sendEntry, index, n uint32, acks *ackPace, o *outbox) bool {
	h := q.dataHeaders(wqe, index, 1)
	from := seek(wqe.sgl, index*uint32(q.payloadMTU()))
	for i := range n {
		if i > 0 {
			q.nextHeaders(&h, wqe, index+i)
		}
		if !q.dataPacket(wqe, index+i, &h, &from, acks, o) {
			return false
		}
	}
	return true
}

// payloadMTU returns the payload of a full packet. A UD message is one packet.
func (q *QP) payloadMTU() int {
	if q.typ == QPUD {
		return int(q.dev.activeMTU())
	}
	return q.mtu()
}

func (q *QP) countSent(packets uint32, bytes int, o *outbox) {
	o.sinceYield += bytes + int(packets)*wire.BTHLen
	q.req.quantumSent += bytes
	if q.rate.limited() {
		q.countRate(packets, bytes)
	}
	q.tx.packets += uint64(packets)
	q.tx.bytes += uint64(bytes)
}

// dataPacket builds packet number index of wqe, except for its payload, which is
// gathered later.
func (q *QP) dataPacket(wqe *sendEntry, index uint32, h *wire.Headers, from *cursor, acks *ackPace, o *outbox) bool {
	mtu := q.payloadMTU()
	off := int(index) * mtu
	size := min(mtu, int(wqe.length)-off)
	h.Pad = uint8(wire.PadLen(size))
	h.AckReq = acks.next(index == wqe.packets-1, size)
	route := q.route
	if q.typ == QPUD {
		route = wqe.ud.route
	}
	hl := h.Len()
	b := o.packet(route, hl, hl+size+int(h.Pad))
	h.Put(b)
	clear(b[hl+size:])
	return q.payload(wqe, off, b[hl:hl+size], from, o)
}

// dataHeaders returns the headers of n packets of wqe as one, from packet number
// index on.
func (q *QP) dataHeaders(wqe *sendEntry, index, n uint32) wire.Headers {
	ends := index+n == wqe.packets
	h := wire.Headers{
		Opcode:  q.messageOps(wqe.op).at(index == 0, ends),
		PKey:    q.pkey,
		DestQP:  q.attr.DestQPN,
		PSN:     wqe.first.Add(index),
		VA:      wqe.remoteAddr,
		RKey:    wqe.rkey,
		DMALen:  wqe.length,
		Imm:     wqe.imm,
		InvRKey: wqe.invRKey,
	}
	h.Solicited = ends && wqe.solicits()
	if q.typ == QPUD {
		h.DestQP, h.SrcQP, h.QKey = wqe.ud.qpn, q.qpn, wqe.ud.qkey
		if h.QKey&(1<<31) != 0 { // IBA 10.2.5: the QP's own Q_Key is sent instead
			h.QKey = q.attr.QKey
		}
	}
	if wqe.length == 0 {
		h.RKey = 0 // not checked (IBA C9-88)
	}
	return h
}

// nextHeaders turns the headers of a packet into those of the next, number index.
func (q *QP) nextHeaders(h *wire.Headers, wqe *sendEntry, index uint32) {
	ends := index+1 == wqe.packets
	h.Opcode = q.messageOps(wqe.op).at(false, ends)
	h.PSN = h.PSN.Next()
	h.Solicited = ends && wqe.solicits()
}

// solicits reports whether the request's last packet asks for an event.
func (wqe *sendEntry) solicits() bool { return wqe.flags&SendSolicited != 0 && wqe.op != WRWrite }

// ackPace sets AckReq at the end of a message, and in between often enough. The
// window must not close, and a slow receiver must answer before the retransmission
// timer expires. Each acknowledgement costs both sides a system call.
type ackPace struct {
	since int // payload bytes since the last AckReq
	every int // 0: never, not even at the end
}

func (q *QP) ackPace() ackPace {
	if q.typ != QPRC {
		return ackPace{}
	}
	return ackPace{q.req.sinceAckReq, q.ackEvery(min(int(q.send.window)/ackShare, ackEveryPackets) * q.mtu())}
}

// next reports whether the next packet has AckReq.
func (a *ackPace) next(ends bool, size int) bool {
	if a.every == 0 {
		return false
	}
	a.since += size
	if !ends && a.since < a.every {
		return false
	}
	a.since = 0
	return true
}

// payload arranges for the len(b) bytes of wqe at off to be gathered into b. The
// cursor from is at the same place in the scatter/gather list.
func (q *QP) payload(wqe *sendEntry, off int, b []byte, from *cursor, o *outbox) bool {
	if wqe.flags&SendInline != 0 {
		copy(b, wqe.inline[off:])
		return true
	}
	if ready, ok := o.ahead.payload(q.send.cur); ok {
		copy(b, ready[off:])
		return true
	}
	return o.in.cover(q, wqe.sgl, from, b, 0)
}

// sendRead asks for the next piece of a READ. A long READ is asked for in pieces,
// each a READ request of its own, so that no more data is under way than this side
// can receive. The pieces end at the same PSNs when they are asked for again.
// Several of them fit into the window: the responder always has one to answer while
// answers to another are under way. The answers to one fill whole bursts.
func (q *QP) sendRead(wqe *sendEntry, room uint32, o *outbox) uint32 {
	if q.send.reads.n >= max(int(q.attr.MaxRdAtomic), 1) {
		return 0
	}
	mtu, chunk := uint32(q.mtu()), q.send.readChunk
	index := uint32(q.send.psn.Diff(wqe.first))
	n := min(chunk-index%chunk, wqe.packets-index)
	if n > room && q.send.psn != q.send.una {
		return 0
	}
	off := index * mtu
	length := min(n*mtu, wqe.length-off)
	h := wire.Headers{Opcode: wire.RCReadRequest, PKey: q.pkey, DestQP: q.attr.DestQPN,
		PSN: q.send.psn, AckReq: true, VA: wqe.remoteAddr + uint64(off), RKey: wqe.rkey, DMALen: length}
	if length == 0 && q.comp.tries(q)%2 == 1 {
		h.RKey = 0 // as said above
	}
	h.Put(o.packet(q.route, h.Len(), h.Len()))
	q.send.reads.push(psnRange{q.send.psn, q.send.psn.Add(n - 1)})
	q.countSent(1, 0, o)
	o.countSent(h.Opcode, 1)
	return n
}

// sendSingle sends the one packet of an atomic, an ATOMIC WRITE or a FLUSH.
func (q *QP) sendSingle(wqe *sendEntry, o *outbox) uint32 {
	if q.send.reads.n >= max(int(q.attr.MaxRdAtomic), 1) {
		return 0
	}
	h := wire.Headers{PKey: q.pkey, DestQP: q.attr.DestQPN, PSN: q.send.psn, AckReq: true,
		VA: wqe.remoteAddr, RKey: wqe.rkey, DMALen: wqe.length, FlushPlacement: wqe.flush.kind, FlushLevel: wqe.flush.level}
	size := 0
	switch wqe.op {
	case WRCompareSwap:
		h.Opcode, h.SwapAdd, h.Compare = wire.RCCompareSwap, wqe.swap, wqe.compareAdd
	case WRFetchAdd:
		h.Opcode, h.SwapAdd = wire.RCFetchAdd, wqe.compareAdd
	case WRFlush:
		h.Opcode = wire.RCFlush
	default:
		h.Opcode, size = wire.RCAtomicWrite, atomicBytes
	}
	hl := h.Len()
	o.reserve(hl+size+wire.ICRCLen, false)
	mark := o.mark()
	b := o.packet(q.route, hl, hl+size)
	h.Put(b)
	from := cursor{}
	if size > 0 && !q.payload(wqe, 0, b[hl:], &from, o) || o.in.read() != nil {
		o.in.drop()
		o.rewind(mark)
		q.blameMemory()
		wqe.status = WCLocProtErr
		return 0
	}
	q.send.reads.push(psnRange{q.send.psn, q.send.psn})
	q.countSent(1, size, o)
	o.countSent(h.Opcode, 1)
	return 1
}
