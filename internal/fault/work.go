package fault

import (
	"slices"

	"github.com/gorxe/gorxe/wire"
)

// Work is a work request that may be hit.
type Work struct {
	Device string
	QP     wire.QPN
	Type   string // of the queue pair: RC, UC or UD
	Op     string // as in a rule
	SRQ    bool   // the queue pair has a shared receive queue

	Process
}

// concerns reports whether the rule is about the work requests of w's queue pair.
func (r *Rule) concerns(w *Work) bool {
	return r.Program.has(w.Process) && (r.Device == "" || r.Device == w.Device) && (w.SRQ || !r.Event.ofSRQ()) && (r.QP == 0 || r.QP == w.QP) && (r.Type == "" || r.Type == w.Type)
}

// NoReceive reports whether a rule, of those that are for a whole device or of the others, says
// that a message to a queue pair finds no receive. Each rule before the one that fires counts the
// message if it is a candidate, and no rule after it does.
func (s *Set) NoReceive(w *Work, wholeDevice bool) bool {
	c := s.index(listOf(WherePeer, wholeDevice)).of(-1, w.QP)
	for e := c.next(); e != nil; e = c.next() {
		if !e.rule.concerns(w) {
			continue
		}
		if _, now, fires := e.decide(s.now); fires {
			e.note(Event{Time: now, Device: w.Device, QP: w.QP})
			return true
		}
	}
	return false
}

// Broken returns the first rule that fires for a work request, of those that are for a whole device
// or of the others. Rules for what it uses come before those for its completion. Each rule
// before it counts the work request if it is a candidate, and no rule after it does.
func (s *Set) Broken(w *Work, wholeDevice bool) (h Hit, ok bool) {
	if h, ok = s.work(WhereDevice, w, wholeDevice); ok {
		return h, true
	}
	return s.work(WhereCompletion, w, wholeDevice)
}

func (s *Set) work(where Where, w *Work, wholeDevice bool) (h Hit, ok bool) {
	if !s.Has(where, wholeDevice) {
		return h, false
	}
	op := slices.Index(workNames, w.Op)
	c := s.index(listOf(where, wholeDevice)).of(op, w.QP)
	for e := c.next(); e != nil; e = c.next() {
		if !e.on.has(op) || !e.rule.concerns(w) {
			continue
		}
		if n, now, fires := e.decide(s.now); fires {
			e.note(Event{Time: now, Device: w.Device, QP: w.QP, Work: w.Op})
			return Hit{Rule: &e.rule, n: n, of: e}, true
		}
	}
	return h, false
}
