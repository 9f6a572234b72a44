package rxe

import "github.com/gorxe/gorxe/wire"

// The responder executes a peer's requests. A packet goes request -> the
// service's own sequence rules (reliable below, unreliable and datagram in
// responder_ud.go) -> execute (responder_ops.go), which checks and does what
// the packet asks. What a packet does wrong is a fault (responder_fault.go);
// what is to be sent back waits in PSN order (responder_read.go).
//
// Payload is not copied as it comes: the pieces of a batch are written to
// memory with one call, before anything that would show that they are there.

// responder is the receiving role of a QP. The zero value is that of RESET.
type responder struct {
	psn         wire.PSN     // expected next
	msn         wire.MSN     // messages completed
	openMessage wire.OpFlags // the message being received: OpSend, OpWrite or 0
	nakSent     bool         // a NAK told the peer where to go on: no second one
	established bool         // EventCommEst was raised

	ack   acking
	queue []response // to be sent, in PSN order
	write inboundWrite
	pend  pendingWrite
	recv  receiving

	history resources // for replays of READs and atomics
	pace    readPacing

	grh [wire.GRHLen]byte // of the datagram being received
	wc  WC                // the completion being made
}

// receiving is the receive work request at the head of the queue, once it was
// taken.
type receiving struct {
	wqe    RecvWQE
	hasWQE bool
	at     cursor
	// malformed: wqe makes no sense, by the word of who keeps the queue.
	malformed bool
	capacity  uint64 // bytes of wqe.SGL
	bytes     uint64 // received into it
}

// inboundWrite is the RDMA WRITE being received.
type inboundWrite struct {
	rkey  wire.RKey
	va    uint64 // of the next byte
	left  uint32
	total uint32
}

// pendingWrite is payload on its way to memory, of one kind of message. If it
// cannot be written, the request at fault is the first: psn and msn are from
// before it.
type pendingWrite struct {
	batch spanBatch
	kind  wire.OpFlags
	psn   wire.PSN
	msn   wire.MSN
}

// extend adds a piece of a message of that kind which the batch's lease covers.
func (pend *pendingWrite) extend(kind wire.OpFlags, key uint32, addr uint64, data []byte) bool {
	return pend.kind == kind && pend.batch.extend(key, addr, data)
}

// acking is what acknowledgement is owed at the end of a batch.
type acking struct {
	owed bool
	dup  bool     // for a duplicate:
	psn  wire.PSN // of the ACK then
}

// reset forgets everything, as the transition to RESET wants it. Storage is
// kept.
func (r *responder) reset(*QP) {
	r.pend.batch.drop()
	r.history.clear()
	*r = responder{
		recv:    receiving{wqe: RecvWQE{SGL: r.recv.wqe.SGL[:0]}},
		pend:    pendingWrite{batch: r.pend.batch},
		queue:   r.queue[:0],
		history: r.history,
	}
}

// setPSN sets the PSN that is expected first (rq_psn).
func (r *responder) setPSN(_ *QP, psn wire.PSN) {
	r.psn = psn & wire.PSNMask
	r.nakSent = false
}

// flushRecv completes the receive work request in hand and, unless they belong
// to an SRQ, those that are posted, in order (IBA 10.3.1): as many as the queue
// holds, since one in a program's memory can be filled as fast as it is flushed.
func (r *responder) flushRecv(q *QP) {
	r.pend.batch.drop()
	r.queue, r.ack, r.openMessage = r.queue[:0], acking{}, 0
	if r.recv.hasWQE {
		r.recv.hasWQE = false
		q.pushRecvError(r.recv.wqe.ID, WCFlushErr)
	}
	if q.srq != nil {
		return
	}
	for range q.attr.Cap.MaxRecvWR {
		ok, _ := q.popRecv(&r.recv.wqe)
		if !ok {
			return
		}
		q.pushRecvError(r.recv.wqe.ID, WCFlushErr)
	}
}

// pushRecvError completes a receive work request that failed. There is nothing
// left to do if that does not fit its queue either.
func (q *QP) pushRecvError(id uint64, status WCStatus) {
	q.recvCQ.push(&WC{ID: id, Status: status, Opcode: WCRecv, QPN: q.qpn}, true)
}

// request handles one request packet that passed the checks of QP.refusal, or a
// train of them.
func (r *responder) request(q *QP, pkt packet, dg *wire.Datagram, o *outbox) {
	if q.typ != QPUD && !r.established && q.attr.State == QPRTR {
		r.established = true // IBA 11.6.3: communication established
		q.dev.event(Event{Type: EventCommEst, QP: q})
	}
	switch q.typ {
	case QPRC:
		r.requestRC(q, pkt, o)
	case QPUC:
		r.requestUC(q, pkt, o)
	case QPUD:
		r.requestUD(q, pkt.Packet, dg, o)
	}
}

// endBatch writes to memory and sends what the packets since the last call
// left to be done.
func (r *responder) endBatch(q *QP, o *outbox) {
	if !r.settle(q, o) {
		return
	}
	r.emitSmall(q, o)
	r.emitACK(q, o)
}

// requestRC handles a request of the RC service.
func (r *responder) requestRC(q *QP, pkt packet, o *outbox) {
	switch ahead := pkt.PSN().Diff(r.psn); {
	case ahead > 0:
		r.nakSequence(q, o)
		return
	case ahead < 0:
		r.duplicateRequest(q, pkt.Packet, o)
		return
	}
	if r.nakSent {
		r.nakSent = false
		r.cancelNAK()
	}
	msn := r.msn
	if f := r.execute(q, pkt, o); f != faultNone {
		r.refuse(q, f, pkt.PSN(), msn, o)
		return
	}
	if pkt.AckReq() && !pkt.Info().Has(answered) {
		r.ack.owed, r.ack.dup = true, false
	}
}

// nakSequence answers a request beyond the expected one: one NAK that names the PSN
// missed, and silence until that arrives (IBA 9.7.4.1).
func (r *responder) nakSequence(q *QP, o *outbox) {
	q.stats.OutOfSequence.Add(1)
	if r.nakSent {
		q.dev.counters.OutOfSeqDrop.Add(1)
		return
	}
	if !r.settle(q, o) {
		return
	}
	q.dev.counters.OutOfSeqRequest.Add(1)
	r.nakSent = true
	r.ack = acking{} // implied
	q.stats.SeqNAKsSent.Add(1)
	r.respond(q, response{
		kind: respondAck, psn: r.psn, msn: r.msn,
		syndrome: wire.SyndromeNAK(wire.NAKPSNSequence),
	})
}

// execute checks the packet that is expected, in the order in which rdma_rxe
// does, and does what it asks for.
func (r *responder) execute(q *QP, pkt packet, o *outbox) fault {
	info := pkt.Info()
	switch {
	case !r.checkOpSeq(info):
		return faultSequence
	case !q.checkOpValid(pkt.Packet):
		return faultQPAccess
	case info.Has(answered) && (q.attr.MaxDestRdAtomic == 0 || r.resourcesFull(q, o)):
		return faultDepth
	}
	if info.Has(wire.OpRecv) {
		if f := r.getRecvWQE(q); f != faultNone {
			return f
		}
	}
	switch {
	case info.Has(wire.OpSend):
		return r.sendDataIn(q, pkt, o)
	case info.Has(wire.OpWrite):
		return r.writeDataIn(q, pkt, o)
	case info.Has(wire.OpRead):
		return r.queueRead(q, pkt.Packet, o)
	case info.Has(wire.OpAtomic):
		return r.atomicReply(q, pkt.Packet, o)
	case info.Has(wire.OpAtomicWrite):
		return r.atomicWriteReply(q, pkt.Packet, o)
	case info.Has(wire.OpFlush):
		return r.processFlush(q, pkt.Packet, o)
	default:
		return faultSequence
	}
}

const (
	// answered are the requests with a response of their own, which
	// max_dest_rd_atomic limits.
	answered    = wire.OpRead | wire.OpAtomic | wire.OpAtomicWrite | wire.OpFlush
	messageKind = wire.OpSend | wire.OpWrite
)

// checkOpSeq says whether a packet may follow the one before it (IBA 9.7.4.1).
func (r *responder) checkOpSeq(info *wire.OpInfo) bool {
	if info.Has(wire.OpStart) {
		return r.openMessage == 0
	}
	return r.openMessage != 0 && info.Has(r.openMessage)
}

// advance notes what message, if any, goes on after n packets that were executed.
func (r *responder) advance(info *wire.OpInfo, n uint32) {
	r.psn = r.psn.Add(n)
	if info.Has(wire.OpEnd) {
		r.openMessage = 0
		r.msn = (r.msn + 1) & wire.MSNMask
		return
	}
	r.openMessage = info.Flags & messageKind
}

// checkOpValid says whether the QP allows the operation at all (qp_access_flags).
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

// getRecvWQE makes sure that a receive work request is in hand.
func (r *responder) getRecvWQE(q *QP) fault {
	recv := &r.recv
	if !recv.hasWQE {
		if recv.hasWQE, recv.malformed = q.popRecv(&recv.wqe); !recv.hasWQE {
			return faultNoRecv
		}
		recv.capacity = 0
		for i := range recv.wqe.SGL {
			recv.capacity += uint64(recv.wqe.SGL[i].Length)
		}
	}
	recv.rewind()
	if recv.malformed {
		return faultRecvMalformed
	}
	return faultNone
}

// rewind goes back to the start of the buffer: what it holds of an abandoned
// message is overwritten.
func (recv *receiving) rewind() { recv.at, recv.bytes = cursor{}, 0 }
