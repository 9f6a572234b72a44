package rxe

import "sync"

// A QP's lock is a gate. Program memory can block the thread that holds a QP
// for as long as the program likes, so a thread that serves others as well, one
// that brings packets or a deadline, never waits at a gate: it leaves what it
// has in the QP's inbox and goes on. Whoever holds the QP runs the inbox before
// giving it back. That nothing is left and that the QP is free are decided in
// one step, so nothing stays behind.

// gate is the lock of one QP and what was left for it.
type gate struct {
	mu      sync.Mutex // a leaf lock, held for a few instructions
	free    sync.Cond  // on mu: held became false
	held    bool
	waiting int // threads in QP.lock

	inbox  inbox
	listed bool // in Device.local, to be collected
	due    bool // a deadline came, or the requester has to go on
	seen   QPSnapshot
}

func (g *gate) init() { g.free.L = &g.mu }

const (
	// inboxBytes bounds the memory of what was left for one QP. Windows of two
	// directions fit in it; beyond that packets are dropped, as by any receiver
	// that is overrun, and the transport recovers.
	inboxBytes = 4 << 20
	// inboxRounds is how often a thread runs what others leave meanwhile; then
	// the clock's thread gets the rest, so that none is held up for ever.
	inboxRounds = 16
)

// inbox is a queue of parcels.
type inbox struct {
	first, last *parcel
	bytes       int // of memory
}

func (in *inbox) empty() bool { return in.first == nil }

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
	g := &q.gate
	g.mu.Lock()
	g.waiting++
	for g.held {
		g.free.Wait()
	}
	g.waiting--
	g.held = true
	g.mu.Unlock()
}

// tryLock takes the QP if it is free.
func (q *QP) tryLock() bool {
	g := &q.gate
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.held {
		return false
	}
	g.held = true
	return true
}

// wake takes the QP if it is free, and else has whoever holds it look at its
// deadlines and its requester.
func (q *QP) wake() bool {
	g := &q.gate
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.held {
		g.due = true
		return false
	}
	g.held = true
	return true
}

// leave puts a parcel into the inbox, or drops it when that is full. It has the
// QP listed for Device.deliver, unless somebody holds it.
func (q *QP) leave(p *parcel) {
	g := &q.gate
	g.mu.Lock()
	full := g.inbox.bytes+p.memory() > inboxBytes
	if !full {
		g.inbox.add(p)
	}
	list := !full && !g.listed && !g.held // its holder will look
	g.listed = g.listed || list
	g.mu.Unlock()
	switch {
	case full:
		q.overrun(p)
	case list:
		q.dev.local.add(q)
	}
}

// collect is for a QP taken off the list. It takes the QP if that is free and
// has something in its inbox, which unlock runs then.
func (q *QP) collect() bool {
	g := &q.gate
	g.mu.Lock()
	defer g.mu.Unlock()
	g.listed = false
	if g.held || g.inbox.empty() {
		return false
	}
	g.held = true
	return true
}

// idle says whether nothing is left to be done. The caller holds the QP.
func (g *gate) idle() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.inbox.empty() && !g.due
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
	if q.release() {
		return
	}
	own := o
	if own == nil {
		own = q.dev.getOutbox()
	}
	for round := 0; ; round++ {
		if round == inboxRounds {
			q.handOver(own)
			break
		}
		q.runInbox(own)
		if q.release() {
			break
		}
		own.flush()
	}
	if o == nil {
		own.posted()
	}
}

// release gives the QP back, unless there is something to be done first.
func (q *QP) release() bool {
	g := &q.gate
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.inbox.empty() || g.due {
		return false
	}
	g.giveBack(q)
	return true
}

// handOver gives the QP back with work left in its inbox, for the clock's
// thread to go on with, or for whoever waits for the QP.
func (q *QP) handOver(o *outbox) {
	if !q.dead {
		o.now = q.dev.cfg.Clock.Now()
		q.timer.queued = o.now
		q.dev.timers.set(q, o.now, q.dev.cfg.Clock)
	}
	q.gate.mu.Lock()
	defer q.gate.mu.Unlock()
	q.gate.giveBack(q)
}

// giveBack opens the gate. The caller holds mu, and the QP.
func (g *gate) giveBack(q *QP) {
	g.seen = q.observe()
	g.held = false
	if g.waiting > 0 {
		g.free.Signal()
	}
}

// takeInbox empties the inbox.
func (g *gate) takeInbox() (first *parcel, due bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	first, due = g.inbox.first, g.due
	g.inbox, g.due = inbox{}, false
	return first, due
}

// runInbox works through what was left, as one visit. The caller holds the QP.
func (q *QP) runInbox(o *outbox) {
	first, due := q.gate.takeInbox()
	for p := first; p != nil; p = p.next {
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
	for p := first; p != nil; {
		next := p.next
		p.free()
		p = next
	}
}
