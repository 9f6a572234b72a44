package sanitize

import "slices"

// mark says how far the requests of a queue pair have come, by their numbers. Numbers begin at 1.
type mark struct {
	// done: up to this one, the peer has executed all requests, except that READs may be late.
	done uint64
	// back: up to this one, all data of READs and atomics has come, and the data of all
	// sends has been read.
	back uint64
}

// clock is what a process knows: a mark for each slot of a queue pair.
type clock []mark

// covers reports whether d adds nothing.
func (c clock) covers(d clock) bool {
	for i, m := range d {
		if m != (mark{}) && (i >= len(c) || c[i].done < m.done || c[i].back < m.back) {
			return false
		}
	}
	return true
}

// at returns the mark of a slot.
func (c clock) at(slot int) mark {
	if slot < 0 || slot >= len(c) {
		return mark{}
	}
	return c[slot]
}

// process is what the programs of one process know. Its threads count as one: what one of them
// knows, all know.
type process struct {
	files  int   // that it has open
	knows  clock // see keep
	shared bool  // somebody keeps knows: it must not be changed in place
	queues []*object
}

// keep returns what the process knows now.
func (p *process) keep() clock {
	p.shared = true
	return p.knows
}

// learn adds what somebody else knew.
func (p *process) learn(d clock) {
	if p.knows.covers(d) {
		return
	}
	p.own(len(d))
	for i, m := range d {
		p.knows[i] = p.knows[i].with(m)
	}
}

// note adds how far the requests of one queue pair have come.
func (p *process) note(slot int, m mark) {
	if slot < 0 || p.knows.at(slot).with(m) == p.knows.at(slot) {
		return
	}
	p.own(slot + 1)
	p.knows[slot] = p.knows[slot].with(m)
}

// own makes knows writable, with n marks at least.
func (p *process) own(n int) {
	if p.shared {
		p.knows, p.shared = slices.Clone(p.knows), false
	}
	for len(p.knows) < n {
		p.knows = append(p.knows, mark{})
	}
}

func (m mark) with(n mark) mark { return mark{max(m.done, n.done), max(m.back, n.back)} }
