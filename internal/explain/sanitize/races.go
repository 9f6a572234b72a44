package sanitize

import (
	"slices"

	"github.com/gorxe/gorxe/internal/sys/procmaps"
	"github.com/gorxe/gorxe/rxe"
	"github.com/gorxe/gorxe/wire"
)

// use says what a request does to memory.
type use uint8

const (
	useRead use = iota
	useWrite
	useAtomic
)

// claim is a range that a request reads or writes, of its own process or of the peer. It is kept
// until each process knows that this is over.
type claim struct {
	by *object
	p  *post
	space
	span
	shift uint64 // from start to the address in the program, which differ in a file
	use   use
	local bool
	// late: the data of a READ or atomic comes after what later requests do, unless a fence is
	// between.
	late bool
	via  keyName
}

// space is an address space, or a file that processes share. Of a peer in another run only its
// address and the key are known.
type space struct {
	pid  int
	file procmaps.File
	host wire.GID
	key  uint32
}

// at says where memory of a region is that begins at an address of the program.
func (c *claim) at(o *object, start, length uint64) {
	c.space, c.span = space{pid: o.file.pid}, span{start, length}
	if s := o.Region.Shared; s != nil {
		c.space, c.start = space{file: s.File}, start-o.Region.Start+s.Offset
		c.shift = start - c.start
	}
}

func (a *claim) overlaps(b *claim) bool {
	return a.space == b.space && a.start < b.start+b.length && b.start < a.start+a.length
}

// race compares a new request with those that others, or the same queue pair, have made. s.mu is
// held.
func (f *File) race(o *object, p *post) {
	s := f.s
	by := s.processes[f.pid]
	if !s.races || by == nil || o.slot < 0 {
		return
	}
	s.look(by)
	if r := s.regionOf(o, p.rkey); r != nil {
		by.learn(r.knows)
	}
	flag := (p.op == rxe.WRWrite || p.op == rxe.WRAtomicWrite) && p.length > 0 && p.length <= flagBytes
	switch {
	case flag && s.peer(o) != nil:
		p.tells, p.tellsOwner = f.sent(o, p, by), true
	case !isAtomic(p.op):
	case s.peer(o) == nil: // in another run, where nobody sees its order
		p.tells = news{slot: -1, all: true}
	default:
		p.tells = f.sent(o, p, by)
	}
	var room [1 + maxPieces]claim
	list := f.claimed(room[:0], o, p)
	for i := range list {
		s.compare(f, &list[i], by)
	}
	for i := range list {
		s.claim(&list[i])
	}
}

// regionOf returns the region of a key of a queue pair's peer.
func (s *Session) regionOf(o *object, rkey uint32) *object {
	if peer := s.peer(o); peer != nil {
		return peer.file.region(rkey)
	}
	return nil
}

// claimed appends the ranges of a request.
func (f *File) claimed(list []claim, o *object, p *post) []claim {
	if sends(p.op) || returns(p.op) {
		for i := range p.pieces[:min(len(p.pieces), maxPieces)] {
			piece := &p.pieces[i]
			c := claim{by: o, p: p, local: true, via: keyName{f.device, piece.key}}
			if returns(p.op) {
				c.use, c.late = useWrite, true
			}
			if r := f.region(piece.key); r != nil {
				c.at(r, piece.start, piece.length)
				list = append(list, c)
			}
		}
	}
	if c, ok := f.ofPeer(o, p); ok {
		list = append(list, c)
	}
	return list
}

// ofPeer returns the range of a request in the peer's memory, if it has one.
func (f *File) ofPeer(o *object, p *post) (c claim, ok bool) {
	c = claim{by: o, p: p, span: span{p.remote, p.length}}
	switch {
	case p.length == 0:
		return c, false
	case p.op == rxe.WRRead:
		c.late = true
	case p.op == rxe.WRWrite, p.op == rxe.WRWriteImm, p.op == rxe.WRAtomicWrite:
		c.use = useWrite
	case isAtomic(p.op):
		c.use = useAtomic
	default:
		return c, false
	}
	peer := f.s.peer(o)
	if peer == nil {
		c.space = space{host: o.settings.host, key: p.rkey}
		return c, true
	}
	c.pid, c.via = peer.file.pid, keyName{peer.file.device, p.rkey}
	if r := peer.file.named(p); r != nil {
		c.at(r, r.Region.inProgram(p.remote), p.length)
	}
	return c, true
}

// named returns the region whose memory a request of a peer names. Of a window, it is the oldest
// one with such an address.
func (f *File) named(p *post) (found *object) {
	if r := f.region(p.rkey); r != nil {
		return r
	}
	for _, o := range f.objects {
		if r := o.Region; r != nil && p.remote >= r.Base && p.remote-r.Base < r.Length && (found == nil || o.number < found.number) {
			found = o
		}
	}
	return found
}

// compare finds the claims with which a new one conflicts. s.mu is held.
func (s *Session) compare(f *File, c *claim, by *process) {
	for i := range s.claims {
		x := &s.claims[i]
		if !x.overlaps(c) || x.p == c.p || x.use == c.use && c.use != useWrite || x.over(c, by.knows) {
			continue
		}
		switch {
		case x.local && c.local && !x.p.done && x.shift == c.shift && x.by.file.pid == c.by.file.pid:
			// overlapping-reads and read-early find these
		case x.use == useRead || c.use == useRead:
			f.meeting(raceRead, c, x, "%s uses %s, which %s also uses: nothing orders the two")
		case x.use == useAtomic || c.use == useAtomic:
			f.meeting(raceAtomic, c, x, "%s uses %s, which %s also uses: nothing orders the two")
		default:
			f.meeting(raceWrite, c, x, "%s writes to %s, to which %s also writes: nothing orders the two")
		}
	}
}

// over reports whether a claim is over before a new one begins, for somebody who knows this.
func (a *claim) over(c *claim, knows clock) bool {
	m := knows.at(a.by.slot)
	if a.late || a.local && a.by.unreliable() {
		if m.back >= a.p.number {
			return true
		}
	} else if m.done >= a.p.number {
		return true
	}
	if a.by != c.by {
		return false
	}
	// A queue pair executes its requests in order, and the data of READs comes in order (IBA
	// 10.8.3.3).
	return !a.late || a.p.number <= a.by.fenced || a.local && c.local && c.late
}

// landed compares what a message has written into a receive with the requests of others. It comes
// behind what its sender knew, and what the receiver knew when it posted the receive. s.mu is held.
func (f *File) landed(o *object, n *news, wc *rxe.WC) {
	r := o.head
	if o.head = nil; n.p == nil || r == nil {
		return
	}
	both := process{knows: n.more, shared: true}
	both.learn(r.knows)
	left := uint64(wc.ByteLen)
	for i := range r.pieces[:min(len(r.pieces), maxPieces)] {
		piece := &r.pieces[i]
		region := f.region(piece.key)
		if region == nil || left == 0 {
			return
		}
		c := claim{by: n.by, p: n.p, use: useWrite, via: keyName{f.device, piece.key}}
		c.at(region, piece.start, min(piece.length, left))
		left -= min(piece.length, left)
		f.s.compare(n.by.file, &c, &both)
		f.s.claim(&c)
	}
}

// claim keeps a claim for later ones. One of the same queue pair that lasts as long is replaced.
func (s *Session) claim(c *claim) {
	for i := range s.claims {
		x := &s.claims[i]
		if x.by == c.by && x.use == c.use && x.local == c.local && x.late == c.late && x.space == c.space && x.start >= c.start && x.start+x.length <= c.start+c.length {
			*x = *c
			return
		}
	}
	if len(s.claims) >= maxClaims {
		s.claims = slices.DeleteFunc(s.claims, s.known)
		if n := len(s.claims) - leftClaims; n > 0 {
			s.claims = slices.Delete(s.claims, 0, n)
		}
	}
	s.claims = append(s.claims, *c)
}

// known reports whether each process knows that a claim is over.
func (s *Session) known(c claim) bool {
	for _, p := range s.processes {
		if !c.over(&claim{}, p.knows) {
			return false
		}
	}
	return true
}

// executed notes that a device executes an atomic of the peer of o. It learns what the atomics
// before it on the same memory tell, as one takes a lock that another one has released. s.mu is
// held.
func (f *File) executed(o *object, key uint32, va uint64) {
	peer := f.s.peer(o)
	if peer == nil {
		return
	}
	i := slices.IndexFunc(peer.posts, func(p *post) bool {
		return isAtomic(p.op) && !p.executed && p.rkey == key && p.remote == va
	})
	if i < 0 {
		return
	}
	p := peer.posts[i]
	p.executed = true
	at := place{keyName{f.device, key}, va}
	before, known := f.s.places[at]
	all := process{knows: before.more, shared: true}
	all.learn(p.tells.more)
	all.note(p.tells.slot, p.tells.mark)
	after := news{slot: -1, more: all.knows, all: before.all || p.tells.all}
	p.tells = news{slot: -1, more: before.more, all: before.all}
	if !known && len(f.s.places) >= maxPlaces {
		p.tells.all = true // it may be a place that is not kept
		return
	}
	f.s.places[at] = after
}

// flagged notes that a WRITE of a peer to a flag comes. The flag tells its owner what the writer
// knew, and that what it wrote before is there, as the owner may wait for the flag without a
// request. s.mu is held.
func (f *File) flagged(o *object, key uint32, va uint64) {
	peer, by := f.s.peer(o), f.s.processes[f.pid]
	if peer == nil || by == nil {
		return
	}
	for _, p := range peer.posts {
		if p.tellsOwner && p.rkey == key && p.remote == va {
			p.tellsOwner = false
			p.tells.mark.done--
			f.s.hear(by, &p.tells)
			p.tells = news{slot: -1}
			return
		}
	}
}

// place is a word that atomics change.
type place struct {
	keyName
	va uint64
}
