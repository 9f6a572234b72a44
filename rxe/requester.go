package rxe

import "github.com/gorxe/gorxe/wire"

// The requester turns send work requests into packets. Its whole position is
// (cur, psn): every header follows from the work request and how far psn is
// from the request's first PSN. So going back (after a NAK, a timeout, an RNR
// wait) is setting the position, and a retry resumes in the middle of a
// message, as IBA 9.7.5.1 allows and Linux does.

const (
	windowBytes   = 1 << 20 // unacknowledged, at most, in either direction
	windowPackets = 1024    // likewise
	minWindow     = 16      // packets, whatever was lost
	readChunks    = 4       // READ requests that fit into the window

	ackEveryPackets = 128 // AckReq inside long messages
)

type requester struct {
	psn         wire.PSN // of the next packet
	limit       wire.PSN // one past the highest PSN ever sent
	cur         uint32   // index of the work request being sent
	maxWindow   int32    // packets in the window, if nothing is lost
	window      int32    // packets, adapted to loss
	readChunk   uint32   // packets that one READ request asks for, at most
	sinceAckReq int      // payload bytes since the last AckReq
	// pausedSince is when hold began to hold the requester; 0: it does not.
	pausedSince Time
	quantumSent int // payload bytes sent since the QP rested, which only UC QPs do

	reads readRing // READs and atomics outstanding
}

// readRing holds the PSN ranges of the outstanding requests that use one of
// the responder's resources (max_rd_atomic), oldest first.
type readRing struct {
	n    int
	head uint8
	ring [256]psnRange
}

type psnRange struct{ first, last wire.PSN }

func (r *readRing) push(p psnRange) {
	r.ring[r.head+uint8(r.n)] = p
	r.n++
}

// release drops the ranges that end before una.
func (r *readRing) release(una wire.PSN) {
	for r.n > 0 && r.ring[r.head].last.Less(una) {
		r.head++
		r.n--
	}
}

// revoke drops the ranges that are to be asked for again from psn on.
func (r *readRing) revoke(psn wire.PSN) {
	for r.n > 0 && !r.ring[r.head+uint8(r.n-1)].last.Less(psn) {
		r.n--
	}
}

func (r *requester) start(q *QP) {
	mtu := max(q.mtu(), 256)
	r.maxWindow = int32(min(windowBytes/mtu, windowPackets))
	r.readChunk = uint32(roundToBursts(int(r.maxWindow)/readChunks, mtu))
	if r.window == 0 {
		r.window = r.maxWindow
	}
}

// abandon forgets the position: the queue is empty.
func (r *requester) abandon(q *QP) {
	r.cur = q.sq.prod
	r.psn = r.limit
	r.sinceAckReq = 0
	r.reads.n = 0
}

// shrink reacts to a loss.
func (r *requester) shrink() { r.window = max(r.window/2, minWindow) }

// grow reacts to n acknowledgements.
func (r *requester) grow(n uint32) {
	for ; n > 0 && r.window < r.maxWindow; n-- {
		r.window = min(r.window+1+r.window/16, r.maxWindow)
	}
}

// runRequester sends what may be sent now. The caller holds the lock.
func (q *QP) runRequester(o *outbox) {
	for q.maySend() && q.requestAdmission(o.now) && !o.yield(q) && !q.pauseUC(o) && !q.yieldsToInbox() {
		if wqe := q.sq.at(q.req.cur); !q.step(wqe, o) {
			break
		}
	}
	q.retire()
	if q.typ == QPRC && q.timer.retransmitAt == 0 && q.timer.rnrUntil == 0 && q.comp.una != q.req.psn {
		q.comp.armRetransmit(q, o.now)
	}
}

// step goes on with w and reports false when it must wait: for an answer, for
// room in the window, or for its turn to be completed with an error.
func (q *QP) step(wqe *sendEntry, o *outbox) bool {
	switch {
	case wqe.status != WCSuccess:
		return false
	case wqe.isLocalOp():
		return q.doLocalOp(wqe)
	case !wqe.started && !q.begin(wqe):
		return false
	case wqe.done:
		return true
	default:
		return q.sendSome(wqe, o)
	}
}

// maySend says whether there is a work request to go on with.
func (q *QP) maySend() bool {
	if q.timer.rnrUntil != 0 || q.timer.pausedUntil != 0 || q.req.cur == q.sq.prod {
		return false
	}
	switch q.attr.State {
	case QPRTS:
		return true
	case QPSQD:
		return q.sq.at(q.req.cur).started
	default:
		return false
	}
}

// begin gives a work request its PSNs. It reports false when the request must
// wait.
func (q *QP) begin(wqe *sendEntry) bool {
	if wqe.flags&SendFence != 0 && q.req.reads.n > 0 {
		return false // IBA 10.8.3.3: after all earlier READs and atomics
	}
	if q.typ == QPUD && int(wqe.length) > int(q.dev.activeMTU()) {
		// IBA C10-93.1.1, and rxe_req.c: completes, and nothing is sent.
		wqe.started, wqe.done = true, true
		q.req.cur++
		return true
	}
	wqe.started = true
	wqe.packets = 1
	if mtu := uint32(q.mtu()); q.typ != QPUD && wqe.op != WRFlush && wqe.length > mtu {
		wqe.packets = (wqe.length-1)/mtu + 1
	}
	wqe.first = q.req.psn
	wqe.last = wqe.first.Add(wqe.packets - 1)
	return true
}

// doLocalOp executes BIND MW and LOCAL INV when all before has completed, so
// that nothing outstanding uses the key that changes.
func (q *QP) doLocalOp(wqe *sendEntry) bool {
	q.retire()
	if q.sq.cons != q.req.cur || q.sq.empty() {
		return false
	}
	if wqe.op == WRBindMW {
		wqe.status = q.bindMW(&wqe.bind)
	} else {
		wqe.status = q.localInvalidate(wqe.invRKey)
	}
	wqe.started = true
	if wqe.status != WCSuccess {
		return false
	}
	wqe.done = true
	q.req.cur++
	return true
}

// sendSome sends the next packets of w and reports whether to go on.
func (q *QP) sendSome(wqe *sendEntry, o *outbox) bool {
	room := uint32(groupPackets)
	if q.typ == QPRC {
		out := q.req.psn.Diff(q.comp.una)
		if out >= q.req.window {
			return false
		}
		room = uint32(q.req.window - out)
	}
	var sent uint32
	switch {
	case wqe.op == WRRead:
		sent = q.sendRead(wqe, room, o)
	case wqe.needsResponse():
		sent = q.sendSingle(wqe, o)
	default:
		sent = q.sendData(wqe, room, o)
	}
	if sent == 0 {
		return false
	}
	q.advance(wqe, sent)
	return true
}

// advance moves the position past n PSNs of w.
func (q *QP) advance(wqe *sendEntry, n uint32) {
	r := &q.req
	if r.psn.Less(r.limit) {
		q.stats.Retransmits.Add(uint64(n))
	}
	r.psn = r.psn.Add(n)
	if r.limit.Less(r.psn) {
		r.limit = r.psn
	}
	if r.psn.Diff(wqe.last) > 0 {
		r.cur++
		if q.typ != QPRC {
			wqe.done = true
			q.comp.una = r.psn
		}
	}
}

// sendOpcodes are the opcodes of each service's messages, readOps those of a
// READ's responses.
var sendOpcodes = [3][16]messageOps{
	0: {
		WRSend:     {wire.RCSendFirst, wire.RCSendMiddle, wire.RCSendLast, wire.RCSendOnly},
		WRSendImm:  {wire.RCSendFirst, wire.RCSendMiddle, wire.RCSendLastImm, wire.RCSendOnlyImm},
		WRSendInv:  {wire.RCSendFirst, wire.RCSendMiddle, wire.RCSendLastInv, wire.RCSendOnlyInv},
		WRWrite:    {wire.RCWriteFirst, wire.RCWriteMiddle, wire.RCWriteLast, wire.RCWriteOnly},
		WRWriteImm: {wire.RCWriteFirst, wire.RCWriteMiddle, wire.RCWriteLastImm, wire.RCWriteOnlyImm},
	},
	1: {
		WRSend:     {wire.UCSendFirst, wire.UCSendMiddle, wire.UCSendLast, wire.UCSendOnly},
		WRSendImm:  {wire.UCSendFirst, wire.UCSendMiddle, wire.UCSendLastImm, wire.UCSendOnlyImm},
		WRWrite:    {wire.UCWriteFirst, wire.UCWriteMiddle, wire.UCWriteLast, wire.UCWriteOnly},
		WRWriteImm: {wire.UCWriteFirst, wire.UCWriteMiddle, wire.UCWriteLastImm, wire.UCWriteOnlyImm},
	},
	2: { // a message is one packet
		WRSend:    {opOnly: wire.UDSendOnly},
		WRSendImm: {opOnly: wire.UDSendOnlyImm},
	},
}

var readOps = messageOps{wire.RCReadResponseFirst, wire.RCReadResponseMiddle,
	wire.RCReadResponseLast, wire.RCReadResponseOnly}

func (q *QP) messageOps(op WROpcode) *messageOps {
	switch q.typ {
	case QPRC:
		return &sendOpcodes[0][op]
	case QPUC:
		return &sendOpcodes[1][op]
	default:
		return &sendOpcodes[2][op]
	}
}

// maxHeader bounds the transport headers of a data packet: BTH, RETH, ImmDt.
const maxHeader = 12 + 16 + 4 + 3

// sendData sends up to room packets of a SEND or WRITE and returns how many. A
// payload that cannot be read takes the whole group back.
func (q *QP) sendData(wqe *sendEntry, room uint32, o *outbox) uint32 {
	mtu := q.payloadMTU()
	index := uint32(q.req.psn.Diff(wqe.first))
	n := min(wqe.packets-index, room)
	if n > 1 {
		n = min(n, uint32(q.group(maxHeader+wire.ICRCLen)))
	}
	ok := false
	if n > 1 && q.sendsSuperPackets() {
		ok = q.sendSuperPacket(wqe, index, n, o)
	} else {
		ok = q.sendPackets(wqe, index, n, o)
	}
	if !ok {
		wqe.status = WCLocProtErr
		return 0
	}
	q.countSent(n, min(int(wqe.length)-int(index)*mtu, int(n)*mtu), o)
	if index+n == wqe.packets && wqe.op != WRWrite && wqe.op != WRWriteImm {
		q.dev.counters.RDMASends.Add(1)
	}
	return n
}

// sendPackets builds n packets of w, from packet number index on. It reports
// false when the payload cannot be read.
func (q *QP) sendPackets(wqe *sendEntry, index, n uint32, o *outbox) bool {
	mtu := q.payloadMTU()
	bytes := min(int(wqe.length)-int(index)*mtu, int(n)*mtu)
	o.reserve(int(n)*(maxHeader+wire.ICRCLen) + bytes)
	mark := o.mark()
	h := q.dataHeaders(wqe, index, 1)
	from := seek(wqe.sgl, index*uint32(mtu))
	acks := q.ackPace()
	for i := range n {
		if i > 0 {
			q.nextHeaders(&h, wqe, index+i)
		}
		if !q.dataPacket(wqe, index+i, &h, &from, &acks, o) {
			o.in.drop()
			o.rewind(mark)
			return false
		}
	}
	if o.in.read() != nil {
		o.rewind(mark)
		return false
	}
	q.req.sinceAckReq = acks.since
	return true
}

// payloadMTU is the payload of a full packet; a UD message is one packet.
func (q *QP) payloadMTU() int {
	if q.typ == QPUD {
		return int(q.dev.activeMTU())
	}
	return q.mtu()
}

func (q *QP) countSent(packets uint32, bytes int, o *outbox) {
	o.sinceYield += bytes + int(packets)*wire.BTHLen
	q.req.quantumSent += bytes
	q.stats.SentPackets.Add(uint64(packets))
	q.stats.SentBytes.Add(uint64(bytes))
	q.dev.counters.SentPkts.Add(uint64(packets))
}

// dataPacket builds packet number index of w, all but its payload, which is
// put down to be gathered.
func (q *QP) dataPacket(wqe *sendEntry, index uint32, h *wire.Headers, from *cursor, acks *ackPace, o *outbox) bool {
	mtu := q.payloadMTU()
	off := int(index) * mtu
	size := min(mtu, int(wqe.length)-off)
	h.Pad = uint8(-size & 3)
	h.AckReq = acks.next(index == wqe.packets-1, size)
	route := q.route
	if q.typ == QPUD {
		route = wqe.ud.route
	}
	hl := h.Len()
	b := o.packet(route, hl+size+int(h.Pad))
	h.Put(b)
	clear(b[hl+size:])
	return q.payload(wqe, off, b[hl:hl+size], from, o)
}

// dataHeaders are those of n packets of w as one, from packet number index on.
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
		if h.QKey&(1<<31) != 0 {
			h.QKey = q.attr.QKey // IBA 10.2.5: the QP's own stands in
		}
	}
	if wqe.length == 0 {
		h.RKey = 0 // not checked (IBA C9-88)
	}
	return h
}

// nextHeaders makes the headers of packet number index from those of the one
// before.
func (q *QP) nextHeaders(h *wire.Headers, wqe *sendEntry, index uint32) {
	ends := index+1 == wqe.packets
	h.Opcode = q.messageOps(wqe.op).at(false, ends)
	h.PSN = h.PSN.Next()
	h.Solicited = ends && wqe.solicits()
}

// solicits says whether the request's last packet asks for an event.
func (wqe *sendEntry) solicits() bool { return wqe.flags&SendSolicited != 0 && wqe.op != WRWrite }

// ackPace sets AckReq at the end of a message, and inside often enough that
// neither the window closes nor a slow receiver lets the retransmission timer
// expire; each acknowledgement costs both sides a system call.
type ackPace struct {
	since int // payload bytes since the last AckReq
	every int // 0: never, not even at the end
}

func (q *QP) ackPace() ackPace {
	if q.typ != QPRC {
		return ackPace{}
	}
	return ackPace{q.req.sinceAckReq, min(int(q.req.window)/4, ackEveryPackets) * q.mtu()}
}

// next says whether the next packet has AckReq.
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

// payload puts down the len(b) bytes of w at off to be gathered into b; from is
// the same place in its scatter/gather list.
func (q *QP) payload(wqe *sendEntry, off int, b []byte, from *cursor, o *outbox) bool {
	if wqe.flags&SendInline != 0 {
		copy(b, wqe.inline[off:])
		return true
	}
	return o.in.cover(q, wqe.sgl, from, b, 0)
}

// The rkey of a READ of no bytes is not checked (IBA C9-88), but rdma_rxe compares
// that of a repeated one with what it kept of the first, and drops it in silence if
// they differ: Linux 6.1 keeps the rkey that came, and 6.12 keeps 0. So the first
// try has the program's, and every other one has 0.

// sendRead asks for the next chunk of a READ. Long READs are asked for in
// pieces, each a READ request of its own, so that no more is under way than
// this side can take in; the pieces end at the same PSNs when asked for again.
// Several of them fit into the window, so that the responder always has one to
// answer while the answers to another are on their way; and the answers to one
// fill whole bursts.
func (q *QP) sendRead(wqe *sendEntry, room uint32, o *outbox) uint32 {
	if q.req.reads.n >= max(int(q.attr.MaxRdAtomic), 1) {
		return 0
	}
	mtu, chunk := uint32(q.mtu()), q.req.readChunk
	index := uint32(q.req.psn.Diff(wqe.first))
	n := min(chunk-index%chunk, wqe.packets-index)
	if n > room && q.req.psn != q.comp.una {
		return 0
	}
	off := index * mtu
	length := min(n*mtu, wqe.length-off)
	h := wire.Headers{Opcode: wire.RCReadRequest, PKey: q.pkey, DestQP: q.attr.DestQPN,
		PSN: q.req.psn, AckReq: true, VA: wqe.remoteAddr + uint64(off), RKey: wqe.rkey, DMALen: length}
	if length == 0 && q.comp.tries(q)%2 == 1 {
		h.RKey = 0 // as said above
	}
	h.Put(o.packet(q.route, h.Len()))
	q.req.reads.push(psnRange{q.req.psn, q.req.psn.Add(n - 1)})
	q.countSent(1, 0, o)
	return n
}

// sendSingle sends the one packet of an atomic, an ATOMIC WRITE or a FLUSH.
func (q *QP) sendSingle(wqe *sendEntry, o *outbox) uint32 {
	if q.req.reads.n >= max(int(q.attr.MaxRdAtomic), 1) {
		return 0
	}
	h := wire.Headers{PKey: q.pkey, DestQP: q.attr.DestQPN, PSN: q.req.psn, AckReq: true,
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
		h.Opcode, size = wire.RCAtomicWrite, 8
	}
	hl := h.Len()
	o.reserve(hl + size + wire.ICRCLen)
	mark := o.mark()
	b := o.packet(q.route, hl+size)
	h.Put(b)
	from := cursor{}
	if size > 0 && !q.payload(wqe, 0, b[hl:], &from, o) || o.in.read() != nil {
		o.in.drop()
		o.rewind(mark)
		wqe.status = WCLocProtErr
		return 0
	}
	q.req.reads.push(psnRange{q.req.psn, q.req.psn})
	q.countSent(1, size, o)
	return 1
}
