package fault

import "fmt"

// A rule that takes each packet, verb or work request that a later one could hit keeps the later
// one from firing ever. Such a pair is refused. A packet that is not lost meets all rules.

// maxPairs bounds the pairs of rules that are compared with each other when rules are added.
const maxPairs = 1 << 20

// Shadowed returns an *Error if one of the rules keeps another from firing.
func Shadowed(rules []Rule) error {
	all := make([]*entry, len(rules))
	for i := range rules {
		all[i] = &entry{rule: rules[i], id: uint64(i), ops: rules[i].compile(), on: rules[i].selected()}
	}
	return shadowed(all, 0)
}

// shadowed returns an *Error if one of the rules keeps another from firing, and one of them is new:
// they begin at fresh. The rules are in the order in which they were added.
func shadowed(all []*entry, fresh int) error {
	var takers []int
	for i, e := range all {
		if e.takesAll() {
			takers = append(takers, i)
		}
	}
	pairs := 0
	for _, i := range takers {
		for j, e := range all {
			if pairs++; pairs > maxPairs {
				return nil
			}
			if i == j || i < fresh && j < fresh || !all[i].before(e) || !all[i].covers(e) {
				continue
			}
			return &Error{Rule: e.rule.String(), Why: fmt.Sprintf(
				"it would never fire, because %q is asked before it and %s: give that rule p, first, every, count or until, or a candidate that this one does not have, or change their order",
				all[i].rule.String(), all[i].effect())}
		}
	}
	return nil
}

// takesAll reports whether nothing that is a candidate of the rule gets to a later one.
func (e *entry) takesAll() bool {
	r := &e.rule
	if r.After != 0 || r.AfterTime != 0 || r.Until != 0 || r.First != 0 || r.Every > 1 || r.P != 0 || r.Count != 0 {
		return false
	}
	switch r.asked() {
	case WherePacket:
		return loses(r.What)
	case WhereVerb, WhereCompletion, WherePeer, WhereDevice:
		return true
	default: // such rules do not keep each other from anything
		return false
	}
}

func (e *entry) effect() string {
	if e.rule.asked() == WherePacket {
		return "loses each packet that this one could hit"
	}
	return "hits each candidate of this one, of which the first rule takes it"
}

// order is in which order the lists are asked that have the same candidates.
func (e *entry) order() (family, step int) {
	family = int(e.rule.asked())
	if e.rule.asked() == WhereDevice { // Set.Broken
		family, step = int(WhereCompletion), -1
	}
	if !e.rule.WholeDevice {
		step += 2
	}
	return family, step
}

// before reports whether both rules are asked about the same candidates, and e first.
func (e *entry) before(other *entry) bool {
	family, step := e.order()
	otherFamily, otherStep := other.order()
	if family != otherFamily {
		return false
	}
	return step < otherStep || step == otherStep && e.id < other.id
}

// covers reports whether each candidate of another rule is one of e.
func (e *entry) covers(other *entry) bool {
	r, o := &e.rule, &other.rule
	switch {
	case o.WholeDevice && !r.WholeDevice:
		return false
	case r.Device != "" && r.Device != o.Device, r.PID != 0 && r.PID != o.PID, r.Command != "" && r.Command != o.Command,
		r.Label != "" && r.Label != o.Label, r.QP != 0 && r.QP != o.QP, r.Peer.IsValid() && r.Peer != o.Peer:
		return false
	case r.direction()&o.direction() != o.direction():
		return false
	case r.PSN != nil && (o.PSN == nil || *r.PSN != *o.PSN):
		return false
	case r.Size != nil && (o.Size == nil || o.Size.Min < r.Size.Min || o.Size.Max > r.Size.Max):
		return false
	case r.Type != "" && r.Type != o.Type && r.asked() != WherePacket:
		// compile has those of packets
		return false
	case r.Event.ofSRQ() && !o.Event.ofSRQ():
		return false
	}
	return other.ops.within(e.ops) && other.on&^e.on == 0
}

func (o opcodes) within(all opcodes) bool {
	for i := range o {
		if o[i]&^all[i] != 0 {
			return false
		}
	}
	return true
}
