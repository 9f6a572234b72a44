package rxe

import "github.com/gorxe/gorxe/wire"

// maxHeader bounds the transport headers of a data packet: BTH, XRCETH, RETH, ImmDt.
const maxHeader = 12 + 4 + 16 + 4 + 3 // IBA 9.2, 9.3 and A14, and the pad

// sendData sends up to room packets, of wqe or of several messages that begin with it.
func (q *QP) sendData(wqe *sendEntry, room uint32, st *step) hold {
	if _, err := q.gather(&q.req, room, q.turn(st), st); err != nil {
		q.blameMemory()
		wqe.status = WCLocProtErr
		return holdFailed
	}
	return goOn
}

// fill implements role.
func (r *requester) fill(q *QP, i int, m *message) {
	wqe, mtu := q.sq.at(q.send.cur+uint32(i)), q.payloadMTU()
	index, psn, acks := uint32(0), m.h.PSN, m.acks
	packets := wqe.packets
	if i == 0 {
		psn, acks = q.send.psn, q.ackPace()
		index = uint32(psn.Diff(wqe.first))
	} else if !wqe.started {
		packets = readPackets(wqe.length, mtu)
	}
	*m = message{
		h: q.dataHeaders(wqe, psn), ops: q.messageOps(wqe.op), route: q.route, mtu: mtu, acks: acks,
		packets: packets - index, size: int(wqe.length) - int(index)*mtu, begins: index == 0, ends: true, solicits: wqe.solicits(),
		alone: index != 0 || psn != q.send.limit || q.attr.State != QPRTS || q.rate.limited() || q.chaos != nil,
		sgl:   wqe.sgl, from: seek(wqe.sgl, index*uint32(mtu)),
	}
	if q.typ == QPUD {
		m.route = wqe.to.route
	}
	if wqe.flags&SendInline != 0 {
		m.inline = wqe.inline[index*uint32(mtu):]
	}
	m.cut(wqe.untilSplit(index))
}

// joins implements role.
func (r *requester) joins(q *QP, i int) (size uint32, ok bool) {
	at := q.send.cur + uint32(i)
	wqe := q.sq.at(at)
	return wqe.length, at != q.sq.prod && wqe.status == WCSuccess && !wqe.isLocalOp() && !wqe.needsResponse() &&
		wqe.flags&SendFence == 0 && (q.typ != QPUD || int(wqe.length) <= q.payloadMTU())
}

// sent implements role.
func (r *requester) sent(q *QP, packets uint32, st *step) uint32 {
	wqe := q.sq.at(q.send.cur)
	if !wqe.started {
		wqe.begin(q.send.psn, readPackets(wqe.length, q.payloadMTU()))
		q.began(wqe)
	}
	r.sinceAckReq = st.message.acks.since
	index := uint32(q.send.psn.Diff(wqe.first))
	n := min(packets, wqe.packets-index)
	q.countMessage(wqe, index, n, st)
	q.split(wqe, index+n)
	q.advance(wqe, n)
	return n
}

// countMessage counts n packets of wqe, from packet number index on, which are sent.
func (q *QP) countMessage(wqe *sendEntry, index, n uint32, st *step) {
	mtu := q.payloadMTU()
	q.countSent(n, min(int(wqe.length)-int(index)*mtu, int(n)*mtu), st)
	st.sent.addMessage(q.messageOps(wqe.op), index == 0, index+n == wqe.packets, n, &q.dev.opcodes.sent)
	if index+n == wqe.packets && wqe.op != WRWrite && wqe.op != WRWriteImm {
		q.dev.counters.RDMASends.Add(1)
	}
}

// payloadMTU returns the payload of a full packet. A UD message is one packet.
func (q *QP) payloadMTU() int {
	if q.typ == QPUD {
		return int(q.dev.activeMTU())
	}
	return q.mtu()
}

func (q *QP) countSent(packets uint32, bytes int, st *step) {
	st.sinceYield += bytes + int(packets)*wire.BTHLen
	q.req.quantumSent += bytes
	if q.rate.limited() {
		q.countRate(packets, bytes)
	}
	q.tallies.tx.packets += uint64(packets)
	q.tallies.tx.bytes += uint64(bytes)
}

// dataHeaders returns the headers of the packet of wqe with a PSN, except what depends on its place
// in the message.
func (q *QP) dataHeaders(wqe *sendEntry, psn wire.PSN) wire.Headers {
	h := wire.Headers{
		PKey:    q.pkey,
		DestQP:  q.attr.DestQPN,
		PSN:     psn,
		VA:      wqe.remoteAddr,
		RKey:    wqe.rkey,
		DMALen:  wqe.length,
		Imm:     wqe.imm,
		InvRKey: wqe.invRKey,
		XRCSRQN: uint32(wqe.to.num),
	}
	if q.typ == QPUD {
		h.DestQP, h.SrcQP, h.QKey = wqe.to.num, q.qpn, wqe.to.qkey
		if h.QKey&(1<<31) != 0 { // IBA 10.2.5: the QP's own Q_Key is sent instead
			h.QKey = q.attr.QKey
		}
	}
	if wqe.length == 0 {
		h.RKey = 0 // not checked (IBA C9-88)
	}
	return h
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
	if !q.reliable {
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

// sendRead asks for the next piece of a READ. A long READ is asked for in pieces,
// each a READ request of its own, so that no more data is under way than this side
// can receive. The pieces end at the same PSNs when they are asked for again.
// Several of them fit into the window: the responder always has one to answer while
// answers to another are under way. The answers to one fill whole bursts.
func (q *QP) sendRead(wqe *sendEntry, room uint32, st *step) hold {
	mtu, chunk := uint32(q.mtu()), q.send.readChunk
	index := uint32(q.send.psn.Diff(wqe.first))
	n := min(chunk-index%chunk, wqe.packets-index)
	if n > room && q.send.psn != q.send.una {
		return holdWindow
	}
	off := index * mtu
	length := min(n*mtu, wqe.length-off)
	h := wire.Headers{Opcode: q.opcode(wire.RCReadRequest), PKey: q.pkey, DestQP: q.attr.DestQPN, XRCSRQN: uint32(wqe.to.num),
		PSN: q.send.psn, AckReq: true, VA: wqe.remoteAddr + uint64(off), RKey: wqe.rkey, DMALen: length}
	// The rkey of a READ of no bytes is not checked (IBA C9-88). But rdma_rxe compares a repeated
	// READ's rkey with the one it kept, and drops the request silently if they differ. Linux 6.1
	// keeps the rkey that it received; 6.12 keeps 0. So the first attempt carries the program's
	// rkey, and every second one carries 0.
	if length == 0 && q.comp.tries(q)%2 == 1 {
		h.RKey = 0
	}
	h.Put(st.packet(q.route, h.Len(), h.Len()))
	q.send.reads.push(psnRange{q.send.psn, q.send.psn.Add(n - 1)})
	q.countSent(1, 0, st)
	st.countSent(h.Opcode, 1)
	q.advance(wqe, n)
	return goOn
}

// sendSingle sends the one packet of an atomic, an ATOMIC WRITE or a FLUSH.
func (q *QP) sendSingle(wqe *sendEntry, st *step) hold {
	h := wire.Headers{PKey: q.pkey, DestQP: q.attr.DestQPN, XRCSRQN: uint32(wqe.to.num), PSN: q.send.psn, AckReq: true,
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
	h.Opcode = q.opcode(h.Opcode)
	hl := h.Len()
	st.reserve(lineBytes+hl+size+wire.ICRCLen, 1, outboxBytes)
	mark := st.mark()
	b := st.packet(q.route, hl, hl+size)
	h.Put(b)
	if from := (cursor{}); wqe.flags&SendInline != 0 {
		copy(b[hl:], wqe.inline)
	} else if !st.in.cover(q, wqe.sgl, &from, b[hl:], 0) || st.in.read() != nil {
		st.in.drop()
		st.rewind(mark)
		q.blameMemory()
		wqe.status = WCLocProtErr
		return holdFailed
	}
	q.send.reads.push(psnRange{q.send.psn, q.send.psn})
	q.countSent(1, size, st)
	st.countSent(h.Opcode, 1)
	q.advance(wqe, 1)
	return goOn
}
