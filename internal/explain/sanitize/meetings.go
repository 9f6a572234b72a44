package sanitize

import (
	"fmt"
	"slices"

	"github.com/gorxe/gorxe/rxe"
)

// claim is a work request under way that reads or writes a range, beside others.
type claim struct {
	by *object
	p  *post
	// pid and device say whose address space the range is of. Without a known region, key says it.
	pid    int
	device string
	key    uint32
	span
}

func (a *claim) meets(b *claim) bool {
	return a.pid == b.pid && a.device == b.device && a.key == b.key && a.start < b.start+b.length && b.start < a.start+a.length
}

func isAtomic(op rxe.WROpcode) bool { return op == rxe.WRCompareSwap || op == rxe.WRFetchAdd }

// returns reports whether the operation writes its gather list.
func returns(op rxe.WROpcode) bool { return op == rxe.WRRead || isAtomic(op) }

// meets finds what a new work request does to memory that another one under way uses. Both were
// posted, and neither has completed: so the program cannot know which one comes first. s.mu is
// held.
func (f *File) meets(o *object, p *post, fenced bool) {
	s := f.s
	// so that they hold no stack for long
	s.fetches, s.claims = underWay(s.fetches), underWay(s.claims)
	if s.selected[readEarly] || s.selected[overlappingReads] {
		for i := range p.pieces {
			c := claim{by: o, p: p, pid: f.pid, span: span{p.pieces[i].start, p.pieces[i].length}}
			f.local(&c, fenced)
			if returns(p.op) && len(s.fetches) < maxPosts {
				s.fetches = append(s.fetches, c)
			}
		}
	}
	if !s.selected[raceWrite] && !s.selected[raceRead] && !s.selected[raceAtomic] {
		return
	}
	if p.length == 0 || p.op != rxe.WRRead && p.op != rxe.WRWrite && p.op != rxe.WRWriteImm && p.op != rxe.WRAtomicWrite && !isAtomic(p.op) {
		return
	}
	c := claim{by: o, p: p, device: f.device, key: p.rkey, span: span{p.remote, p.length}}
	if r := f.region(p.rkey); r != nil {
		c.pid, c.device, c.key = r.file.pid, "", 0
		c.start += r.Region.Start - r.Region.Base
	}
	f.remote(&c)
	if len(s.claims) < maxPosts {
		s.claims = append(s.claims, c)
	}
}

func underWay(list []claim) []claim {
	return slices.DeleteFunc(list, func(c claim) bool { return c.p.done })
}

// local compares a gather list with those that READs and atomics write. The fence of a queue pair
// waits for its own.
func (f *File) local(c *claim, fenced bool) {
	for i := range f.s.fetches {
		x := &f.s.fetches[i]
		if !x.meets(c) || x.p == c.p {
			continue
		}
		switch {
		case returns(c.p.op):
			f.meeting(overlappingReads, c, x, "%s writes to %s, to which %s also writes, and has not completed")
		case sends(c.p.op) && (!fenced || x.by != c.by):
			f.meeting(readEarly, c, x, "%s sends %s, to which %s writes, and has not completed")
		}
	}
}

// remote compares a range of a peer's memory with those of other queue pairs. Requests of one queue
// pair are executed in their order.
func (f *File) remote(c *claim) {
	for i := range f.s.claims {
		x := &f.s.claims[i]
		if !x.meets(c) || x.by == c.by {
			continue
		}
		a, b := c.p.op, x.p.op
		switch {
		case a == rxe.WRRead && b == rxe.WRRead, isAtomic(a) && isAtomic(b):
		case a == rxe.WRRead || b == rxe.WRRead:
			f.meeting(raceRead, c, x, "%s names %s, which %s also names, and has not completed")
		case isAtomic(a) || isAtomic(b):
			f.meeting(raceAtomic, c, x, "%s names %s, which %s also names, and has not completed")
		default:
			f.meeting(raceWrite, c, x, "%s writes to %s, to which %s also writes, and has not completed")
		}
	}
}

// meeting adds a finding about the later work request c and the earlier one x.
func (f *File) meeting(check string, c, x *claim, form string) {
	name := func(c *claim) string { return fmt.Sprintf("%s (wr_id %#x) of %s", an(c.p.op), c.p.id, c.by) }
	first, last := max(c.start, x.start), min(c.start+c.length, x.start+x.length)
	f.find(check, Finding{
		What:    fmt.Sprintf(form, name(c), fmt.Sprintf("%d bytes at %#x", last-first, first), name(x)),
		Objects: []string{c.by.name(), x.by.name()},
		Places: []Place{
			{What: fmt.Sprintf("the %v was posted", c.p.op), Stack: c.p.at},
			{What: fmt.Sprintf("the %v that has not completed was posted", x.p.op), Stack: x.p.at},
		}})
}
