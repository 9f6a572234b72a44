package rxe

import (
	"net/netip"
	"sync/atomic"

	"github.com/gorxe/gorxe/wire"
)

// QP is a queue pair. Its lock, the gate, guards all fields below it. The thread
// that has an event for the QP locks it and runs the event to completion. With many
// QPs the next one is never in the cache. So the fields that every message needs
// lie close together, and send, which ends in a long ring, comes last.
type QP struct {
	dev            *Device
	sub            *Subdevice
	pd             *PD
	maxMessage     uint64 // bytes
	qpn            wire.QPN
	typ            QPType
	sendCQ, recvCQ *CQ
	srq            *SRQ
	signalAll      bool
	onSendDone     func(n uint32)
	owner          any
	faults         WorkFaults
	chaos          *chaos // nil: off
	reports        Reports

	groups   mcastGroups
	windows  atomic.Int32 // of type 2 that are bound on it; changed with the QP locked when it grows
	snapshot atomic.Pointer[QPSnapshot]
	stats    QPCounters

	activeEpoch  atomic.Uint32 // 0: nothing outstanding; else see admission
	waitingSince Time          // since when it is on the waiting list; under admission.mu

	peer netip.Addr // that Config.Filter knows; with the QP locked

	blamed    *Failure   // of the work request that is about to fail; with the QP locked
	refused   KeyRefusal // the last one; with the QP locked
	malformed error      // why the last work request was refused; with the QP locked

	gate      gate
	attr      QPAttr      // as set by Modify; attr.State is the state
	route     *wire.Route // RC, UC: made from attr.AH; replaced, never changed in place
	pkey      wire.PKey   // made from attr.PKeyIndex
	sq        sendQueue
	rq        RecvRing  // nil with an SRQ
	rring     *recvRing // rq, if it is the QP's own
	dead      bool      // destroyed
	peerLocal bool      // what local found
	peerGIDs  *gidTable // the GID table that peerLocal is true for; nil when the route changes
	rx, tx    trafficTally
	done      workTally
	timer     qpTimer
	comp      completer
	notify    notifier
	resp      responder
	req       requester
	rate      reaction
	send      sender
}

// Num returns the queue pair number.
func (q *QP) Num() wire.QPN { return q.qpn }

// Owner returns QPInitAttr.Owner. It takes no lock.
func (q *QP) Owner() any { return q.owner }

// Faults returns QPInitAttr.Faults. It takes no lock.
func (q *QP) Faults() WorkFaults { return q.faults }

// Type returns the transport service.
func (q *QP) Type() QPType { return q.typ }

// State returns the present state.
func (q *QP) State() QPState {
	q.lock()
	defer q.unlock(nil)
	return q.attr.State
}

// QPCounters counts what one queue pair did. All counters only grow.
type QPCounters struct {
	Retransmits, Timeouts     atomic.Uint64
	SeqNAKsSent, SeqNAKsRcvd  atomic.Uint64
	RNRNAKsSent, RNRNAKsRcvd  atomic.Uint64
	Duplicates, OutOfSequence atomic.Uint64
	Dropped                   atomic.Uint64
	SentPackets, RcvdPackets  atomic.Uint64
	SentBytes, RcvdBytes      atomic.Uint64 // payload
}

// mtu returns the payload bytes of a full packet.
func (q *QP) mtu() int { return int(q.attr.PathMTU) }

// fail takes the QP to ERR and flushes both queues in order. The caller has locked
// the QP and has already completed the work request at fault.
func (q *QP) fail() {
	if q.attr.State == QPErr || q.attr.State == QPReset {
		return
	}
	q.resp.held.releaseLast(q)
	if q.chaos != nil {
		q.chaos.settle(q)
	}
	q.attr.State = QPErr
	q.flushQueues()
	q.publish()
}

// flushQueues completes everything that is queued with WCFlushErr, in order.
func (q *QP) flushQueues() {
	q.flushSend()
	q.resp.flushRecv(q)
	q.clearDeadlines()
	if q.srq != nil {
		q.dev.event(Event{Type: EventQPLastWQEReached, QP: q})
	}
}
