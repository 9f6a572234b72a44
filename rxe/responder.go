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
	psn   wire.PSN     // expected next
	msn   wire.MSN     // messages completed
	msg   wire.OpFlags // the message being received: OpSend, OpWrite or 0
	quiet bool         // a NAK told the peer where to go on: no second one
	known bool         // EventCommEst was raised

	ack   acking
	queue []response // to be sent, in PSN order
	write writing
	pend  pending
	recv  receiving

	history resources // for replays of READs and atomics
	pace    pacing

	grh [wire.GRHLen]byte // of the datagram being received
	wc  WC                // the completion being made
}

// receiving is the receive work request at the head of the queue, once it was
// taken.
type receiving struct {
	wqe  RecvWQE
	held bool
	at   cursor
	// malformed: wqe makes no sense, by the word of who keeps the queue.
	malformed bool
	room      uint64 // bytes of wqe.SGL
	bytes     uint64 // received into it
}

// writing is the RDMA WRITE being received.
type writing struct {
	rkey  wire.RKey
	va    uint64 // of the next byte
	left  uint32
	total uint32
}

// pending is payload on its way to memory, of one kind of message. If it
// cannot be written, the request at fault is the first: psn and msn are from
// before it.
type pending struct {
	batch spanBatch
	kind  wire.OpFlags
	psn   wire.PSN
	msn   wire.MSN
}

// leased adds a piece of a message of that kind which the batch's lease covers.
func (d *pending) leased(kind wire.OpFlags, key uint32, addr uint64, data []byte) bool {
	return d.kind == kind && d.batch.leased(key, addr, data)
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
		pend:    pending{batch: r.pend.batch},
		queue:   r.queue[:0],
		history: r.history,
	}
}

// setPSN sets the PSN that is expected first (rq_psn).
func (r *responder) setPSN(_ *QP, psn wire.PSN) {
	r.psn = psn & wire.PSNMask
	r.quiet = false
}

// flushRecv completes the receive work request in hand and, unless they belong
// to an SRQ, those that are posted, in order (IBA 10.3.1): as many as the queue
// holds, since one in a program's memory can be filled as fast as it is flushed.
func (r *responder) flushRecv(q *QP) {
	r.pend.batch.drop()
	r.queue, r.ack, r.msg = r.queue[:0], acking{}, 0
	if r.recv.held {
		r.recv.held = false
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
func (r *responder) request(q *QP, p train, dg *wire.Datagram, o *outbox) {
	if q.typ != QPUD && !r.known && q.attr.State == QPRTR {
		r.known = true // IBA 11.6.3: communication established
		q.dev.event(Event{Type: EventCommEst, QP: q})
	}
	switch q.typ {
	case QPRC:
		r.reliable(q, p, o)
	case QPUC:
		r.unreliable(q, p, o)
	case QPUD:
		r.datagram(q, p.Packet, dg, o)
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

// reliable handles a request of the RC service.
func (r *responder) reliable(q *QP, p train, o *outbox) {
	switch ahead := p.PSN().Diff(r.psn); {
	case ahead > 0:
		r.gap(q, o)
		return
	case ahead < 0:
		r.duplicate(q, p.Packet, o)
		return
	}
	if r.quiet {
		r.quiet = false
		r.cancelNAK()
	}
	msn := r.msn
	if f := r.execute(q, p, o); f != faultNone {
		r.refuse(q, f, p.PSN(), msn, o)
		return
	}
	if p.AckReq() && !p.Info().Has(answered) {
		r.ack.owed, r.ack.dup = true, false
	}
}

// gap answers a request beyond the expected one: one NAK that names the PSN
// missed, and silence until that arrives (IBA 9.7.4.1).
func (r *responder) gap(q *QP, o *outbox) {
	q.stats.OutOfSequence.Add(1)
	if r.quiet {
		q.dev.counters.OutOfSeqDrop.Add(1)
		return
	}
	if !r.settle(q, o) {
		return
	}
	q.dev.counters.OutOfSeqRequest.Add(1)
	r.quiet = true
	r.ack = acking{} // implied
	q.stats.SeqNAKsSent.Add(1)
	r.respond(q, response{
		kind: respondAck, psn: r.psn, msn: r.msn,
		syndrome: wire.SyndromeNAK(wire.NAKPSNSequence),
	})
}

// execute checks the packet that is expected, in the order in which rdma_rxe
// does, and does what it asks for.
func (r *responder) execute(q *QP, p train, o *outbox) fault {
	info := p.Info()
	switch {
	case !r.inSequence(info):
		return faultSequence
	case !q.permits(p.Packet):
		return faultQPAccess
	case info.Has(answered) && (q.attr.MaxDestRdAtomic == 0 || r.full(q, o)):
		return faultDepth
	}
	if info.Has(wire.OpRecv) {
		if f := r.takeRecv(q); f != faultNone {
			return f
		}
	}
	switch {
	case info.Has(wire.OpSend):
		return r.execSend(q, p, o)
	case info.Has(wire.OpWrite):
		return r.execWrite(q, p, o)
	case info.Has(wire.OpRead):
		return r.execRead(q, p.Packet, o)
	case info.Has(wire.OpAtomic):
		return r.execAtomic(q, p.Packet, o)
	case info.Has(wire.OpAtomicWrite):
		return r.execAtomicWrite(q, p.Packet, o)
	case info.Has(wire.OpFlush):
		return r.execFlush(q, p.Packet, o)
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

// inSequence says whether a packet may follow the one before it (IBA 9.7.4.1).
func (r *responder) inSequence(info *wire.OpInfo) bool {
	if info.Has(wire.OpStart) {
		return r.msg == 0
	}
	return r.msg != 0 && info.Has(r.msg)
}

// follow notes what message, if any, goes on after n packets that were executed.
func (r *responder) follow(info *wire.OpInfo, n uint32) {
	r.psn = r.psn.Add(n)
	if info.Has(wire.OpEnd) {
		r.msg = 0
		r.msn = (r.msn + 1) & wire.MSNMask
		return
	}
	r.msg = info.Flags & messageKind
}

// permits says whether the QP allows the operation at all (qp_access_flags).
func (q *QP) permits(p wire.Packet) bool {
	info := p.Info()
	var need Access
	switch {
	case info.Has(wire.OpWrite | wire.OpAtomicWrite):
		need = AccessRemoteWrite
	case info.Has(wire.OpRead):
		need = AccessRemoteRead
	case info.Has(wire.OpAtomic):
		need = AccessRemoteAtomic
	case info.Has(wire.OpFlush):
		need = flushAccess(p)
	}
	return q.attr.Access&need == need
}

// takeRecv makes sure that a receive work request is in hand.
func (r *responder) takeRecv(q *QP) fault {
	v := &r.recv
	if !v.held {
		if v.held, v.malformed = q.popRecv(&v.wqe); !v.held {
			return faultNoRecv
		}
		v.room = 0
		for i := range v.wqe.SGL {
			v.room += uint64(v.wqe.SGL[i].Length)
		}
	}
	v.rewind()
	if v.malformed {
		return faultRecvMalformed
	}
	return faultNone
}

// rewind goes back to the start of the buffer: what it holds of an abandoned
// message is overwritten.
func (v *receiving) rewind() { v.at, v.bytes = cursor{}, 0 }
