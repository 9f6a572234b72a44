package sanitize

import (
	"fmt"
	"slices"

	"github.com/gorxe/gorxe/rxe"
)

func isAtomic(op rxe.WROpcode) bool { return op == rxe.WRCompareSwap || op == rxe.WRFetchAdd }

// returns reports whether the operation writes its gather list.
func returns(op rxe.WROpcode) bool { return op == rxe.WRRead || isAtomic(op) }

// meets finds what a new work request does to memory that another one under way uses. Both were
// posted, and neither has completed: so the program cannot know which one comes first. s.mu is
// held.
func (f *File) meets(o *object, p *post, fenced bool) {
	s := f.s
	// so that they hold no stack for long
	s.fetches = slices.DeleteFunc(s.fetches, func(c claim) bool { return c.p.done })
	if !s.selected[readEarly] && !s.selected[overlappingReads] {
		return
	}
	for i := range p.pieces {
		c := claim{by: o, p: p, space: space{pid: f.pid}, span: span{p.pieces[i].start, p.pieces[i].length}}
		f.local(&c, fenced)
		if returns(p.op) && len(s.fetches) < maxPosts {
			s.fetches = append(s.fetches, c)
		}
	}
}

// local compares a gather list with those that READs and atomics write. The fence of a queue pair
// waits for its own.
func (f *File) local(c *claim, fenced bool) {
	for i := range f.s.fetches {
		x := &f.s.fetches[i]
		if !x.overlaps(c) || x.p == c.p {
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

// meeting adds a finding about the later work request c and the earlier one x.
func (f *File) meeting(check string, c, x *claim, form string) {
	places := []Place{
		{What: "the " + c.p.op.String() + " was posted", Stack: c.p.at},
		{What: "the " + x.p.op.String() + " before it was posted", Stack: x.p.at},
	}
	if !f.s.selected[check] || f.again(check, places, "") {
		return
	}
	name := func(c *claim) string { return fmt.Sprintf("%s (wr_id %#x) of %s", an(c.p.op), c.p.id, c.by) }
	first, last := max(c.start, x.start), min(c.start+c.length, x.start+x.length)
	f.find(check, Finding{
		What:    fmt.Sprintf(form, name(c), fmt.Sprintf("%d bytes at %#x", last-first, first+c.shift), name(x)),
		Objects: []string{c.by.name(), x.by.name()},
		Places:  places})
}
