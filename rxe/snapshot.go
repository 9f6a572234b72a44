package rxe

import "github.com/gorxe/gorxe/wire"

// QPSnapshot is what a queue pair was like when it was last free.
type QPSnapshot struct {
	Num     wire.QPN
	Type    QPType
	State   QPState
	DestQPN wire.QPN // RC, UC
	DGID    wire.GID // RC, UC
	PathMTU MTU      // RC, UC
	// SendPSN is the next request's PSN, AckedPSN the oldest that was not
	// answered, RecvPSN the one expected from the peer.
	SendPSN, AckedPSN, RecvPSN wire.PSN
	SendQueue                  uint32 // work requests that have not completed
	// Busy: a thread works on the QP at this moment. It may be waiting for the
	// program's memory.
	Busy bool
}

// Snapshot says what the QP is like. It never waits: while a thread works on
// the QP, the answer is from before that. For the counters see Counters, which
// does not wait either.
func (q *QP) Snapshot() QPSnapshot {
	g := &q.gate
	g.mu.Lock()
	defer g.mu.Unlock()
	s := g.seen
	s.Num, s.Type, s.Busy = q.qpn, q.typ, g.held
	return s
}

// observe is for whoever holds the QP.
func (q *QP) observe() QPSnapshot {
	return QPSnapshot{
		State:     q.attr.State,
		DestQPN:   q.attr.DestQPN,
		DGID:      q.attr.AH.DGID,
		PathMTU:   q.attr.PathMTU,
		SendPSN:   q.req.psn,
		AckedPSN:  q.comp.una,
		RecvPSN:   q.resp.psn,
		SendQueue: q.sq.prod - q.sq.cons,
	}
}
