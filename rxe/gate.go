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
	shut    bool // the QP is destroyed: nothing is left for it any more

	state atomic.Uint32 // gateHeld and the others
	left  atomic.Int64  // inbox.bytes, for those who only look
}

// What is not held is changed under mu only; a QP that nobody left anything for
// and nobody waits for is taken and given back without it.
const (
	gateHeld    = 1 << iota
	gateLeft    // inbox is not empty, or due
	gateWaiting // waiting is not 0
)

func (g *gate) init() { g.free.L = &g.mu }

// enter takes the QP if it is free. left says that there is something to be run
// first.
func (g *gate) enter() (held, left bool) {
	for {
		s := g.state.Load()
		if s&gateHeld != 0 {
			return false, false
		}
		if g.state.CompareAndSwap(s, s|gateHeld) {
			return true, s&gateLeft != 0
		}
	}
}

// exit gives the QP back, unless something was left.
func (g *gate) exit() bool {
	if g.state.CompareAndSwap(gateHeld, 0) {
		return true
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.state.Load()&gateLeft != 0 {
		return false
	}
	g.open()
	return true
}

// open gives the QP back. The caller holds it, and mu.
func (g *gate) open() {
	g.state.And(^uint32(gateHeld))
	if g.waiting > 0 {
		g.free.Signal()
	}
}

// wait takes the QP when it is free.
func (g *gate) wait() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.waiting++
	g.state.Or(gateWaiting)
	for {
		if held, _ := g.enter(); held {
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
	g.left.Store(0)
	g.inbox, g.due = inbox{}, false
	g.state.And(^uint32(gateLeft))
	return in, due
}

// shutInbox ends the inbox. Whoever destroys the QP runs what is in it, and would
// not come to an end if others could add to it, nor find out what they left behind
// afterwards.
func (g *gate) shutInbox() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shut = true
}

const (
	// inboxBytes bounds the memory of what was left for one QP. Windows of two
	// directions fit in it; beyond that packets are dropped, as by any receiver
	// that is overrun, and the transport recovers. Once all inboxes together
	// have crowdBytes, which only QPs that are held fast can bring about, each
	// may have no more than crowdedBytes.
	inboxBytes = 4 << 20
	// roomyBytes is what a QP whose losses nobody mends may have while there is no
	// more in all inboxes: its sender has no window, and whoever holds the QP may
	// be waiting for a processor.
	roomyBytes   = 32 << 20
	crowdBytes   = 64 << 20
	crowdedBytes = 128 << 10
	// inboxRounds is how often a thread runs what others leave meanwhile; then
	// the clock's thread gets the rest, so that none is held up for ever.
	inboxRounds = 16
)

// inbox is a queue of parcels.
type inbox struct {
	first, last *parcel
	bytes       int // of memory
}

func (in *inbox) add(p *parcel) {
	if in.last == nil {
		in.first = p
	} else {
		in.last.next = p
	}
	in.last = p
	in.bytes += p.memory()
}

// lock takes the QP for its own caller, who may wait.
func (q *QP) lock() {
	if held, _ := q.gate.enter(); !held {
		q.gate.wait()
	}
}

// wake takes the QP if it is free, and else has whoever holds it look at its
// deadlines and its requester.
func (q *QP) wake() bool {
	g := &q.gate
	if held, _ := g.enter(); held {
		return true
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.due = true
	// If it was given back since, this finds it so.
	if g.state.Or(gateLeft)&gateHeld != 0 {
		return false
	}
	held, _ := g.enter()
	return held
}

// leave puts a parcel into the inbox, or drops it when that is full. It has the
// QP listed for Device.deliver, unless somebody holds it, who will look.
func (q *QP) leave(p *parcel) {
	all, size := &q.dev.local.bytes, int64(p.memory())
	limit := inboxBytes
	switch have := all.Add(size); {
	case have > crowdBytes:
		limit = crowdedBytes
	case have <= roomyBytes && q.typ != QPRC:
		limit = roomyBytes
	}
	full, list := q.gate.put(p, limit)
	if full {
		all.Add(-size)
		q.overrun(p)
		return
	}
	if list {
		q.dev.local.add(q)
	}
}

func (g *gate) put(p *parcel, limit int) (full, list bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.shut || g.inbox.bytes+p.memory() > limit {
		return true, false
	}
	g.inbox.add(p)
	g.left.Store(int64(g.inbox.bytes))
	list = g.state.Or(gateLeft)&gateHeld == 0 && !g.listed
	g.listed = g.listed || list
	return false, list
}

// collect is for a QP taken off the list. It takes the QP if that is free and
// has something in its inbox, which unlock runs then.
func (q *QP) collect() bool {
	g := &q.gate
	g.mu.Lock()
	defer g.mu.Unlock()
	g.listed = false
	if g.state.Load()&gateLeft == 0 {
		return false
	}
	held, _ := g.enter()
	return held
}

// overrun counts a parcel that did not fit, and frees it.
func (q *QP) overrun(p *parcel) {
	n := uint64(p.count())
	q.stats.Dropped.Add(n)
	q.dev.counters.InboxFull.Add(n)
	p.free()
}

// unlock runs what was left for the QP and gives it back. o collects what that
// sends; without one, unlock sends it itself, and no other QP may be locked.
func (q *QP) unlock(o *outbox) {
	if q.release(o) {
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
		if q.release(own) {
			break
		}
		own.flush()
	}
	if o == nil {
		own.posted()
	}
}

// release gives the QP back, unless something was left for it. What a UC QP has
// in o is sent before: whoever takes the QP next may send more of it, and a
// message that is overtaken is lost, for UC repeats nothing.
func (q *QP) release(o *outbox) bool {
	if q.typ == QPUC && o != nil {
		o.flush()
	}
	q.leaveCrowd()
	return q.gate.exit()
}

// handOver gives the QP back whatever is in its inbox, for the clock's thread to
// go on with, or for whoever waits for the QP.
func (q *QP) handOver() {
	if !q.dead {
		now := q.dev.cfg.Clock.Now()
		q.timer.queued = now
		q.dev.timers.set(q, now, q.dev.cfg.Clock)
	}
	q.gate.mu.Lock()
	defer q.gate.mu.Unlock()
	q.gate.open()
}

// runInbox works through what was left, as one visit. The caller holds the QP.
func (q *QP) runInbox(o *outbox) {
	in, due := q.gate.takeInbox()
	q.dev.local.bytes.Add(int64(-in.bytes))
	for p := in.first; p != nil; p = p.next {
		switch {
		case p.form.n == 0:
			q.unpack(p, o)
		case !q.takeTrain(p, o):
			cut := p.cut()
			cut.next, p.next = p.next, cut
		}
	}
	if due {
		o.now = q.dev.cfg.Clock.Now()
		q.deadlines(o)
	}
	q.endVisit(o)
	for p := in.first; p != nil; {
		next := p.next
		p.free()
		p = next
	}
}
