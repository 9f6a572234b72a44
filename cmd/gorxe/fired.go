package main

import (
	"fmt"
	"strings"

	"github.com/gorxe/gorxe/internal/explain"
	"github.com/gorxe/gorxe/internal/fault"
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
