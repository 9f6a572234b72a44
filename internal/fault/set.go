package fault

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gorxe/gorxe/wire"
)

// MaxRules is how many rules a set may have.
const MaxRules = 100_000

// Set is the rules that one session has set, or one context of a Go program. Rules may come and
// go while other threads ask the set. The methods that ask it take no lock as long as
// no rule fires.
type Set struct {
	now func() time.Time

	mu       sync.Mutex // of changes
	most     int        // rules
	compared int        // rules that one candidate may be compared with; 0: any number
	payer    Payer      // nil: nobody pays
	closed   bool
	lastID   uint64
	tally    *Tally // if not nil, of the rules that are added
	all      []*entry
	at       [lists]atomic.Pointer[index]
}

// Payer pays for memory that rules keep. Its methods may be called by several threads, with any
// lock held.
type Payer interface {
	// TakeBytes reports whether there is room for n bytes.
	TakeBytes(n int64) bool
	GiveBytes(n int64)
}

// NewSet makes an empty set. now is the clock.
func NewSet(now func() time.Time) *Set { return &Set{now: now, most: MaxRules} }

// Bound lets the set have at most n rules, and never more than MaxRules. A packet, a verb or a work
// request is compared with at most compared of them.
func (s *Set) Bound(n, compared int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.most, s.compared = min(n, MaxRules), compared
}

// PaidBy makes p pay for what the rules that are added from now on keep.
func (s *Set) PaidBy(p Payer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.payer = p
}

// SamePayer reports whether the same payer pays for both sets. It is false for nil.
func (s *Set) SamePayer(other *Set) bool {
	return s != nil && other != nil && s.payer != nil && s.payer == other.payer
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
	set   *Set
	payer Payer
	ended atomic.Bool // the set does not have it any more
	lost  atomic.Uint64

	candidates, numbered, fired atomic.Uint64

	mu          sync.Mutex   // below
	first, last Event        // zero: none
	hit         [16]wire.QPN // the last queue pairs that were hit; 0: none
	hits        int
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
	all := slices.Clip(s.all)
	for i := range rules {
		e := &entry{
			rule: rules[i], id: id + uint64(i), ops: rules[i].compile(), on: rules[i].selected(), set: s, payer: s.payer,
			from: now.Add(rules[i].AfterTime), to: now.Add(rules[i].Until), tally: s.tally,
		}
		e.rule.Limits = maps.Clone(e.rule.Limits)
		all = append(all, e)
	}
	at := indexes(all)
	if err := s.few(at); err != nil {
		return 0, err
	}
	if err := shadowed(all, len(s.all)); err != nil {
		return 0, err
	}
	s.all, s.lastID = all, id+uint64(len(rules))-1
	s.publish(at)
	return id, nil
}

// few refuses rules that would have one candidate compared with too many of them.
func (s *Set) few(at [lists]*index) error {
	for _, x := range at {
		if x == nil || s.compared == 0 || x.compared() <= s.compared {
			continue
		}
		return fmt.Errorf("%d fault rules may concern the same %s, and a user who shares the daemon may have %d: give more of them a psn, one size, a qp, a peer or an opcode",
			x.compared(), x.what(), s.compared)
	}
	return nil
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
	var list []*entry
	kept := make([]*entry, 0, len(s.all))
	for _, e := range s.all {
		if !gone[e.id] {
			kept = append(kept, e)
			continue
		}
		delete(gone, e.id)
		list = append(list, e)
		removed = append(removed, e.status())
	}
	for _, id := range ids {
		if gone[id] {
			return nil, fmt.Errorf("there is no fault rule %d", id)
		}
	}
	s.all = kept
	s.publish(indexes(kept))
	end(list)
	return removed, nil
}

// Clear removes all rules, and returns what they did.
func (s *Set) Clear() []Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := s.all
	s.all = nil
	s.publish([lists]*index{})
	end(all)
	return statuses(all)
}

// Close ends the rules: none fires any more, but Status still has what they did.
func (s *Set) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.publish([lists]*index{})
	end(s.all)
}

// end ends rules that no thread finds any more.
func end(list []*entry) {
	for _, e := range list {
		e.ended.Store(true)
		e.endLink()
	}
}

// indexes makes the index of each list.
func indexes(all []*entry) (at [lists]*index) {
	for _, e := range all {
		i := listOf(e.rule.asked(), e.rule.WholeDevice)
		if at[i] == nil {
			at[i] = new(index)
		}
		at[i].add(e)
	}
	return at
}

// publish makes rules those that are asked.
func (s *Set) publish(at [lists]*index) {
	for i := range at {
		s.at[i].Store(at[i])
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

// list returns the rules of a list, in their order.
func (s *Set) list(at int) []*entry { return s.index(at).all }

// empty is the index of a list without rules.
var empty = new(index)

func (s *Set) index(at int) *index {
	if s == nil {
		return empty
	}
	if x := s.at[at].Load(); x != nil {
		return x
	}
	return empty
}

// published returns the rules that are asked.
func (s *Set) published() []*entry {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	return slices.Clip(s.all)
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
