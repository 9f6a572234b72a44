package rxe

import (
	"errors"
	"sync/atomic"

	"github.com/gorxe/gorxe/wire"
)

// fault says what is wrong with a request, or what prevented its execution. The ERR
// states of rxe_resp.c are its model.
type fault uint8

const (
	faultNone     fault = iota
	faultNoRecv         // no receive work request is posted
	faultSequence       // FIRST, MIDDLE, LAST, ONLY do not follow each other
	faultQPAccess       // the QP does not permit the operation
	faultDepth          // more READs and atomics than max_dest_rd_atomic
	faultLength         // packet or message length violates the rules
	// the message is longer than a Subdevice allows, and the device would take it
	faultLimit
	faultMisaligned   // atomic on an address that is not a multiple of 8
	faultRemoteAccess // the peer's rkey, range or right
	// the same, of a WRITE whose immediate data has taken a receive work request
	faultImmAccess
	faultRecvShort     // the message is longer than the receive buffer
	faultRecvAccess    // the receive buffer's lkey, range or right
	faultRecvMalformed // the receive work request is malformed
	faultInvalidate    // SEND with invalidate names a key that cannot be invalidated
	faultOverflow      // no room in the receive queue's CQ, or its SRQ is in error
	faultSpaceEnded    // the program that owns the memory has ended
	faultAsked         // WorkFaults says so
	// XRC: no such SRQ in the domain of the queue pair, or another one within a message
	faultSRQN
	numFaults
)

// faultRules says how to react to each fault. It follows IBA 9.9.3 (responder error
// behavior), and rdma_rxe where the tests of existing programs expect that.
var faultRules = [numFaults]struct {
	answer wire.Syndrome // RC: the NAK for the peer, if tell
	tell   bool
	status WCStatus  // of the receive work request that was taken; WCSuccess: it is flushed
	event  EventType // if raise
	raise  bool
	// ownSide faults are caused by this side. They end UC and UD QPs as well. After
	// other faults these drop the message and continue (IBA 9.9.3, class D against
	// E).
	ownSide bool
}{
	faultSequence:     {answer: nakInvalid, tell: true, event: EventQPReqErr, raise: true},
	faultQPAccess:     {answer: nakInvalid, tell: true, event: EventQPReqErr, raise: true},
	faultDepth:        {answer: nakInvalid, tell: true, event: EventQPReqErr, raise: true},
	faultLength:       {answer: nakInvalid, tell: true, event: EventQPReqErr, raise: true},
	faultLimit:        {answer: nakInvalid, tell: true, event: EventQPReqErr, raise: true},
	faultMisaligned:   {answer: nakInvalid, tell: true, event: EventQPReqErr, raise: true},
	faultRemoteAccess: {answer: nakAccess, tell: true, event: EventQPAccessErr, raise: true},
	// IBA 11.6.2, Local Access Error. rdma_rxe says WCRemAccessErr.
	faultImmAccess: {answer: nakAccess, tell: true, status: WCLocAccessErr, event: EventQPAccessErr, raise: true},
	// As adapters do. rdma_rxe says WCLocQPOpErr, and its NAK is that of the remote operational
	// error.
	faultRecvShort:     {answer: nakInvalid, tell: true, status: WCLocLenErr},
	faultRecvAccess:    {answer: nakOp, tell: true, status: WCLocProtErr, ownSide: true},
	faultRecvMalformed: {answer: nakOp, tell: true, status: WCLocQPOpErr, ownSide: true},
	// Class J: no NAK. The peer finds out by its retries (IBA 9.9.3).
	faultInvalidate: {status: WCRemInvReqErr},
	faultOverflow:   {event: EventQPFatal, raise: true, ownSide: true},
	faultAsked:      {answer: nakOp, tell: true, ownSide: true}, // the status is responder.asked
	// IBA A14, Invalid XRCETH and XRC Domain Violation. The NAK and the event are those of the
	// drivers that say what theirs are: docs/design/0080-xrc.md.
	faultSRQN: {answer: nakAccess, tell: true, event: EventQPAccessErr, raise: true},
	// As with a device that was reset, the peer finds out by its retries.
	faultSpaceEnded: {ownSide: true},
}

var (
	nakInvalid = wire.SyndromeNAK(wire.NAKInvalidRequest)
	nakAccess  = wire.SyndromeNAK(wire.NAKRemoteAccess)
	nakOp      = wire.SyndromeNAK(wire.NAKRemoteOp)
)

// faultCounters names the counter of each fault.
var faultCounters = [numFaults]func(*Counters) *atomic.Uint64{
	faultNoRecv:        func(c *Counters) *atomic.Uint64 { return &c.NoRecvWQE },
	faultSequence:      func(c *Counters) *atomic.Uint64 { return &c.BadOpcode },
	faultQPAccess:      func(c *Counters) *atomic.Uint64 { return &c.BadOpcode },
	faultDepth:         func(c *Counters) *atomic.Uint64 { return &c.BadAccess },
	faultLength:        func(c *Counters) *atomic.Uint64 { return &c.BadLength },
	faultLimit:         func(c *Counters) *atomic.Uint64 { return &c.BadLength },
	faultMisaligned:    func(c *Counters) *atomic.Uint64 { return &c.BadAccess },
	faultRemoteAccess:  func(c *Counters) *atomic.Uint64 { return &c.BadAccess },
	faultImmAccess:     func(c *Counters) *atomic.Uint64 { return &c.BadAccess },
	faultRecvShort:     func(c *Counters) *atomic.Uint64 { return &c.BadLength },
	faultRecvAccess:    func(c *Counters) *atomic.Uint64 { return &c.BadRecvWQE },
	faultRecvMalformed: func(c *Counters) *atomic.Uint64 { return &c.BadRecvWQE },
	faultInvalidate:    func(c *Counters) *atomic.Uint64 { return &c.BadAccess },
	faultOverflow:      func(c *Counters) *atomic.Uint64 { return &c.BadRecvWQE },
	faultAsked:         func(c *Counters) *atomic.Uint64 { return &c.BadRecvWQE },
	faultSRQN:          func(c *Counters) *atomic.Uint64 { return &c.BadAccess },
	faultSpaceEnded:    func(c *Counters) *atomic.Uint64 { return &c.MemoryEnded },
}

// recvFault does what WorkFaults says of the message that completes a receive work request.
func (r *responder) recvFault(q *QP, op WCOpcode) fault {
	if q.faults == nil {
		return faultNone
	}
	switch f := q.faults.Work(q, op); {
	case f.Breaks != BreaksNothing:
		q.breakRecv(f.Breaks)
		return faultOverflow
	case f.Ends:
		return faultSpaceEnded
	case f.Status != WCSuccess:
		asked := f // the other cases allocate nothing
		r.asked = &asked
		return faultAsked
	case f.ReachLimit && q.srq != nil:
		q.srq.reachLimit()
	}
	return faultNone
}

// answer returns the NAK for a message whose receive work request fails by f.
func (f *WorkFault) answer() wire.Syndrome {
	switch {
	case f.Event == EventQPReqErr, f.Status == WCLocLenErr:
		return nakInvalid
	case f.Event == EventQPAccessErr:
		return nakAccess
	default:
		return nakOp
	}
}

// inMemory returns the fault of an access that memory refused with err: f, unless
// the address space has ended.
func (f fault) inMemory(err error) fault {
	if errors.Is(err, ErrSpaceEnded) {
		return faultSpaceEnded
	}
	return f
}

func (f fault) count(c *Counters) { faultCounters[f](c).Add(1) }

// refuse answers an RC request at fault. Unless the receiver is merely not ready,
// it ends the connection. Everything that came before the request is done and
// answered first.
func (r *responder) refuse(q *QP, f fault, psn wire.PSN, msn wire.MSN, st *step) {
	if q.attr.State == QPErr || r.ending {
		return // an earlier request failed meanwhile, and is answered
	}
	switch {
	case !r.flushPayload(q, st):
	case f == faultNoRecv:
		r.notReady(q, psn, msn)
	default:
		r.end(q, f, psn, msn, st)
	}
}

// end takes the QP to ERR because of f, once the READs before it are answered.
func (r *responder) end(q *QP, f fault, psn wire.PSN, msn wire.MSN, st *step) {
	f.count(&q.dev.counters)
	if !r.readsWait() {
		r.emitSmall(q, st)
		r.terminate(q, f, psn, msn, st)
		return
	}
	r.ending = true
	r.ack = acking{}
	r.respond(q, response{kind: respondEnd, fault: f, psn: psn, msn: msn})
}

// notReady sends an RNR NAK. Packets in flight behind the refused one need no NAK,
// because the peer goes back anyway.
func (r *responder) notReady(q *QP, psn wire.PSN, msn wire.MSN) {
	r.nakSent = true
	r.ack = acking{}
	q.dev.counters.SendRNRErr.Add(1)
	q.tallies.stats.RNRNAKsSent.Add(1)
	r.respond(q, response{
		kind: respondAck, psn: psn, msn: msn,
		syndrome: wire.SyndromeRNR(q.attr.MinRNRTimer),
	})
}

// terminate takes the QP to ERR because of f (do_class_ac_error): first the NAK,
// then the work request at fault, the event, and the flush.
func (r *responder) terminate(q *QP, f fault, psn wire.PSN, msn wire.MSN, st *step) {
	rule := &faultRules[f]
	if q.chaos != nil {
		q.chaos.settle(q)
	}
	r.held.release(q, st)
	r.ack = acking{}
	r.queue = r.queue[:0]
	if rule.tell && q.reliable {
		answer := rule.answer
		if f == faultAsked {
			answer = r.asked.answer()
		}
		n := response{kind: respondAck, psn: psn, msn: msn, syndrome: answer}
		n.emit(q, st)
	}
	status, vendorErr := rule.status, uint32(0)
	if f == faultAsked {
		status, vendorErr = r.asked.Status, r.asked.VendorErr
	}
	r.reportFault(q, f, psn, status)
	if r.recv.hasWQE && status != WCSuccess {
		r.recv.hasWQE = false
		q.pushRecv(&WC{ID: r.recv.wqe.ID, Status: status, VendorErr: vendorErr, Opcode: WCRecv, QPN: q.qpn}, true)
	}
	if rule.raise {
		q.dev.event(Event{Type: rule.event, QP: q})
	} else if f == faultAsked && r.asked.Event != 0 {
		q.dev.event(Event{Type: r.asked.Event, QP: q})
	}
	q.fail()
}
