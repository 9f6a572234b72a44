package fault

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// MaxRules is how many rules a set may have.
const MaxRules = 100_000

// Set is the rules that one session has set, or one context of a Go program. Rules may come and
// go while other threads ask the set. The methods that ask it take no lock as long as
// no rule fires.
type Set struct {
	now func() time.Time

	mu     sync.Mutex // of changes
	most   int        // rules
	closed bool
	lastID uint64
	tally  *Tally // if not nil, of the rules that are added
	all    []*entry
	at     [lists]atomic.Pointer[[]*entry] // what a list has does not change
}

// NewSet makes an empty set. now is the clock.
func NewSet(now func() time.Time) *Set { return &Set{now: now, most: MaxRules} }

// Bound lets the set have at most n rules, and never more than MaxRules.
func (s *Set) Bound(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.most = min(n, MaxRules)
}

// entry is a rule of a set, with what it did.
type entry struct {
	rule Rule
	id   uint64
	ops  opcodes
	on   nameSet   // verbs, or operations of work requests
	from time.Time // AfterTime is over
	to   time.Time // Until is over
	link link      // of a Shape rule

	tally *Tally // nil if nobody wants it

	candidates, numbered, fired atomic.Uint64

	mu          sync.Mutex // below
	first, last Event      // zero: none
}

// Add adds rules, all or none, and returns the number of the first. The others have the numbers
// that follow.
func (s *Set) Add(rules ...Rule) (id uint64, err error) {
	for i := range rules {
		if err := rules[i].Check(); err != nil {
			return 0, err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return 0, errors.New("the fault rules have ended with their owner")
	}
	if len(s.all)+len(rules) > s.most {
		return 0, fmt.Errorf("%d fault rules are more than %d: remove some first", len(s.all)+len(rules), s.most)
	}
	id = s.lastID + 1
	now := s.now()
	for i := range rules {
		s.lastID++
		e := &entry{
			rule: rules[i], id: s.lastID, ops: rules[i].compile(), on: rules[i].selected(),
			from: now.Add(rules[i].AfterTime), to: now.Add(rules[i].Until), tally: s.tally,
		}
		e.rule.Limits = maps.Clone(e.rule.Limits)
		s.all = append(s.all, e)
		at := listOf(e.rule.asked(), e.rule.WholeDevice)
		list := append(s.list(at), e) // threads that have the shorter list do not see e
		s.at[at].Store(&list)
	}
	return id, nil
}

// Remove removes rules by their numbers, all or none, and returns what they did.
func (s *Set) Remove(ids ...uint64) ([]Status, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	gone := make(map[uint64]bool, len(ids))
	for _, id := range ids {
		gone[id] = true
	}
	var removed []Status
	kept := make([]*entry, 0, len(s.all))
	for _, e := range s.all {
		if !gone[e.id] {
			kept = append(kept, e)
			continue
		}
		delete(gone, e.id)
		removed = append(removed, e.status())
	}
	for _, id := range ids {
		if gone[id] {
			return nil, fmt.Errorf("there is no fault rule %d", id)
		}
	}
	s.all = kept
	s.publish()
	return removed, nil
}

// Clear removes all rules, and returns what they did.
func (s *Set) Clear() []Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := statuses(s.all)
	s.all = nil
	s.publish()
	return list
}

// Close ends the rules: none fires any more, but Status still has what they did.
func (s *Set) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.publish()
}

// publish makes the present rules those that are asked.
func (s *Set) publish() {
	var at [lists][]*entry
	all := s.all
	if s.closed {
		all = nil
	}
	for _, e := range all {
		i := listOf(e.rule.asked(), e.rule.WholeDevice)
		at[i] = append(at[i], e)
	}
	for i := range at {
		s.at[i].Store(&at[i])
	}
}

// lists is how many lists of rules there are: two for each place.
const lists = 2 * wheres

func listOf(where Where, wholeDevice bool) int {
	if wholeDevice {
		return wheres + int(where)
	}
	return int(where)
}

// Has reports whether the set has rules for a place, of whole devices or of its owner only. A
// nil set has none.
func (s *Set) Has(where Where, wholeDevice bool) bool {
	return len(s.list(listOf(where, wholeDevice))) > 0
}

// Len returns how many rules the set has.
func (s *Set) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.all)
}

func (s *Set) list(at int) []*entry {
	if s == nil {
		return nil
	}
	if list := s.at[at].Load(); list != nil {
		return *list
	}
	return nil
}

// Status returns the rules and what they did, in the order in which they were added.
func (s *Set) Status() []Status {
	s.mu.Lock()
	all := slices.Clip(s.all)
	s.mu.Unlock()
	return statuses(all)
}

func statuses(all []*entry) []Status {
	list := make([]Status, 0, len(all))
	for _, e := range all {
		list = append(list, e.status())
	}
	return list
}
