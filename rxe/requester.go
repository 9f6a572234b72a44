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
	psn    wire.PSN // of the next packet
	limit  wire.PSN // one past the highest PSN ever sent
	cur    uint32   // index of the work request being sent
	most   int32    // packets in the window, if nothing is lost
	window int32    // packets, adapted to loss
	chunk  uint32   // packets that one READ request asks for, at most
	noAck  int      // payload bytes since the last AckReq
	// heldSince is when hold began to hold the requester; 0: it does not.
	heldSince Time
	portion   int // payload bytes sent since the QP rested, which only UC QPs do

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
	r.most = int32(min(windowBytes/mtu, windowPackets))
	r.chunk = uint32(wholeBursts(int(r.most)/readChunks, mtu))
	if r.window == 0 {
		r.window = r.most
	}
}

// abandon forgets the position: the queue is empty.
func (r *requester) abandon(q *QP) {
	r.cur = q.sq.prod
	r.psn = r.limit
	r.noAck = 0
	r.reads.n = 0
}

// shrink reacts to a loss.
func (r *requester) shrink() { r.window = max(r.window/2, minWindow) }

// grow reacts to n acknowledgements.
func (r *requester) grow(n uint32) {
	for ; n > 0 && r.window < r.most; n-- {
		r.window = min(r.window+1+r.window/16, r.most)
	}
}

// runRequester sends what may be sent now. The caller holds the lock.
func (q *QP) runRequester(o *outbox) {
	for q.maySend() && q.admitted(o.now) && !o.pause(q) && !q.hold(o) && !q.yields() {
		if w := q.sq.at(q.req.cur); !q.step(w, o) {
			break
		}
	}
	q.retire()
	if q.typ == QPRC && q.timer.retransmit == 0 && q.timer.rnr == 0 && q.comp.una != q.req.psn {
		q.comp.armRetransmit(q, o.now)
	}
}

// step goes on with w and reports false when it must wait: for an answer, for
// room in the window, or for its turn to be completed with an error.
func (q *QP) step(w *sendWQE, o *outbox) bool {
	switch {
	case w.status != WCSuccess:
		return false
	case w.local():
		return q.doLocal(w)
	case !w.started && !q.begin(w):
		return false
	case w.done:
		return true
	default:
		return q.sendSome(w, o)
	}
}

// maySend says whether there is a work request to go on with.
func (q *QP) maySend() bool {
	if q.timer.rnr != 0 || q.timer.hold != 0 || q.req.cur == q.sq.prod {
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
func (q *QP) begin(w *sendWQE) bool {
	if w.flags&SendFence != 0 && q.req.reads.n > 0 {
		return false // IBA 10.8.3.3: after all earlier READs and atomics
	}
	if q.typ == QPUD && int(w.length) > int(q.dev.activeMTU()) {
		// IBA C10-93.1.1, and rxe_req.c: completes, and nothing is sent.
		w.started, w.done = true, true
		q.req.cur++
		return true
	}
	w.started = true
	w.packets = 1
	if mtu := uint32(q.mtu()); q.typ != QPUD && w.op != WRFlush && w.length > mtu {
		w.packets = (w.length-1)/mtu + 1
	}
	w.first = q.req.psn
	w.last = w.first.Add(w.packets - 1)
	return true
}

// doLocal executes BIND MW and LOCAL INV when all before has completed, so
// that nothing outstanding uses the key that changes.
func (q *QP) doLocal(w *sendWQE) bool {
	q.retire()
	if q.sq.cons != q.req.cur || q.sq.empty() {
		return false
	}
	if w.op == WRBindMW {
		w.status = q.bindMW(&w.bind)
	} else {
		w.status = q.localInvalidate(w.invRKey)
	}
	w.started = true
	if w.status != WCSuccess {
		return false
	}
	w.done = true
	q.req.cur++
	return true
}

// sendSome sends the next packets of w and reports whether to go on.
func (q *QP) sendSome(w *sendWQE, o *outbox) bool {
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
	case w.op == WRRead:
		sent = q.sendRead(w, room, o)
	case w.returns():
		sent = q.sendSingle(w, o)
	default:
		sent = q.sendData(w, room, o)
	}
	if sent == 0 {
		return false
	}
	q.advance(w, sent)
	return true
}

// advance moves the position past n PSNs of w.
func (q *QP) advance(w *sendWQE, n uint32) {
	r := &q.req
	if r.psn.Less(r.limit) {
		q.stats.Retransmits.Add(uint64(n))
	}
	r.psn = r.psn.Add(n)
	if r.limit.Less(r.psn) {
		r.limit = r.psn
	}
	if r.psn.Diff(w.last) > 0 {
		r.cur++
		if q.typ != QPRC {
			w.done = true
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
func (q *QP) sendData(w *sendWQE, room uint32, o *outbox) uint32 {
	mtu := q.payloadMTU()
	index := uint32(q.req.psn.Diff(w.first))
	n := min(w.packets-index, room)
	if n > 1 {
		n = min(n, uint32(q.group(maxHeader+wire.ICRCLen)))
	}
	ok := false
	if n > 1 && q.straight() {
		ok = q.sendTrain(w, index, n, o)
	} else {
		ok = q.sendPackets(w, index, n, o)
	}
	if !ok {
		w.status = WCLocProtErr
		return 0
	}
	q.countSent(n, min(int(w.length)-int(index)*mtu, int(n)*mtu), o)
	if index+n == w.packets && w.op != WRWrite && w.op != WRWriteImm {
		q.dev.counters.RDMASends.Add(1)
	}
	return n
}

// sendPackets builds n packets of w, from packet number index on. It reports
// false when the payload cannot be read.
func (q *QP) sendPackets(w *sendWQE, index, n uint32, o *outbox) bool {
	mtu := q.payloadMTU()
	bytes := min(int(w.length)-int(index)*mtu, int(n)*mtu)
	o.reserve(int(n)*(maxHeader+wire.ICRCLen) + bytes)
	mark := o.mark()
	h := q.dataHeaders(w, index, 1)
	from := seek(w.sgl, index*uint32(mtu))
	acks := q.ackPace()
	for i := range n {
		if i > 0 {
			q.nextHeaders(&h, w, index+i)
		}
		if !q.dataPacket(w, index+i, &h, &from, &acks, o) {
			o.in.drop()
			o.rewind(mark)
			return false
		}
	}
	if o.in.read() != nil {
		o.rewind(mark)
		return false
	}
	q.req.noAck = acks.since
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
	o.sent += bytes + int(packets)*wire.BTHLen
	q.req.portion += bytes
	q.stats.SentPackets.Add(uint64(packets))
	q.stats.SentBytes.Add(uint64(bytes))
	q.dev.counters.SentPkts.Add(uint64(packets))
}

// dataPacket builds packet number index of w, all but its payload, which is
// put down to be gathered.
func (q *QP) dataPacket(w *sendWQE, index uint32, h *wire.Headers, from *cursor, acks *ackPace, o *outbox) bool {
	mtu := q.payloadMTU()
	off := int(index) * mtu
	size := min(mtu, int(w.length)-off)
	h.Pad = uint8(-size & 3)
	h.AckReq = acks.next(index == w.packets-1, size)
	route := q.route
	if q.typ == QPUD {
		route = w.ud.route
	}
	hl := h.Len()
	b := o.packet(route, hl+size+int(h.Pad))
	h.Put(b)
	clear(b[hl+size:])
	return q.payload(w, off, b[hl:hl+size], from, o)
}

// dataHeaders are those of n packets of w as one, from packet number index on.
func (q *QP) dataHeaders(w *sendWQE, index, n uint32) wire.Headers {
	ends := index+n == w.packets
	h := wire.Headers{
		Opcode:  q.messageOps(w.op).at(index == 0, ends),
		PKey:    q.pkey,
		DestQP:  q.attr.DestQPN,
		PSN:     w.first.Add(index),
		VA:      w.remoteAddr,
		RKey:    w.rkey,
		DMALen:  w.length,
		Imm:     w.imm,
		InvRKey: w.invRKey,
	}
	h.Solicited = ends && w.solicits()
	if q.typ == QPUD {
		h.DestQP, h.SrcQP, h.QKey = w.ud.qpn, q.qpn, w.ud.qkey
		if h.QKey&(1<<31) != 0 {
			h.QKey = q.attr.QKey // IBA 10.2.5: the QP's own stands in
		}
	}
	if w.length == 0 {
		h.RKey = 0 // not checked (IBA C9-88)
	}
	return h
}

// nextHeaders makes the headers of packet number index from those of the one
// before.
func (q *QP) nextHeaders(h *wire.Headers, w *sendWQE, index uint32) {
	ends := index+1 == w.packets
	h.Opcode = q.messageOps(w.op).at(false, ends)
	h.PSN = h.PSN.Next()
	h.Solicited = ends && w.solicits()
}

// solicits says whether the request's last packet asks for an event.
func (w *sendWQE) solicits() bool { return w.flags&SendSolicited != 0 && w.op != WRWrite }

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
	return ackPace{q.req.noAck, min(int(q.req.window)/4, ackEveryPackets) * q.mtu()}
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
func (q *QP) payload(w *sendWQE, off int, b []byte, from *cursor, o *outbox) bool {
	if w.flags&SendInline != 0 {
		copy(b, w.inline[off:])
		return true
	}
	return o.in.cover(q, w.sgl, from, b, 0)
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
func (q *QP) sendRead(w *sendWQE, room uint32, o *outbox) uint32 {
	if q.req.reads.n >= max(int(q.attr.MaxRdAtomic), 1) {
		return 0
	}
	mtu, chunk := uint32(q.mtu()), q.req.chunk
	index := uint32(q.req.psn.Diff(w.first))
	n := min(chunk-index%chunk, w.packets-index)
	if n > room && q.req.psn != q.comp.una {
		return 0
	}
	off := index * mtu
	length := min(n*mtu, w.length-off)
	h := wire.Headers{Opcode: wire.RCReadRequest, PKey: q.pkey, DestQP: q.attr.DestQPN,
		PSN: q.req.psn, AckReq: true, VA: w.remoteAddr + uint64(off), RKey: w.rkey, DMALen: length}
	if length == 0 && q.comp.tries(q)%2 == 1 {
		h.RKey = 0 // as said above
	}
	h.Put(o.packet(q.route, h.Len()))
	q.req.reads.push(psnRange{q.req.psn, q.req.psn.Add(n - 1)})
	q.countSent(1, 0, o)
	return n
}

// sendSingle sends the one packet of an atomic, an ATOMIC WRITE or a FLUSH.
func (q *QP) sendSingle(w *sendWQE, o *outbox) uint32 {
	if q.req.reads.n >= max(int(q.attr.MaxRdAtomic), 1) {
		return 0
	}
	h := wire.Headers{PKey: q.pkey, DestQP: q.attr.DestQPN, PSN: q.req.psn, AckReq: true,
		VA: w.remoteAddr, RKey: w.rkey, DMALen: w.length, FlushPlacement: w.flush.kind, FlushLevel: w.flush.level}
	size := 0
	switch w.op {
	case WRCompareSwap:
		h.Opcode, h.SwapAdd, h.Compare = wire.RCCompareSwap, w.swap, w.compareAdd
	case WRFetchAdd:
		h.Opcode, h.SwapAdd = wire.RCFetchAdd, w.compareAdd
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
	if size > 0 && !q.payload(w, 0, b[hl:], &from, o) || o.in.read() != nil {
		o.in.drop()
		o.rewind(mark)
		w.status = WCLocProtErr
		return 0
	}
	q.req.reads.push(psnRange{q.req.psn, q.req.psn})
	q.countSent(1, size, o)
	return 1
}
