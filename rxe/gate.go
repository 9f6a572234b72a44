package rxe

import (
	"sync"
	"sync/atomic"
)

// A QP's lock is a gate. Program memory can block the thread that holds a QP
// for as long as the program likes, so a thread that serves others as well, one
// that brings packets or a deadline, never waits at a gate: it leaves what it
// has in the QP's inbox and goes on. Whoever holds the QP runs the inbox before
// giving it back. That nothing is left and that the QP is free is one step, on
// one word, so nothing stays behind.

// gate is the lock of one QP and what was left for it.
type gate struct {
	mu      sync.Mutex // a leaf lock, for all but state and left
	free    sync.Cond  // held is no more
	waiting int        // threads in QP.lock
	inbox   inbox
	due     bool // a deadline came, or the requester has to go on
	listed  bool // in Device.local, to be collected
	closed  bool // the QP is destroyed: nothing is left for it any more

	state       atomic.Uint32 // gateLocked and the others
	queuedBytes atomic.Int64  // inbox.bytes, for those who only look
}

// What is not held is changed under mu only; a QP that nobody left anything for
// and nobody waits for is taken and given back without it.
const (
	gateLocked  = 1 << iota
	gateQueued  // inbox is not empty, or due
	gateWaiting // waiting is not 0
)

func (g *gate) init() { g.free.L = &g.mu }

// tryLock takes the QP if it is free. left says that there is something to be run
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

// tryUnlock gives the QP back, unless something was left.
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

// unlock gives the QP back. The caller holds it, and mu.
func (g *gate) unlock() {
	g.state.And(^uint32(gateLocked))
	if g.waiting > 0 {
		g.free.Signal()
	}
}

// lock takes the QP when it is free.
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

// closeInbox ends the inbox. Whoever destroys the QP runs what is in it, and would
// not come to an end if others could add to it, nor find out what they left behind
// afterwards.
func (g *gate) closeInbox() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = true
}

// lock takes the QP for its own caller, who may wait.
func (q *QP) lock() {
	if locked, _ := q.gate.tryLock(); !locked {
		q.gate.lock()
	}
}

// tryRun takes the QP if it is free, and else has whoever holds it look at its
// deadlines and its requester.
func (q *QP) tryRun() bool {
	g := &q.gate
	if locked, _ := g.tryLock(); locked {
		return true
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.due = true
	// If it was given back since, this finds it so.
	if g.state.Or(gateQueued)&gateLocked != 0 {
		return false
	}
	locked, _ := g.tryLock()
	return locked
}

// collect is for a QP taken off the list. It takes the QP if that is free and
// has something in its inbox, which unlock runs then.
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

// unlock runs what was left for the QP and gives it back. o collects what that
// sends; without one, unlock sends it itself, and no other QP may be locked.
func (q *QP) unlock(o *outbox) {
	if q.tryUnlock(o) {
		return
	}
	own := o
	if own == nil {
		own = q.dev.getOutbox()
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
	if o == nil {
		own.posted()
	}
}

// tryUnlock gives the QP back, unless something was left for it. What a UC QP has
// in o is sent before: whoever takes the QP next may send more of it, and a
// message that is overtaken is lost, for UC repeats nothing.
func (q *QP) tryUnlock(o *outbox) bool {
	if q.typ == QPUC && o != nil {
		o.flush()
	}
	q.releaseAdmission()
	return q.gate.tryUnlock()
}

// handOver gives the QP back whatever is in its inbox, for the clock's thread to
// go on with, or for whoever waits for the QP.
func (q *QP) handOver() {
	if !q.dead {
		now := q.dev.cfg.Clock.Now()
		q.timer.queuedAt = now
		q.dev.timers.set(q, now, q.dev.cfg.Clock)
	}
	q.gate.mu.Lock()
	defer q.gate.mu.Unlock()
	q.gate.unlock()
}
