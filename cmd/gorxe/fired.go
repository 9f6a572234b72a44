package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gorxe/gorxe/internal/explain"
	"github.com/gorxe/gorxe/internal/fault"
	"github.com/gorxe/gorxe/internal/service/proto"
)

// fired says which fault rules of a run have fired, and how often; empty: none has.
func fired(list []fault.Status) (says string) {
	for _, s := range list {
		times := " once"
		switch {
		case s.Fired == 0:
			continue
		case s.Fired > 1:
			times = fmt.Sprintf(" %d times", s.Fired)
		}
		if says == "" {
			says = fmt.Sprintf("fault rule %d (%s) fired%s", s.ID, s.Rule, times)
		} else {
			says += fmt.Sprintf(", rule %d (%s)%s", s.ID, s.Rule, times)
		}
	}
	return says
}

// unfound says which packets there were, if a rule for packets has found none to fire at; empty: it
// has, or that is not known.
func unfound(missed []fault.Status, devices []proto.DeviceStatus) string {
	if !slices.ContainsFunc(missed, func(s fault.Status) bool { return s.Candidates == 0 && strings.HasPrefix(s.Rule, "packet ") }) {
		return ""
	}
	seen := make(map[string]bool)
	for _, d := range devices {
		for opcode, n := range d.Packets {
			if n.Sent+n.Received > 0 {
				seen[opcode] = true
			}
		}
	}
	if len(seen) == 0 {
		return ""
	}
	return "no packet was a candidate of a rule that never fired; the devices had " + strings.Join(slices.Sorted(maps.Keys(seen)), ", ")
}

// seeRules is the remedy of package explain for what a fault rule does. It is for programs that
// run.
const seeRules = "see gorxe fault list"

// ended makes the records those of a run that has ended: gorxe fault list does not know its rules
// any more. A record that does not name its rule gets the rules that fired.
func ended(records []explain.Record, rules []fault.Status) {
	for i := range records {
		if r := &records[i]; r.Fix == seeRules {
			r.Fix = ""
			if !strings.Contains(r.What, "by fault rule") {
				r.Fix = fired(rules)
			}
		}
	}
}
