package sanitize

import (
	"slices"

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
	use   use
	local bool
	// late: the data of a READ or atomic comes after what later requests do, unless a fence is
	// between.
	late bool
	via  keyName
}

// space is an address space. Of a peer in another run only its address and the key are known.
type space struct {
	pid  int
	host wire.GID
	key  uint32
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
	switch {
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
			c := claim{by: o, p: p, space: space{pid: f.pid}, span: span{p.pieces[i].start, p.pieces[i].length}, local: true, via: keyName{f.device, p.pieces[i].key}}
			if returns(p.op) {
				c.use, c.late = useWrite, true
			}
			list = append(list, c)
		}
	}
	c := claim{by: o, p: p, span: span{p.remote, p.length}}
	switch {
	case p.length == 0:
		return list
	case p.op == rxe.WRRead:
		c.late = true
	case p.op == rxe.WRWrite, p.op == rxe.WRWriteImm, p.op == rxe.WRAtomicWrite:
		c.use = useWrite
	case isAtomic(p.op):
		c.use = useAtomic
	default:
		return list
	}
	peer := f.s.peer(o)
	if peer == nil {
		c.space = space{host: o.settings.host, key: p.rkey}
		return append(list, c)
	}
	c.pid, c.via = peer.file.pid, keyName{peer.file.device, p.rkey}
	if r := peer.file.region(p.rkey); r != nil {
		c.start += r.Region.Start - r.Region.Base
	}
	return append(list, c)
}

// compare finds the claims with which a new one conflicts. s.mu is held.
func (s *Session) compare(f *File, c *claim, by *process) {
	for i := range s.claims {
		x := &s.claims[i]
		if !x.overlaps(c) || x.p == c.p || x.use == c.use && c.use != useWrite || x.over(c, by.knows) {
			continue
		}
		switch {
		case x.local && c.local && !x.p.done: // overlapping-reads and read-early find these
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

// place is a word that atomics change.
type place struct {
	keyName
	va uint64
}
