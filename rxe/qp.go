package rxe

import (
	"sync/atomic"

	"github.com/gorxe/gorxe/wire"
)

// QP is a queue pair. Its lock covers everything below gate; whoever has an
// event for the QP takes it and runs the event to completion. With many QPs the
// next one is never in the cache: what every message needs lies close together,
// and req, which ends in a long ring, comes last.
type QP struct {
	dev            *Device
	pd             *PD
	qpn            wire.QPN
	typ            QPType
	sendCQ, recvCQ *CQ
	srq            *SRQ
	signalAll      bool
	onSendDone     func(n uint32)

	groups   mcastGroups
	windows  atomic.Int32 // of type 2 that are bound on it; grows under the lock only
	snapshot atomic.Pointer[QPSnapshot]
	stats    QPCounters

	activeEpoch  atomic.Uint32 // in the device's crowd
	waitingSince Time          // in its line since then, under crowd.mu

	gate      gate
	attr      QPAttr      // what ModifyQP set; attr.State is the state
	route     *wire.Route // RC, UC: made from attr.AH; replaced, never changed
	pkey      wire.PKey   // made from attr.PKeyIndex
	sq        sendQueue
	rq        RecvRing  // nil with an SRQ
	rring     *recvRing // rq, when it is PostRecv's own
	dead      bool      // destroyed
	peerLocal bool      // what local found
	peerGIDs  *gidTable // where, nil when route changes
	rx        rxTally
	timer     qpTimer
	comp      completer
	resp      responder
	req       requester
	send      sender
}

// Num is the queue pair number.
func (q *QP) Num() wire.QPN { return q.qpn }

// Type is the transport service.
func (q *QP) Type() QPType { return q.typ }

// State is the present state.
func (q *QP) State() QPState {
	q.lock()
	defer q.unlock(nil)
	return q.attr.State
}

// QPCounters count what one queue pair did; all monotonic.
type QPCounters struct {
	Retransmits, Timeouts     atomic.Uint64
	SeqNAKsSent, SeqNAKsRcvd  atomic.Uint64
	RNRNAKsSent, RNRNAKsRcvd  atomic.Uint64
	Duplicates, OutOfSequence atomic.Uint64
	Dropped                   atomic.Uint64
	SentPackets, RcvdPackets  atomic.Uint64
	SentBytes, RcvdBytes      atomic.Uint64 // payload
}

// mtu is the payload bytes of a full packet.
func (q *QP) mtu() int { return int(q.attr.PathMTU) }

// fail takes the QP to ERR and flushes both queues in order. The caller holds
// the lock and has already completed the work request at fault.
func (q *QP) fail() {
	if q.attr.State == QPErr || q.attr.State == QPReset {
		return
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
