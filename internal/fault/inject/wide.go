package inject

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/gorxe/gorxe/internal/fault"
)

// wide is the sets with rules for the whole device.
type wide struct {
	mu   sync.Mutex // of changes
	sets atomic.Pointer[[]*fault.Set]
}

// update checks whether a set has rules for the whole device at one of the places.
func (w *wide) update(set *fault.Set, places ...fault.Where) {
	has := slices.ContainsFunc(places, func(p fault.Where) bool { return set.Has(p, true) })
	w.mu.Lock()
	defer w.mu.Unlock()
	list := w.all()
	if has == slices.Contains(list, set) {
		return
	}
	if has {
		list = append(slices.Clip(list), set)
	} else {
		list = slices.DeleteFunc(slices.Clone(list), func(s *fault.Set) bool { return s == set })
	}
	w.sets.Store(&list)
}

func (w *wide) all() []*fault.Set {
	if list := w.sets.Load(); list != nil {
		return *list
	}
	return nil
}

// Verbs has the rules for the verbs of all programs. The zero value has none.
type Verbs struct{ wide wide }

// Update checks whether a set has rules for the verbs of all programs. Call it after each change of
// a set, and with an empty set when its owner ends.
func (v *Verbs) Update(set *fault.Set) { v.wide.update(set, fault.WhereVerb) }

// Verb returns the first rule that fires for a call: of those for all programs, or of the set of
// the call's program.
func (v *Verbs) Verb(set *fault.Set, call *fault.Verb) (fault.Hit, bool) {
	for _, s := range v.wide.all() {
		if h, ok := s.Verb(call, true); ok {
			return h, true
		}
	}
	return set.Verb(call, false)
}

// None reports whether no rule is about a verb of a program with this set.
func (v *Verbs) None(set *fault.Set) bool {
	return len(v.wide.all()) == 0 && !set.Has(fault.WhereVerb, false)
}
