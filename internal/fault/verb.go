package fault

import "slices"

// Verb is a call that may be hit.
type Verb struct {
	Device string // "" for calls of librdmacm
	Name   string // as in a rule
	Process
}

// Verb returns the first rule that fires for a call, of those that are for a whole device or of
// the others. Each rule before it counts the call if it is a candidate, and no rule after it
// does.
func (s *Set) Verb(v *Verb, wholeDevice bool) (h Hit, ok bool) {
	if !s.Has(WhereVerb, wholeDevice) {
		return h, false
	}
	name := slices.Index(verbNames, v.Name)
	c := s.index(listOf(WhereVerb, wholeDevice)).of(name, 0)
	for e := c.next(); e != nil; e = c.next() {
		r := &e.rule
		switch {
		case !e.on.has(name):
		case r.Device != "" && r.Device != v.Device:
		case !r.Program.has(v.Process):
		default:
			if n, now, fires := e.decide(s.now); fires {
				e.note(Event{Time: now, Device: v.Device, Verb: v.Name})
				return Hit{Rule: r, n: n, of: e}, true
			}
		}
	}
	return h, false
}

// IsVerb reports whether the rule, which has been checked, is about a verb.
func (r *Rule) IsVerb(name string) bool {
	return r.Where == WhereVerb && r.selected().has(slices.Index(verbNames, name))
}

// HasVerb reports whether there is a rule about a verb.
func (s *Set) HasVerb(name string) bool {
	i := slices.Index(verbNames, name)
	return slices.ContainsFunc(s.list(listOf(WhereVerb, false)), func(e *entry) bool { return e.on.has(i) })
}

// Verbs returns the names of the verbs that rules may be about.
func Verbs() []string { return slices.Clone(verbNames) }
