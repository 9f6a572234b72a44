package rxe

import (
	"sync"
	"sync/atomic"
)

// A QP's lock is a gate. Program memory can block the thread that has locked a QP
// for as long as the program likes. So a thread that also serves others, with
// packets or a deadline, never waits at a gate. It leaves what it has in the QP's
// inbox and goes on. The thread that has locked the QP runs the inbox before it
// unlocks the QP. "The inbox is empty" and "the QP is unlocked" change together, in
// one word, so that nothing is left behind.

// gate is the lock of one QP, and its inbox.
type gate struct {
	mu      sync.Mutex // a leaf lock, for all fields but state and queuedBytes
	due     bool       // a deadline came, or the requester must continue
	listed  bool       // in Device.runQueue, to be collected
	closed  bool       // the QP is destroyed: nothing is queued for it any more
	inbox   inbox
	waiting int       // threads in QP.lock
	free    sync.Cond // signaled when the QP is unlocked

	queuedBytes atomic.Int64  // inbox.bytes, for readers without mu
	state       atomic.Uint32 // gateLocked and the bits below it
}

// Bits of a QP that is not locked change under mu only. A QP with nothing queued
// and no waiting thread is locked and unlocked without mu.
const (
	gateLocked  = 1 << iota
	gateQueued  // inbox is not empty, or due is set
	gateWaiting // waiting is not 0
)

func (g *gate) init() { g.free.L = &g.mu }

// tryLock locks the QP if it is free. queued reports that the inbox must be run
// first.
func (g *gate) tryLock() (locked, queued bool) {
	for {
		s := g.state.Load()
		if s&gateLocked != 0 {
			return false, false
		}
		if g.state.CompareAndSwap(s, s|gateLocked) {
			return true, s&gateQueued != 0
		}
	}
}

// tryUnlock unlocks the QP, unless something is queued.
func (g *gate) tryUnlock() bool {
	if g.state.CompareAndSwap(gateLocked, 0) {
		return true
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.state.Load()&gateQueued != 0 {
		return false
	}
	g.unlock()
	return true
}

// unlock unlocks the QP. The caller has locked it, and holds mu.
func (g *gate) unlock() {
	g.state.And(^uint32(gateLocked))
	if g.waiting > 0 {
		g.free.Signal()
	}
}

// lock waits until the QP is free, and locks it.
func (g *gate) lock() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.waiting++
	g.state.Or(gateWaiting)
	for {
		if locked, _ := g.tryLock(); locked {
			break
		}
		g.free.Wait()
	}
	if g.waiting--; g.waiting == 0 {
		g.state.And(^uint32(gateWaiting))
	}
}

// takeInbox empties the inbox.
func (g *gate) takeInbox() (in inbox, due bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	in, due = g.inbox, g.due
	g.queuedBytes.Store(0)
	g.inbox, g.due = inbox{}, false
	g.state.And(^uint32(gateQueued))
	return in, due
}

// closeInbox ends the inbox. The thread that destroys the QP runs what is in it. It
// could not finish if others kept adding to it, and would not see what they added
// afterwards.
func (g *gate) closeInbox() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = true
}

// lock locks the QP for a caller that may wait.
func (q *QP) lock() {
	if locked, _ := q.gate.tryLock(); !locked {
		q.gate.lock()
	}
}

// tryRun locks the QP if it is free. Otherwise the thread that has locked it will
// look at its deadlines and its requester.
func (q *QP) tryRun() bool {
	g := &q.gate
	if locked, _ := g.tryLock(); locked {
		return true
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.due = true
	// If the QP was unlocked meanwhile, this sees it.
	if g.state.Or(gateQueued)&gateLocked != 0 {
		return false
	}
	locked, _ := g.tryLock()
	return locked
}

// collect is for a QP taken off the run queue. It locks the QP if that is free and
// has something in its inbox, which unlock then runs.
func (q *QP) collect() bool {
	g := &q.gate
	g.mu.Lock()
	defer g.mu.Unlock()
	g.listed = false
	if g.state.Load()&gateQueued == 0 {
		return false
	}
	locked, _ := g.tryLock()
	return locked
}

// unlock runs what is queued for the QP and unlocks it. st collects what that sends.
// With a nil st, unlock sends it itself, and no other QP may be locked.
func (q *QP) unlock(st *step) {
	if q.tryUnlock(st) {
		return
	}
	own := st
	if own == nil {
		own = q.dev.newStep()
	}
	for round := 0; ; round++ {
		if round == inboxRounds {
			q.handOver()
			break
		}
		q.runInbox(own)
		if q.tryUnlock(own) {
			break
		}
		own.flush()
	}
	if st == nil {
		own.posted()
	}
}

// tryUnlock unlocks the QP, unless something is queued. It first sends what a UC QP has in st, and
// retransmissions. The next thread that locks the QP may send more of it. UC cannot repair a
// message that is overtaken, and retransmissions that are overtaken cause the next sequence NAK.
func (q *QP) tryUnlock(st *step) bool {
	if st != nil && (q.typ == QPUC || q.req.resent) {
		q.req.resent = false
		st.flush()
	}
	q.releaseAdmission()
	q.countTraffic()
	q.tallies.done.moveTo(&q.dev.opcodes.work)
	return q.gate.tryUnlock()
}

// handOver unlocks the QP whatever is in its inbox. The clock's thread, or one that
// waits for the QP, goes on with that.
func (q *QP) handOver() {
	q.countTraffic()
	q.tallies.done.moveTo(&q.dev.opcodes.work)
	if !q.dead {
		now := q.dev.cfg.Clock.Now()
		q.timer.queuedAt = now
		q.dev.timers.set(q, now, q.dev.cfg.Clock)
	}
	q.gate.mu.Lock()
	defer q.gate.mu.Unlock()
	q.gate.unlock()
}
