package rxe

import "github.com/gorxe/gorxe/wire"

// QPSnapshot describes a queue pair as it was when it was last unlocked.
type QPSnapshot struct {
	Num     wire.QPN
	Type    QPType
	State   QPState
	DestQPN wire.QPN // RC, UC
	DGID    wire.GID // RC, UC
	PathMTU MTU      // RC, UC
	// SendPSN is the next request's PSN, AckedPSN the oldest that was not answered,
	// RecvPSN the one expected from the peer.
	SendPSN, AckedPSN, RecvPSN wire.PSN
	SendQueue                  uint32 // work requests that have not completed
	// Rate is what congestion has left of the sender's rate, in bytes a second. 0: no limit.
	Rate int64
	// Busy reports that a thread works on the QP at this moment. It may be waiting
	// for the program's memory.
	Busy bool
}

// Snapshot describes the QP. It never waits: while a thread works on the QP, its
// changes are not seen yet, except for State. Counters, which returns the counters,
// does not wait either.
func (q *QP) Snapshot() QPSnapshot {
	locked, queued := q.gate.tryLock()
	if locked {
		q.publish()
		// not unlock, because running an inbox may take long
		if queued || !q.gate.tryUnlock() {
			q.handOver()
		}
	}
	s := *q.snapshot.Load()
	s.Busy = !locked
	return s
}

// publish records what others may see of the QP while it is locked.
func (q *QP) publish() { q.publishAs(q.attr.State) }

// publishAs does that with the state that the QP is about to have.
func (q *QP) publishAs(state QPState) {
	if q.rate.rate != 0 {
		q.rate.catchUp(q.dev.cfg.Clock.Now())
	}
	q.snapshot.Store(&QPSnapshot{
		Num:       q.qpn,
		Type:      q.typ,
		State:     state,
		DestQPN:   q.attr.DestQPN,
		DGID:      q.attr.AH.DGID,
		PathMTU:   q.attr.PathMTU,
		SendPSN:   q.send.psn,
		AckedPSN:  q.send.una,
		RecvPSN:   q.resp.psn,
		SendQueue: q.sq.prod - q.sq.cons,
		Rate:      q.rate.rate,
	})
}
