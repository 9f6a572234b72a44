package sim

import (
	"bytes"

	"github.com/gorxe/gorxe/rxe"
)

// sendDone checks one send completion. It must be for the oldest request in flight
// or, as long as all succeeds, for the oldest signaled one.
func (e *endpoint) sendDone(wc *rxe.WC) {
	for len(e.flight) > 0 {
		s := e.flight[0]
		e.flight = e.flight[1:]
		if s.wr.ID == wc.ID {
			e.finish(s, wc)
			e.wake()
			return
		}
		if s.wr.Flags&rxe.SendSignaled != 0 || e.died {
			failf("host %d QP %#x: completion of request %d (%v) before that of %d, %v",
				e.h.index, wc.QPN, wc.ID, wc.Status, s.wr.ID, s.wr.Op)
		}
		e.succeed(s)
	}
	failf("host %d QP %#x: request %d completed twice or was never posted: %+v", e.h.index, wc.QPN, wc.ID, *wc)
}

func (e *endpoint) finish(s *sent, wc *rxe.WC) {
	if wc.Status != rxe.WCSuccess {
		e.fail(s, wc)
		return
	}
	switch {
	case e.died:
		failf("host %d QP %#x: success of request %d after a failure", e.h.index, wc.QPN, wc.ID)
	case s.wr.Flags&rxe.SendSignaled == 0:
		failf("host %d QP %#x: completion of unsignaled request %d", e.h.index, wc.QPN, wc.ID)
	case wc.Opcode != wcOpcodes[s.wr.Op]:
		failf("host %d QP %#x: completion of %v has opcode %v", e.h.index, wc.QPN, s.wr.Op, wc.Opcode)
	case s.want != nil && e.typ == rxe.QPRC && int(wc.ByteLen) != s.size:
		failf("host %d QP %#x: %v of %d bytes completed with byte_len %d", e.h.index, wc.QPN, s.wr.Op, s.size, wc.ByteLen)
	}
	e.succeed(s)
}

// succeed checks what success promises.
func (e *endpoint) succeed(s *sent) {
	e.w.stats.completed++
	e.w.stats.bytes += s.size
	e.leaveWindow(s)
	switch s.wr.Op {
	case rxe.WRBindMW:
		e.window.state = windowBound
		if got := e.window.mw.RKey(); got != e.window.rkey {
			failf("window has rkey %#x after the bind, want %#x", got, e.window.rkey)
		}
	case rxe.WRLocalInv:
		e.window.state = windowFree
	default:
	}
	if e.typ != rxe.QPRC {
		if s.want != nil {
			e.peer.unsure = append(e.peer.unsure, unsureWrite{s.target, s.want})
		}
		return
	}
	// An acknowledgement does not promise that the message has completed (IBA 9.7.5.1).
	if s.msg != nil && !s.msg.received && !e.w.p.chaos {
		failf("host %d QP %#x: %v completed before its message was received", e.h.index, e.q.Num(), s.wr.Op)
	}
	if s.want == nil {
		return
	}
	got := make([]byte, 0, s.size)
	rest := s.want
	for _, p := range s.local {
		got = append(got, e.h.mem.Data[p.off:p.off+p.n]...)
		rest = rest[copy(e.h.model[p.off:p.off+p.n], rest):]
	}
	if !bytes.Equal(got, s.want) {
		failf("host %d QP %#x: %v of %d bytes brought wrong data, first at %d", e.h.index, e.q.Num(),
			s.wr.Op, s.size, firstDiff(got, s.want))
	}
	if s.wr.Op == rxe.WRRead {
		e.readDone()
	}
}

func firstDiff(a, b []byte) int {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return i
		}
	}
	return min(len(a), len(b))
}

// readDone takes the simple way: once no READ is in flight, none is under way.
func (e *endpoint) readDone() {
	for _, s := range e.flight {
		if s.wr.Op == rxe.WRRead {
			return
		}
	}
	e.reads = e.reads[:0]
}

func (e *endpoint) leaveWindow(s *sent) {
	if s.windowed {
		e.peer.window.users--
	}
}

// fail checks an error completion. The only error that random faults may cause
// is RETRY_EXC on a reliable connection; everything behind it is flushed.
func (e *endpoint) fail(s *sent, wc *rxe.WC) {
	switch {
	case wc.Status == rxe.WCFlushErr && (e.died || e.failed):
		e.w.stats.flushed++
	case wc.Status == rxe.WCRetryExcErr && !e.died && e.typ == rxe.QPRC && e.h != e.peer.h && e.w.p.lossy():
		e.w.stats.retryExceeded++
	default:
		failf("host %d QP %#x: request %d, %v of %d bytes, completed with status %v", e.h.index,
			wc.QPN, wc.ID, s.wr.Op, s.size, wc.Status)
	}
	e.died = true
	e.abandon(s)
	e.giveUp()
}

// abandon accepts either outcome of a request that failed.
func (e *endpoint) abandon(s *sent) {
	e.leaveWindow(s)
	if s.target.n > 0 {
		e.peer.torn = append(e.peer.torn, s.target)
	}
	for _, p := range s.local {
		if s.want != nil && e.typ == rxe.QPRC {
			e.h.concede(p.off, p.n)
		}
	}
}

// giveUp ends the conversation, as a program does that sees an error: both QPs go
// to ERR.
func (e *endpoint) giveUp() {
	if e.failed {
		return
	}
	for _, x := range [2]*endpoint{e, e.peer} {
		x.failed = true
		x.h.lax = true
	}
	e.w.net.After(0, func() {
		for _, x := range [2]*endpoint{e, e.peer} {
			must(x.q.Modify(&rxe.QPAttr{State: rxe.QPErr}, rxe.QPAttrState))
		}
		e.w.poll()
		e.checkSilent()
		e.peer.checkSilent()
	})
}

// checkSilent checks that a QP in ERR has completed all requests, except the last ones if they are
// unsignaled: these had succeeded before.
func (e *endpoint) checkSilent() {
	for _, s := range e.flight {
		if s.wr.Flags&rxe.SendSignaled != 0 {
			failf("host %d QP %#x: request %d, %v, did not complete in ERR", e.h.index, e.q.Num(), s.wr.ID, s.wr.Op)
		}
		e.abandon(s)
	}
	e.flight = e.flight[:0]
}

// unsureWrite is a WRITE on UC: any part of it may have arrived.
type unsureWrite struct {
	extent
	data []byte
}

// settleUnsure compares what unreliable and failed requests left in the target with
// either outcome, and accepts it.
func (e *endpoint) settleUnsure() {
	for _, u := range e.unsure {
		for i := range u.n {
			got, old := e.h.mem.Data[u.off+i], e.h.model[u.off+i]
			if got != old && got != u.data[i] {
				failf("host %d: UC write left %#02x at %#x, neither the old %#02x nor the new %#02x",
					e.h.index, got, u.off+i, old, u.data[i])
			}
		}
		e.h.concede(u.off, u.n)
	}
	for _, x := range e.torn {
		e.h.concede(x.off, x.n)
	}
}
