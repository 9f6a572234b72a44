package rxe

import "github.com/gorxe/gorxe/wire"

// Reports receives the reasons why work failed. It is called with the QP locked, and must not call
// back into the device. Work that is only flushed is not reported: something before it failed.
type Reports interface {
	Failed(q *QP, f *Failure)
}

// Failure says why a work request failed, or why this side refused a request of its peer.
type Failure struct {
	// Status is that of the completion. With WCSuccess there is none: the peer's request was at
	// fault, and took no work request.
	Status WCStatus
	Recv   bool     // of a receive work request
	Op     WROpcode // of a send work request
	ID     uint64   // of the work request

	Cause    Cause
	Peer     wire.GID // of RC and UC, and with CauseQKey
	PeerQPN  wire.QPN
	PSN      wire.PSN      // of the packet at fault
	Syndrome wire.Syndrome // the peer's answer, or the answer to it; 0: none
	Retries  uint8         // that were made, of retry_cnt or rnr_retry
	Timeout  uint8         // attribute timeout
	Key      KeyRefusal    // of CauseKey and CauseRemoteKey
	// Malformed, of CauseMalformed, is what PostSend said of the work request; nil: nothing.
	Malformed error
	// Bytes of CauseRecvShort: of the receive buffer; of CauseLimit: the limit; of CauseMTU: in the
	// peer's packet; of CauseLinkMTU: the MTU of the network interface.
	Bytes uint64
	GRH   bool // of CauseRecvShort: the message is behind its GRH, as that of a UD queue pair is
	MTU   MTU  // of CauseMTU and CauseLinkMTU: of this side
	Fits  MTU  // of CauseLinkMTU: the largest that the interface carries
	// The Q_Key of a datagram, and that of this side, of CauseQKey.
	QKey, OwnQKey uint32
}

// Cause is what was found wrong where a failure was decided.
type Cause uint8

// The causes. Those from CauseSequence on are faults of a peer's request, found by the responder.
const (
	CauseUnknown      Cause = iota
	CauseTimeout            // the peer answered no retry
	CauseSequenceNAKs       // the peer went on to miss packets until no retry was left
	CauseLostAnswers        // answers with data were lost until no retry was left
	CauseRNR                // the peer had no receive work request until no retry was left
	CauseNAK                // the peer refused the request: Syndrome
	CauseBadResponse        // the peer's answer does not fit the request
	CauseKey                // a key of this side gives no access: Key
	CauseMemory             // the memory behind a key is not mapped
	CauseMalformed          // the work request is malformed
	CauseWindow             // a window cannot be bound or invalidated
	CauseRule               // a fault rule
	CauseCQFull             // no room in the completion queue
	CauseSpaceEnded         // the program that owns the memory has ended
	CauseRecvShort          // the message is longer than the receive buffer
	CauseSequence           // FIRST, MIDDLE, LAST and ONLY do not follow each other
	CauseQPAccess           // qp_access_flags do not permit the operation
	CauseDepth              // more READs and atomics than max_dest_rd_atomic
	CauseLength             // the length of the packet or of the message
	CauseMisaligned         // an atomic on an address that is not a multiple of 8
	CauseRemoteKey          // the peer's key gives no access: Key
	CauseInvalidate         // a key that cannot be invalidated
	CauseMTU                // the peer's packets are as long as another path MTU allows: Bytes, MTU
	// the link loses packets as long as the path MTU allows: Bytes, MTU, Fits
	CauseLinkMTU
	CauseSRQN  // XRC: the number names no SRQ of the domain
	CauseLimit // the message is longer than max_msg_sz of a Subdevice: Bytes
	CauseQKey  // UD: the datagram was dropped for its Q_Key: QKey, OwnQKey
	NumCauses
)

// KeyRefusal is an access that a key did not give.
type KeyRefusal struct {
	Key    uint32
	Addr   uint64
	Length uint64
	Need   Access // 0: to read, by this side
	Why    string // as "outside the range"; empty: nothing is known
}

// faultCauses gives the cause for each fault of a request.
var faultCauses = [numFaults]Cause{
	faultSequence: CauseSequence, faultQPAccess: CauseQPAccess, faultDepth: CauseDepth, faultLength: CauseLength, faultLimit: CauseLimit,
	faultMisaligned: CauseMisaligned, faultRemoteAccess: CauseRemoteKey, faultImmAccess: CauseRemoteKey, faultRecvShort: CauseRecvShort,
	faultRecvAccess: CauseKey, faultRecvMalformed: CauseMalformed, faultInvalidate: CauseInvalidate,
	faultOverflow: CauseCQFull, faultAsked: CauseRule, faultSRQN: CauseSRQN, faultSpaceEnded: CauseSpaceEnded,
}

// blame notes why the work request at the head of the send queue is about to fail. The caller has
// locked the QP.
func (q *QP) blame(f Failure) {
	if q.reports != nil {
		q.blamed = &f
	}
}

// blameMemory notes that memory of this side could not be accessed: because of its key, if one was
// refused, or else because of err.
func (q *QP) blameMemory() {
	switch {
	case q.reports == nil:
	case q.refused.Why != "":
		q.blame(Failure{Cause: CauseKey, Key: q.refused})
	default:
		q.blame(Failure{Cause: CauseMemory})
	}
	q.refused = KeyRefusal{}
}

// blameLink changes the cause if the link has lost packets because they were too long for it, and
// the packet at una of this work request is so long, too.
func (q *QP) blameLink(f *Failure, wqe *sendEntry) {
	link, ok := q.dev.cfg.Link.(LimitedLink)
	if !ok || wqe == nil || q.dev.localGID(q.attr.AH.DGID.Addr()) {
		return
	}
	acked := uint64(max(q.send.una.Diff(wqe.first), 0)) * uint64(q.mtu())
	rest := uint64(wqe.length) - min(acked, uint64(wqe.length))
	if mtu, lost := link.TooLong(); lost > 0 && min(rest, uint64(q.mtu()))+leastHeaders > uint64(mtu) {
		f.Cause, f.Bytes, f.MTU, f.Fits = CauseLinkMTU, uint64(mtu), q.attr.PathMTU, q.dev.activeMTU()
	}
}

// refuseKey notes the last access that a key did not give.
func (q *QP) refuseKey(key uint32, addr, n uint64, need Access, why keyReason) {
	q.refused = KeyRefusal{key, addr, n, need, why.String()}
}

// reportSend reports that the oldest work request of the send queue failed.
func (q *QP) reportSend(wqe *sendEntry, status WCStatus) {
	f := q.blamed
	if q.blamed = nil; q.reports == nil {
		return
	}
	if f == nil {
		f = &Failure{Cause: CauseMalformed, PSN: q.send.psn}
		if wqe.asked {
			f.Cause = CauseRule
		} else if f.Malformed = q.malformed; f.Malformed != nil {
			q.malformed = nil
		}
	}
	f.Status, f.Op, f.ID = status, wqe.op, wqe.id
	q.report(f)
}

// report adds what is known of the connection.
func (q *QP) report(f *Failure) {
	if q.reports == nil {
		return
	}
	if q.typ != QPUD {
		f.Peer, f.PeerQPN = q.attr.AH.DGID, q.attr.DestQPN
	}
	f.Timeout = q.attr.Timeout
	q.reports.Failed(q, f)
}

// reportFault reports that a peer's request failed, with the status of the receive work request if
// it took one.
func (r *responder) reportFault(q *QP, f fault, psn wire.PSN, status WCStatus) {
	if q.reports == nil {
		return
	}
	rule := &faultRules[f]
	x := Failure{Status: status, Cause: faultCauses[f], PSN: psn, Bytes: r.recv.capacity}
	switch {
	case x.Cause == CauseLimit:
		x.Bytes = q.maxMessage
	case x.Cause == CauseLength && r.misfit > 0:
		x.Cause, x.Bytes, x.MTU = CauseMTU, uint64(r.misfit), q.attr.PathMTU
	}
	x.GRH = f == faultRecvShort && q.typ == QPUD
	if x.Recv = r.recv.hasWQE && status != WCSuccess; x.Recv {
		x.ID = r.recv.wqe.ID
	} else {
		x.Status = WCSuccess
	}
	if rule.tell && q.reliable {
		x.Syndrome = rule.answer
	}
	if x.Cause == CauseKey || x.Cause == CauseRemoteKey {
		if x.Key, q.refused = q.refused, (KeyRefusal{}); x.Key.Why == "" {
			x.Cause = CauseMemory
		}
	}
	q.report(&x)
}
