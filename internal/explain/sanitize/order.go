package sanitize

import (
	"slices"

	"github.com/gorxe/gorxe/rxe"
	"github.com/gorxe/gorxe/wire"
)

// What a process knows of requests, its own and those of others. It learns it from completions that
// it has polled: from those of its requests, from messages, and from the results of atomics. A key
// tells what its owner knew when it registered the region.

// news is what a completion or a message tells its reader.
type news struct {
	slot int // of the queue pair that mark is about; -1: none
	mark mark
	more clock // that the sender knew
	// all says that it is not known what the reader learns: then it learns what anybody knows. So
	// races are missed, and none is found that is not there.
	all bool
	by  *object // of a message: its sender, and what it posted
	p   *post
}

// opened notes that a process has opened a device. It knows what the others know: perhaps one of
// them has started it. s.mu is held.
func (s *Session) opened(pid int) {
	p := s.processes[pid]
	if p == nil && len(s.processes) >= maxProcesses {
		return
	}
	if p == nil {
		p = new(process)
		p.learn(s.world())
		s.processes[pid] = p
	}
	p.files++
}

// closed notes that a process has closed a device. s.mu is held.
func (s *Session) closed(pid int) {
	p := s.processes[pid]
	if p == nil {
		return
	}
	if p.files--; p.files == 0 {
		delete(s.processes, pid)
	}
}

// world is what anybody knows. s.mu is held.
func (s *Session) world() clock {
	var all process
	for _, p := range s.processes {
		all.learn(p.knows)
		for _, c := range p.queues {
			for i := range c.pushed[:c.known()] {
				all.learn(c.pushed[i].more)
				all.note(c.pushed[i].slot, c.pushed[i].mark)
			}
		}
	}
	return all.knows
}

// hear has a process learn news. s.mu is held.
func (s *Session) hear(p *process, n *news) {
	if n.all {
		p.learn(s.world())
	}
	p.learn(n.more)
	p.note(n.slot, n.mark)
}

// order is what an object has for the order of requests.
type order struct {
	slot     int      // of a QP in the clocks; -1: none
	fenced   uint64   // of a QP: READs up to this number are over before what is posted now
	messages []news   // of a QP: not received yet
	lost     bool     // of a QP: some of messages are not kept
	pushed   []news   // of a CQ: not polled yet
	knows    clock    // what the process knew when it made the object
	head     *receive // of a QP: the receive that the next message takes; nil: not known
}

// ordered notes what the process knows that has made an object. s.mu is held.
func (f *File) ordered(o *object) {
	o.slot = -1
	by := f.s.processes[f.pid]
	if !f.s.races || by == nil || o.Region == nil && o.QP == nil {
		return
	}
	if f.s.look(by); o.QP != nil {
		f.s.slotOf(o)
	}
	o.knows = by.keep()
}

// connects has a process learn what the peer's process knew when it made its queue pair, whose
// number it has told. s.mu is held.
func (f *File) connects(o *object, mask rxe.QPAttrMask) {
	if by := f.s.processes[f.pid]; f.s.races && by != nil && mask&rxe.QPAttrDestQPN != 0 {
		if p := f.s.only(func(p *object) bool { return wire.QPN(p.Number) == o.settings.dest }); p != nil {
			by.learn(p.knows)
		}
	}
}

// slotOf gives a queue pair a slot of the clocks. The numbers of its requests begin after those of
// the last queue pair that had the slot: clocks may still have these.
func (s *Session) slotOf(o *object) {
	o.slot = slices.Index(s.slots, nil)
	switch {
	case o.slot >= 0:
		s.slots[o.slot] = o
	case len(s.slots) < maxSlots:
		o.slot = len(s.slots)
		s.slots, s.numbers = append(s.slots, o), append(s.numbers, 0)
	}
}

// numbered gives a request its number. s.mu is held.
func (s *Session) numbered(o *object, p *post, fenced bool) {
	if o.slot < 0 { // races are not looked for, or there are too many queue pairs
		return
	}
	s.numbers[o.slot]++
	p.number = s.numbers[o.slot]
	if fenced {
		o.fenced = p.number - 1
	}
}

// unreliable reports whether the completion of a request says nothing of the peer.
func (o *object) unreliable() bool {
	t := o.QP.QP.Type()
	return t == rxe.QPUC || t == rxe.QPUD
}

// completed is what the completion of a request says.
func (o *object) completed(p *post) news {
	m := mark{done: p.number, back: p.number}
	if o.unreliable() {
		m.done = 0
	}
	return news{slot: o.slot, mark: m, more: p.tells.more, all: p.tells.all}
}

// sent is what a message or an atomic tells: what the process knew, that the peer has executed the
// requests before it, and that READs before a fence are over. s.mu is held.
func (f *File) sent(o *object, p *post, by *process) news {
	n := news{slot: o.slot, mark: mark{done: p.number, back: o.fenced}}
	if o.unreliable() {
		n.mark.back = p.number
	}
	n.more = by.keep()
	return n
}

func isMessage(op rxe.WROpcode) bool {
	switch op {
	case rxe.WRSend, rxe.WRSendImm, rxe.WRSendInv, rxe.WRWriteImm:
		return true
	default:
		return false
	}
}

// tell keeps what a message tells until it is received. s.mu is held.
func (f *File) tell(o *object, p *post) {
	by := f.s.processes[f.pid]
	switch {
	case !f.s.races || by == nil || !isMessage(p.op):
	case o.unreliable(): // messages may be lost: a receiver of one may know of the last one
		f.s.forget(o)
		o.messages = append(o.messages, f.message(o, p, by))
		f.s.noted++
	case f.s.noted >= maxNews:
		f.s.forget(o)
		o.lost = true
	case f.s.peer(o) != nil && !o.lost:
		o.messages = append(o.messages, f.message(o, p, by))
		f.s.noted++
	}
}

// message is what a message tells. What it writes, if it is known, is compared when it has come.
func (f *File) message(o *object, p *post, by *process) news {
	n := f.sent(o, p, by)
	if !o.unreliable() && p.op != rxe.WRWriteImm && o.slot >= 0 {
		n.by, n.p = o, p
	}
	return n
}

// forget drops what the messages of a queue pair tell. s.mu is held.
func (s *Session) forget(o *object) {
	s.noted -= len(o.messages)
	o.messages = nil
}

// heard returns what a received message tells. s.mu is held.
func (f *File) heard(o *object, wc *rxe.WC) news {
	from := f.s.sender(o, wc)
	if from == nil || len(from.messages) == 0 {
		return news{slot: -1, all: true}
	}
	n := from.messages[0]
	if !from.unreliable() {
		from.messages = from.messages[1:]
		f.s.noted--
	}
	return n
}

// only returns the queue pair of which this is true; nil: there is none, or several. s.mu is held.
func (s *Session) only(is func(*object) bool) (found *object) {
	for _, o := range s.qps {
		if !is(o) {
			continue
		}
		if found != nil {
			return nil
		}
		found = o
	}
	return found
}

// peer returns the other end of a queue pair; nil: it is not of this run, or several may be it.
func (s *Session) peer(o *object) *object {
	if !o.settings.rtr {
		return nil
	}
	me := wire.QPN(o.Number)
	back := func(p *object) bool {
		return wire.QPN(p.Number) == o.settings.dest && p.settings.rtr && p.settings.dest == me
	}
	if p := s.qps[qpName{o.file.device, o.settings.dest}]; p != nil && back(p) {
		return p
	}
	return s.only(back)
}

// sender returns the queue pair that has sent a message to o; nil: as of peer.
func (s *Session) sender(o *object, wc *rxe.WC) *object {
	if o.QP.QP.Type() == rxe.QPUD {
		return s.only(func(p *object) bool { return wire.QPN(p.Number) == wc.SrcQP })
	}
	return s.peer(o)
}

// received notes the completion of a receive.
func (f *File) received(q *rxe.QP, wc *rxe.WC) {
	if !f.s.races {
		return
	}
	f.s.mu.Lock()
	defer f.s.mu.Unlock()
	o := f.byQP[q]
	if o == nil {
		return
	}
	n := news{slot: -1}
	if wc.Status == rxe.WCSuccess {
		n = f.heard(o, wc)
	}
	f.landed(o, &n, wc)
	n.by, n.p = nil, nil
	f.notes(o.QP.RecvCQ, n)
}

// notes keeps what a completion tells until it is polled. s.mu is held.
func (f *File) notes(queue any, n news) {
	by := f.s.processes[f.pid]
	if !f.s.races || by == nil {
		return
	}
	c := f.objects[queue]
	// nobody knows when it is polled: perhaps at once
	if c == nil || c.CQ == nil || c.CQ.Behind != nil {
		f.s.hear(by, &n)
		return
	}
	if len(c.pushed) == 0 && !slices.Contains(by.queues, c) {
		by.queues = append(by.queues, c)
	}
	c.pushed = append(c.pushed, n)
	if f.s.noted++; f.s.noted > maxNews {
		f.s.polled(by, c, 1)
	}
}

// polled has a process learn from the n oldest completions of a queue. s.mu is held.
func (s *Session) polled(by *process, c *object, n int) {
	for i := range c.pushed[:n] {
		s.hear(by, &c.pushed[i])
	}
	s.noted -= n
	c.pushed = slices.Delete(c.pushed, 0, n)
}

// known is how many of the completions in pushed the process has polled.
func (c *object) known() int { return min(max(len(c.pushed)-c.CQ.Waiting(), 0), len(c.pushed)) }

// look finds out what the process has polled. s.mu is held.
func (s *Session) look(by *process) {
	for _, c := range by.queues {
		s.polled(by, c, c.known())
	}
	by.queues = slices.DeleteFunc(by.queues, func(c *object) bool { return len(c.pushed) == 0 })
}

// unordered forgets the order of an object that ends. What its completions tell is known then.
// s.mu is held.
func (f *File) unordered(o *object) {
	by := f.s.processes[f.pid]
	switch {
	case by == nil || !f.s.races:
	case o.QP != nil:
		if f.s.stopped(o); o.slot >= 0 {
			f.s.slots[o.slot] = nil
		}
	case o.CQ != nil:
		f.s.polled(by, o, len(o.pushed))
	case o.Region != nil:
		f.s.claims = slices.DeleteFunc(f.s.claims, func(c claim) bool { return c.via == keyName{f.device, o.Number} })
	}
}

// stopped forgets the requests of a queue pair, which are over. s.mu is held.
func (s *Session) stopped(o *object) {
	s.forget(o)
	if o.slot >= 0 {
		s.claims = slices.DeleteFunc(s.claims, func(c claim) bool { return c.by == o })
	}
}
