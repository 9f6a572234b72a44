package fault

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// limit is a limit that rules may lower. Its name is that of rxe.Limit.
type limit struct {
	name  string
	is    string
	least uint64 // below it nothing works at all
	own   uint64 // a device's own; 0: none
	bytes bool
}

var limits = []limit{
	{"max_pd", "protection domains", 1, 1 << 20, false},
	{"max_cq", "completion queues", 1, 1 << 20, false},
	{"max_mr", "memory regions", 1, 1 << 20, false},
	{"max_mw", "memory windows", 0, 1 << 20, false},
	{"max_ah", "address handles", 0, 1<<15 - 1, false},
	{"max_srq", "shared receive queues", 0, 1 << 20, false},
	{"max_qp", "queue pairs", 1, 1 << 20, false},
	{"max_cqe", "completions of a completion queue", 1, 1<<15 - 1, false},
	{"max_qp_wr", "work requests of a queue", 1, 1 << 20, false},
	{"max_sge", "pieces of a work request", 1, 32, false},
	{"max_inline", "bytes of inline data", 0, 512, true},
	{"max_srq_wr", "work requests of a shared receive queue", 1, 1 << 20, false},
	{"max_srq_sge", "pieces of a receive of a shared receive queue", 1, 27, false},
	{"max_rd_atomic", "READs and atomics under way of a queue pair, as requester and as responder", 0, 128, false},
	{"max_msg_sz", "bytes of a message", 1, 1 << 31, true},
	{"max_uc", "queue pairs of type UC; 0: the device has no UC", 0, 1 << 20, false},
	{"memory", "bytes in the pages of all memory regions, except those on demand", 1, 0, true},
}

// limitNames are the names of limits.
var limitNames = func() (names []string) {
	for i := range limits {
		names = append(names, limits[i].name)
	}
	return names
}()

// limitKeys are the keys of limits.
func limitKeys() (list []key) {
	for i := range limits {
		l := &limits[i]
		list = append(list, key{l.name, l.is, l.set, func(r *Rule) string {
			if n, given := r.Limits[l.name]; given {
				return strconv.FormatUint(n, 10)
			}
			return ""
		}})
	}
	return list
}

// sizeUnits are what a number of bytes may end in.
var sizeUnits = []struct {
	name  string
	shift uint
}{{"KiB", 10}, {"MiB", 20}, {"GiB", 30}}

// maxBytes is more than any machine has.
const maxBytes = 1 << 50

func (l *limit) set(r *Rule, v string) error {
	shift := uint(0)
	for _, unit := range sizeUnits {
		if digits, ok := strings.CutSuffix(v, unit.name); ok && l.bytes {
			v, shift = digits, unit.shift
		}
	}
	n, err := strconv.ParseUint(v, 0, 64)
	switch {
	case l.own == 0 && (err != nil || n < l.least || n > maxBytes>>shift):
		return errors.New("give a number of bytes, as 65536 or 64MiB")
	case l.own != 0 && (err != nil || n < l.least || n > (l.own-1)>>shift):
		return fmt.Errorf("it must lower the device's own limit, which is %d: give a number from %d to %d", l.own, l.least, l.own-1)
	}
	if r.Limits == nil {
		r.Limits = make(map[string]uint64)
	}
	r.Limits[l.name] = n << shift
	return nil
}

// checkLimits is check for rules about limits.
func (r *Rule) checkLimits() (key, why string) {
	if len(r.Limits) == 0 {
		return "", "limits set needs a limit: " + oneOf(limitNames)
	}
	return "", ""
}

// unknownLimit returns a name in Limits that is none, or "".
func (r *Rule) unknownLimit() string {
	for _, name := range slices.Sorted(maps.Keys(r.Limits)) {
		if !slices.Contains(limitNames, name) {
			return name
		}
	}
	return ""
}

// Limits is the lowest of the limits that the rules of a set have for one device.
type Limits struct {
	set    *Set
	device string
	by     map[string]*entry // the rules that set them
}

// Limits returns the limits of a device; nil if no rule sets one. Rules that come or go later do
// not change them.
func (s *Set) Limits(device string) *Limits {
	l := &Limits{set: s, device: device, by: make(map[string]*entry)}
	for _, e := range s.list(listOf(WhereLimits, false)) {
		if e.rule.Device != "" && e.rule.Device != device {
			continue
		}
		for name, most := range e.rule.Limits {
			if lowest := l.by[name]; lowest == nil || most < lowest.rule.Limits[name] {
				l.by[name] = e
			}
		}
	}
	if len(l.by) == 0 {
		return nil
	}
	return l
}

// Lowest returns a limit, and reports whether a rule sets it.
func (l *Limits) Lowest(name string) (most uint64, set bool) {
	if e := l.by[name]; e != nil {
		return e.rule.Limits[name], true
	}
	return 0, false
}

// Compared counts a call that was compared with a limit. The rule fires if the call was refused.
func (l *Limits) Compared(name string, refused bool) {
	e := l.by[name]
	if e == nil {
		return
	}
	e.candidates.Add(1)
	if refused {
		e.fired.Add(1)
		e.note(Event{Time: l.set.now(), Device: l.device, Limit: name})
	}
}

// ErrFixed says why rules about limits cannot come or go.
var ErrFixed = errors.New("limits are fixed when a program starts: give the rule before that, and keep it to the end")

// Fixed returns ErrFixed if a rule is about limits.
func Fixed(rules []Rule) error {
	if slices.ContainsFunc(rules, func(r Rule) bool { return r.Where == WhereLimits }) {
		return ErrFixed
	}
	return nil
}

// Fixed returns ErrFixed if one of the rules with these numbers, or of all if there are none, is
// about limits.
func (s *Set) Fixed(ids ...uint64) error {
	for _, e := range s.list(listOf(WhereLimits, false)) {
		if len(ids) == 0 || slices.Contains(ids, e.id) {
			return ErrFixed
		}
	}
	return nil
}
