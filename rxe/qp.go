package rxe

import (
	"sync/atomic"

	"github.com/gorxe/gorxe/wire"
)

// QP is a queue pair. Its lock, the gate, guards what has no other rule. The thread
// that has an event for the QP locks it and runs the event to completion.
//
// With many QPs the next one is never in the cache. So the fields that every message needs
// lie close together: most structs begin with them, and rate and gate end with them
// (BenchmarkManyQPs).
type QP struct {
	qpMade
	intake
	srqn uint32 // SRQ.Num of an XRC target's intake
	dead bool   // destroyed
	admissionState
	peering
	attr QPAttr // as set by Modify; attr.State is the state

	// The roles, and what they share.
	send    sender
	sq      sendQueue
	timer   qpTimer
	tallies tallies
	rate    reaction
	req     requester
	comp    completer
	resp    responder
	gate    gate
	notify  notifier
	qpErrors

	listing // of filterpeers.go
	groups  mcastGroups
	// of type 2 that are bound on it; changed with the QP locked when it grows
	windows  atomic.Int32
	opens    int32 // of an XRC target: callers that have not destroyed it; under dev.mu
	snapshot atomic.Pointer[QPSnapshot]
}

// qpMade is what CreateQP has set. It never changes.
type qpMade struct {
	dev                 *Device
	qpn                 wire.QPN
	typ                 QPType
	number              numberKind
	reliable, signalAll bool
	facts               *typeFacts
	sendCQ              *CQ    // nil: an XRC target
	xrcd                *XRCD  // of an XRC target
	chaos               *chaos // nil: off
	faults              WorkFaults
	onSendDone          func(n uint32)
	maxMessage          uint64    // bytes
	rq                  RecvRing  // nil with an SRQ, and without a receive queue
	rring               *recvRing // rq, if it is the QP's own
	sub                 *Subdevice
	reports             Reports
	observer            Observer // nil: none
	owner               any
}

// intake is where the responder takes receive work requests from, and to which domain the keys of
// requests belong. An XRC target has that of the SRQ which the request at hand names: it changes
// with the QP locked (responder.chooseSRQ). That of other QPs never changes.
type intake struct {
	srq    *SRQ // nil: none
	recvCQ *CQ  // nil: an XRC initiator
	pd     *PD
}

// peering is how a connected QP reaches its peer. It follows from attr.
type peering struct {
	pkey      wire.PKey   // made from attr.PKeyIndex
	peerLocal bool        // what peerIsLocal found
	route     *wire.Route // RC, UC: made from attr.AH; replaced, never changed in place
	peerGIDs  *gidTable   // the GID table that peerLocal is true for; nil when the route changes
}

// qpErrors is what explains the errors of a QP to its owner.
type qpErrors struct {
	blamed    *Failure   // of the work request that is about to fail
	refused   KeyRefusal // the last one
	malformed error      // why the last work request was refused
}

// Num returns the queue pair number.
func (q *QP) Num() wire.QPN { return q.qpn }

// Owner returns QPInitAttr.Owner. It takes no lock.
func (q *QP) Owner() any { return q.owner }

// Faults returns QPInitAttr.Faults. It takes no lock.
func (q *QP) Faults() WorkFaults { return q.faults }

// Now is the time of the device.
func (q *QP) Now() Time { return q.dev.cfg.Clock.Now() }

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
	Waits                     waits // of the requester, by reason (flow.go)
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
	if q.typ == QPXRCTgt || q.srq != nil {
		q.dev.event(Event{Type: EventQPLastWQEReached, QP: q})
	}
}
