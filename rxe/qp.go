package rxe

import (
	"net/netip"
	"sync/atomic"

	"github.com/gorxe/gorxe/wire"
)

// QP is a queue pair. Its lock, the gate, guards what has no other rule. The thread
// that has an event for the QP locks it and runs the event to completion.
//
// With many QPs the next one is never in the cache. So the fields that every message needs
// lie close together: most structs begin with them, and rate and gate end with them
// (BenchmarkManyQPs).
//
// Fields: the roles of a QP are structs already, and these are what all roles share.
type QP struct {
	dev            *Device
	qpn            wire.QPN
	typ            QPType
	signalAll      bool
	dead           bool          // destroyed
	peerLocal      bool          // what local found
	pkey           wire.PKey     // made from attr.PKeyIndex
	activeEpoch    atomic.Uint32 // 0: nothing outstanding; else see admission
	srq            *SRQ
	sendCQ, recvCQ *CQ
	chaos          *chaos      // nil: off
	route          *wire.Route // RC, UC: made from attr.AH; replaced, never changed in place
	peerGIDs       *gidTable   // the GID table that peerLocal is true for; nil when the route changes
	faults         WorkFaults
	onSendDone     func(n uint32)
	maxMessage     uint64 // bytes

	attr   QPAttr // as set by Modify; attr.State is the state
	send   sender
	sq     sendQueue
	timer  qpTimer
	rx, tx trafficTally
	stats  QPCounters
	rate   reaction
	req    requester
	comp   completer
	resp   responder
	gate   gate
	done   workTally
	notify notifier
	rq     RecvRing  // nil with an SRQ
	rring  *recvRing // rq, if it is the QP's own

	sub     *Subdevice
	pd      *PD
	owner   any
	reports Reports

	groups   mcastGroups
	windows  atomic.Int32 // of type 2 that are bound on it; changed with the QP locked when it grows
	snapshot atomic.Pointer[QPSnapshot]

	waitingSince Time // since when it is on the waiting list; under admission.mu

	peer   netip.Addr // that Config.Filter knows; with the QP locked
	number numberKind
	user   any

	blamed    *Failure   // of the work request that is about to fail; with the QP locked
	refused   KeyRefusal // the last one; with the QP locked
	malformed error      // why the last work request was refused; with the QP locked
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
	SentPackets, RcvdPackets  atomic.Uint64
	SentBytes, RcvdBytes      atomic.Uint64 // payload
	Retransmits, Timeouts     atomic.Uint64
	SeqNAKsSent, SeqNAKsRcvd  atomic.Uint64
	RNRNAKsSent, RNRNAKsRcvd  atomic.Uint64
	Duplicates, OutOfSequence atomic.Uint64
	Dropped                   atomic.Uint64
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
	q.watchReceives()
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
