package ether

import "slices"

// Table has the rules of a port, and decides who receives a frame. The caller serializes: Decide
// may run beside Decide, not beside Add and Remove.
//
// The rules of one stage (a priority, and whether they trap) are tested in the order in which they
// were made, and the first that matches has the frame. Rules of the stage with the same match share
// it: each receiver gets the frame once.
type Table struct {
	stages   [2 * Priorities]stage
	sniffers entry
	defaults [2]entry // AllDefault, MulticastDefault
	rules    int
	masks    int
	made     uint64 // how many rules there were ever
}

// stage has one map for each mask, so that Decide looks once at each mask and not at each rule.
type stage struct{ masks []*masked }

// masked are the rules of a stage that have one mask.
type masked struct {
	mask    key
	first   uint64 // no rule is older
	entries map[key]*entry
}

// entry are the rules that take the same frames, the oldest first.
type entry struct{ rules []*Rule }

// older compares the oldest rules. Neither entry is empty.
func (e *entry) older(than *entry) bool { return e.rules[0].made < than.rules[0].made }

// Len is how many rules there are.
func (t *Table) Len() int { return t.rules }

// Add adds a rule. The table keeps the pointer, and the caller no longer changes the rule.
func (t *Table) Add(r *Rule) error {
	if err := r.check(); err != nil {
		return err
	}
	if t.rules == MaxRules {
		return ErrFull
	}
	r.made = t.made
	switch r.Type {
	case Normal:
		if err := t.addNormal(r); err != nil {
			return err
		}
	case AllDefault, MulticastDefault:
		if err := t.defaults[r.Type-AllDefault].add(r); err != nil {
			return err
		}
	case Sniffer:
		if err := t.sniffers.add(r); err != nil {
			return err
		}
	}
	t.rules++
	t.made++
	return nil
}

func (t *Table) addNormal(r *Rule) error {
	if r.Match.never {
		return nil
	}
	s := &t.stages[r.stage()]
	m := s.find(&r.Match.mask)
	if m == nil {
		if t.masks == maxMasks {
			return ErrFull
		}
		t.masks++
		m = &masked{mask: r.Match.mask, first: t.made, entries: map[key]*entry{}}
		s.masks = append(s.masks, m)
	}
	e := m.entries[r.Match.value]
	if e == nil {
		e = &entry{}
		m.entries[r.Match.value] = e
	} else if old := e.rules[0]; old.Drop != r.Drop || old.Miss != r.Miss || old.Tag != r.Tag {
		return ErrConflict
	}
	return e.add(r)
}

func (s *stage) find(mask *key) *masked {
	for _, m := range s.masks {
		if m.mask == *mask {
			return m
		}
	}
	return nil
}

func (e *entry) add(r *Rule) error {
	if len(e.rules) == maxSame {
		return ErrFull
	}
	e.rules = append(e.rules, r)
	return nil
}

// remove reports that the rule was there.
func (e *entry) remove(r *Rule) bool {
	i := slices.Index(e.rules, r)
	if i >= 0 {
		e.rules = slices.Delete(e.rules, i, i+1)
	}
	return i >= 0
}

// Remove removes a rule that Add has accepted.
func (t *Table) Remove(r *Rule) {
	removed := false
	switch r.Type {
	case Normal:
		removed = t.removeNormal(r)
	case AllDefault, MulticastDefault:
		removed = t.defaults[r.Type-AllDefault].remove(r)
	case Sniffer:
		removed = t.sniffers.remove(r)
	}
	if removed {
		t.rules--
	}
}

func (t *Table) removeNormal(r *Rule) bool {
	if r.Match.never {
		return true
	}
	s := &t.stages[r.stage()]
	m := s.find(&r.Match.mask)
	if m == nil {
		return false
	}
	e := m.entries[r.Match.value]
	if e == nil || !e.remove(r) {
		return false
	}
	if len(e.rules) == 0 {
		delete(m.entries, r.Match.value)
	}
	if len(m.entries) == 0 {
		t.masks--
		s.masks = slices.DeleteFunc(s.masks, func(x *masked) bool { return x == m })
	}
	return true
}

// Decide appends the receivers of a frame that arrives to out, and counts it. trapped reports that
// a rule has the frame, or has dropped it; a frame that is not trapped also goes to whom it
// would go without rules.
func (t *Table) Decide(f *Frame, out []Delivery) (_ []Delivery, trapped bool) {
	out = t.Sniff(out)
	if t.rules == len(t.sniffers.rules) {
		return out, false
	}
	k := keyOf(f)
	for i := range t.stages {
		e := t.stages[i].match(&k)
		if e == nil {
			continue
		}
		// A rule that does not trap and drops has nothing to go on with.
		trapped = i%2 == 1 || e.rules[0].Drop
		out = e.take(f, out)
		if trapped && e.rules[0].Miss {
			trapped = false
			break
		}
		if trapped {
			return out, true
		}
	}
	for i, e := range t.defaults {
		if i == 0 || f.toMany() {
			trapped = trapped || len(e.rules) > 0
			out = e.give(out)
		}
	}
	return out, trapped
}

// Sniff appends the receivers of a frame that the port sends.
func (t *Table) Sniff(out []Delivery) []Delivery { return t.sniffers.give(out) }

// match returns the oldest entry that matches.
func (s *stage) match(k *key) (first *entry) {
	for _, m := range s.masks {
		if first != nil && m.first > first.rules[0].made {
			break // m and those behind it have newer rules only
		}
		if e := m.entries[k.and(&m.mask)]; e != nil && (first == nil || e.older(first)) {
			first = e
		}
	}
	return first
}

// take is for a normal rule that matches.
func (e *entry) take(f *Frame, out []Delivery) []Delivery {
	for i, r := range e.rules {
		if !e.counted(i) {
			r.Count.add(len(f.Data))
		}
	}
	if e.rules[0].Drop || e.rules[0].Miss {
		return out
	}
	return e.give(out)
}

// counted reports that an earlier rule has the same counter.
func (e *entry) counted(i int) bool {
	return slices.ContainsFunc(e.rules[:i], func(r *Rule) bool { return r.Count == e.rules[i].Count })
}

// give appends each receiver once for the entry.
func (e *entry) give(out []Delivery) []Delivery {
	from := len(out)
	for _, r := range e.rules {
		if !slices.ContainsFunc(out[from:], func(d Delivery) bool { return d.To == r.To }) {
			out = append(out, Delivery{r.To, r.Tag})
		}
	}
	return out
}
