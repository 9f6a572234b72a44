package rxe

import (
	"errors"
	"sync/atomic"

	"github.com/gorxe/gorxe/wire"
)

// fault says what is wrong with a request, or with what it met here.
type fault uint8

const (
	faultNone          fault = iota
	faultNoRecv              // no receive work request is posted
	faultSequence            // FIRST, MIDDLE, LAST, ONLY do not follow each other
	faultQPAccess            // the QP does not permit the operation
	faultDepth               // more READs and atomics than max_dest_rd_atomic
	faultLength              // packet or message length against the rules
	faultMisaligned          // atomic on an address that is not a multiple of 8
	faultRemoteAccess        // rkey, range or right of the peer's request
	faultRecvShort           // the message is longer than the receive buffer
	faultRecvAccess          // lkey, range or right of the receive buffer
	faultRecvMalformed       // the receive work request makes no sense
	faultInvalidate          // SEND with invalidate names what cannot be
	faultOverflow            // no room in the receive queue's CQ
	faultSpaceEnded          // the program whose memory it is has ended
	numFaults
)

// faultRules gives for each fault what IBA 9.9.3 (responder error behaviour) asks
// for, or rdma_rxe does where tests of existing programs expect that.
var faultRules = [numFaults]struct {
	answer wire.Syndrome // RC: what the peer is told, if tell
	tell   bool
	status WCStatus  // of the receive work request in hand; WCSuccess: it is flushed
	event  EventType // if raise
	raise  bool
	// local faults are this side's doing: they end UC and UD as well, which
	// else drop the message and go on (IBA 9.9.3, class D against E).
	local bool
}{
	faultSequence:      {answer: nakInvalid, tell: true, event: EventQPReqErr, raise: true},
	faultQPAccess:      {answer: nakInvalid, tell: true, event: EventQPReqErr, raise: true},
	faultDepth:         {answer: nakInvalid, tell: true, event: EventQPReqErr, raise: true},
	faultLength:        {answer: nakInvalid, tell: true, event: EventQPReqErr, raise: true},
	faultMisaligned:    {answer: nakInvalid, tell: true, event: EventQPReqErr, raise: true},
	faultRemoteAccess:  {answer: nakAccess, tell: true, event: EventQPAccessErr, raise: true},
	faultRecvShort:     {answer: nakOp, tell: true, status: WCLocQPOpErr},
	faultRecvAccess:    {answer: nakOp, tell: true, status: WCLocProtErr, local: true},
	faultRecvMalformed: {answer: nakOp, tell: true, status: WCLocQPOpErr, local: true},
	// Class J: no NAK; the peer finds out by its retries (IBA 9.9.3).
	faultInvalidate: {status: WCRemInvReqErr},
	faultOverflow:   {event: EventQPFatal, raise: true, local: true},
	// As a device that was reset: the peer finds out by its retries.
	faultSpaceEnded: {local: true},
}

var (
	nakInvalid = wire.SyndromeNAK(wire.NAKInvalidRequest)
	nakAccess  = wire.SyndromeNAK(wire.NAKRemoteAccess)
	nakOp      = wire.SyndromeNAK(wire.NAKRemoteOp)
)

// faultCounters says under which name each fault is counted.
var faultCounters = [numFaults]func(*Counters) *atomic.Uint64{
	faultNoRecv:        func(c *Counters) *atomic.Uint64 { return &c.NoRecvWQE },
	faultSequence:      func(c *Counters) *atomic.Uint64 { return &c.BadOpcode },
	faultQPAccess:      func(c *Counters) *atomic.Uint64 { return &c.BadOpcode },
	faultDepth:         func(c *Counters) *atomic.Uint64 { return &c.BadAccess },
	faultLength:        func(c *Counters) *atomic.Uint64 { return &c.BadLength },
	faultMisaligned:    func(c *Counters) *atomic.Uint64 { return &c.BadAccess },
	faultRemoteAccess:  func(c *Counters) *atomic.Uint64 { return &c.BadAccess },
	faultRecvShort:     func(c *Counters) *atomic.Uint64 { return &c.BadLength },
	faultRecvAccess:    func(c *Counters) *atomic.Uint64 { return &c.BadRecvWQE },
	faultRecvMalformed: func(c *Counters) *atomic.Uint64 { return &c.BadRecvWQE },
	faultInvalidate:    func(c *Counters) *atomic.Uint64 { return &c.BadAccess },
	faultOverflow:      func(c *Counters) *atomic.Uint64 { return &c.BadRecvWQE },
	faultSpaceEnded:    func(c *Counters) *atomic.Uint64 { return &c.MemoryEnded },
}

// inMemory is the fault of an access that the memory refused with err, f if the
// program is still there.
func (f fault) inMemory(err error) fault {
	if errors.Is(err, ErrSpaceEnded) {
		return faultSpaceEnded
	}
	return f
}

func (f fault) count(c *Counters) { faultCounters[f](c).Add(1) }

// refuse answers a request of the RC service at fault and, unless the receiver
// is merely not ready, ends the connection. All that came before it is done
// and answered first.
func (r *responder) refuse(q *QP, f fault, psn wire.PSN, msn wire.MSN, o *outbox) {
	if q.attr.State == QPErr {
		return // what was done on the way here failed, and was answered
	}
	if !r.flushPayload(q, o) || !r.sendAllResponses(q, o) {
		return
	}
	if f == faultNoRecv {
		r.notReady(q, psn, msn)
		return
	}
	f.count(&q.dev.counters)
	r.terminate(q, f, psn, msn, o)
}

// notReady sends an RNR NAK. The packets that are in flight behind the one
// refused deserve no NAK: the peer will go back anyway.
func (r *responder) notReady(q *QP, psn wire.PSN, msn wire.MSN) {
	r.nakSent = true
	r.ack = acking{}
	q.dev.counters.SendRNRErr.Add(1)
	q.stats.RNRNAKsSent.Add(1)
	r.respond(q, response{
		kind: respondAck, psn: psn, msn: msn,
		syndrome: wire.SyndromeRNR(q.attr.MinRNRTimer),
	})
}

// terminate takes the QP to ERR because of f: the NAK, the work request at
// fault, the event, then the flush.
func (r *responder) terminate(q *QP, f fault, psn wire.PSN, msn wire.MSN, o *outbox) {
	rule := &faultRules[f]
	r.ack = acking{}
	r.queue = r.queue[:0]
	if rule.tell && q.typ == QPRC {
		n := response{kind: respondAck, psn: psn, msn: msn, syndrome: rule.answer}
		n.emit(q, o)
	}
	if r.recv.hasWQE && rule.status != WCSuccess {
		r.recv.hasWQE = false
		q.pushRecvError(r.recv.wqe.ID, rule.status)
	}
	if rule.raise {
		q.dev.event(Event{Type: rule.event, QP: q})
	}
	q.fail()
}
