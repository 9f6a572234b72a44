package rxe

import "github.com/gorxe/gorxe/wire"

// The responder executes a peer's requests. Its stages have the names that the
// kernel's rxe_resp.c gives them. A packet goes from request to requestRC below, or
// to requestUC and requestUD in responder_ud.go. These check its PSN (checkPSN),
// check it (responder_check.go) and execute it (responder_ops.go). What is wrong
// with a packet is a fault (responder_fault.go). Requests that were seen before are
// answered by responder_dup.go. What must be sent back waits in PSN order
// (response.go). A request that READs hold up is deferred (responder_defer.go).
//
// Payload is not copied as it comes. The pieces of a batch are written to memory
// with one call, before anything that would show that they are there.

// responder is the receiving role of a QP. The zero value is that of RESET.
type responder struct {
	psn         wire.PSN     // expected next
	msn         wire.MSN     // messages completed
	openMessage wire.OpFlags // kind of the message being received: OpSend, OpWrite or 0
	nakSent     bool         // a NAK has told the peer where to continue; it gets no second one
	established bool         // EventCommEst was raised
	told        bool         // of UC and UD: that messages are dropped was reported
	ending      bool         // queue ends with a fatal NAK: nothing more is executed

	ack      acking
	queue    []response // to be sent, in PSN order
	write    inboundWrite
	deferred deferral
	pend     pendingWrite
	pace     readPacing
	held     ackHold
	late     lateLooks
	recv     receiving
	// delivered are the SENDs whose payload is the parts of pend.batch.
	delivered []delivery

	history resources // for replays of READs and atomics

	grh [wire.GRHLen]byte // GRH of the datagram being received
	wc  WC                // the completion being made

	asked  *WorkFault // of faultAsked
	strays strays     // of UD
	misfit MTU        // of faultLength: see packet.otherMTU
}

// receiving is the receive work request that the responder has taken off the queue.
type receiving struct {
	wqe    RecvWQE
	hasWQE bool
	// malformed: the owner of the receive queue says that wqe is malformed.
	malformed bool
	at        cursor
	capacity  uint64 // bytes of wqe.SGL
	bytes     uint64 // received into it
}

// delivery is a SEND that completes once its payload is in memory.
type delivery struct {
	wc        WC
	solicited bool
	psn       wire.PSN // of the request behind it
	msn       wire.MSN // with it
}

// inboundWrite is the RDMA WRITE being received.
type inboundWrite struct {
	rkey  wire.RKey
	va    uint64 // address of the next byte
	left  uint32
	total uint32
}

// pendingWrite is payload that waits to be written to memory, of one kind of
// message. If it cannot be written, the first request is at fault: psn and msn are
// from before that one.
type pendingWrite struct {
	batch spanBatch
	kind  wire.OpFlags
	psn   wire.PSN
	msn   wire.MSN
}

// extend adds a piece of a message of this kind if the range that was checked last
// covers it.
func (pend *pendingWrite) extend(kind wire.OpFlags, key uint32, addr uint64, data []byte) bool {
	return pend.kind == kind && pend.batch.extend(key, addr, data)
}

// acking is the acknowledgement that is owed at the end of a batch.
type acking struct {
	owed bool
	dup  bool     // for a duplicate:
	psn  wire.PSN // PSN of the ACK for a duplicate
}

// reset forgets everything, for the transition to RESET. It keeps the storage.
func (r *responder) reset(q *QP) {
	r.pend.batch.drop()
	r.history.clear()
	r.dropDeferred(q)
	*r = responder{
		recv:    receiving{wqe: RecvWQE{SGL: r.recv.wqe.SGL[:0]}},
		pend:    pendingWrite{batch: r.pend.batch},
		queue:   r.queue[:0],
		history: r.history,

		delivered: r.delivered[:0],
	}
}

// setPSN sets the PSN that is expected first (rq_psn).
func (r *responder) setPSN(_ *QP, psn wire.PSN) {
	r.psn = psn & wire.PSNMask
	r.nakSent = false
}

// flushRecv completes the receive work request that the responder has taken. Unless
// the QP has an SRQ, it also completes those that are posted, in order (IBA
// 10.3.1). It completes as many as the queue has room for and no more, because a
// program can fill a queue in its memory as fast as it is flushed.
func (r *responder) flushRecv(q *QP) {
	r.pend.batch.drop()
	r.dropDeferred(q)
	r.queue, r.ack, r.openMessage, r.ending = r.queue[:0], acking{}, 0, false
	for i := range r.delivered {
		q.pushRecvError(r.delivered[i].wc.ID, WCFlushErr)
	}
	r.delivered = r.delivered[:0]
	if r.recv.hasWQE {
		r.recv.hasWQE = false
		q.pushRecvError(r.recv.wqe.ID, WCFlushErr)
	}
	if q.rq == nil {
		return // an SRQ, or none
	}
	for range q.attr.Cap.MaxRecvWR {
		ok, _ := q.popRecv(&r.recv.wqe)
		if !ok {
			return
		}
		q.pushRecvError(r.recv.wqe.ID, WCFlushErr)
	}
}

// pushRecvError completes a receive work request that failed. If the completion
// does not fit its queue, nothing is left to do.
func (q *QP) pushRecvError(id uint64, status WCStatus) {
	q.pushRecv(&WC{ID: id, Status: status, Opcode: WCRecv, QPN: q.qpn}, true)
}

// request handles a request, plain or super-packet, that has passed QP.refusal.
func (r *responder) request(q *QP, pkt packet, dg *wire.Datagram, st *step) {
	if q.typ != QPUD && !r.established && q.attr.State == QPRTR {
		r.established = true // IBA 11.6.3: communication established
		q.dev.event(Event{Type: EventCommEst, QP: q})
	}
	switch q.typ {
	case QPRC, QPXRCTgt:
		r.requestRC(q, pkt, dg, st)
	case QPUC:
		r.requestUC(q, pkt, st)
	case QPUD:
		r.requestUD(q, pkt.Packet, dg, st)
	default: // an XRC initiator has no responder
		q.dev.counters.BadType.Add(1)
		q.tallies.stats.Dropped.Add(1)
	}
}

// endBatch writes to memory and sends what the packets since the last call require
// (acknowledge).
func (r *responder) endBatch(q *QP, st *step) {
	if !r.flushPayload(q, st) {
		return
	}
	r.emitSmall(q, st)
	r.emitACK(q, st)
}

// requestRC handles a request of the RC or the XRC service, or defers it.
func (r *responder) requestRC(q *QP, pkt packet, dg *wire.Datagram, st *step) {
	switch {
	case r.mustWait(q, pkt, st):
		if r.mayDefer(q, pkt, st) {
			r.deferCopy(q, pkt, dg)
		}
		return
	case q.attr.State == QPErr:
		return // while earlier READs were answered
	case r.ending && !pkt.PSN().Less(r.psn):
		q.tallies.stats.Dropped.Add(1)
		return
	case !r.checkPSN(q, pkt, st):
		return
	}
	msn := r.msn
	f := r.check(q, pkt, st)
	if f == faultNone {
		f = r.execute(q, pkt, st)
	}
	if f != faultNone {
		r.refuse(q, f, pkt.PSN(), msn, st)
		return
	}
	if pkt.AckReq() && !pkt.Info().Has(hasResponse) {
		r.ack.owed, r.ack.dup = true, false
	}
}

// advance moves the expected PSN past count packets that were executed, and notes
// whether their message goes on.
func (r *responder) advance(info *wire.OpInfo, count uint32) {
	r.psn = r.psn.Add(count)
	if info.Has(wire.OpEnd) {
		r.openMessage = 0
		r.msn = (r.msn + 1) & wire.MSNMask
		return
	}
	r.openMessage = info.Flags & messageKind
}

// rewind goes back to the start of the buffer: the next message overwrites what
// it holds of an abandoned one.
func (recv *receiving) rewind() { recv.at, recv.bytes = cursor{}, 0 }
