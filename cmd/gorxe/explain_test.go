package main

import (
	"testing"

	"github.com/gorxe/gorxe/internal/fault"
)

// TestUnexplained: a failed run says what gorxe knows, unless a flag tells it in full.
func TestUnexplained(t *testing.T) {
	fired, missed := fault.Status{Fired: 2}, fault.Status{}
	for _, c := range []struct {
		run    runCmd
		errors uint64
		faults []fault.Status
		want   string
	}{
		{runCmd{}, 0, nil, ""},
		{runCmd{}, 0, []fault.Status{missed}, ""},
		{runCmd{}, 1, nil, "1 error: --explain says why"},
		{runCmd{}, 3, []fault.Status{fired, missed}, "1 fault rule fired, 3 errors: --explain says why"},
		{runCmd{}, 0, []fault.Status{fired, fired}, "2 fault rules fired: --explain says why"},
		{runCmd{trialFlags: trialFlags{Explain: true}}, 1, nil, ""},
		{runCmd{ExplainTo: "file"}, 1, nil, ""},
		{runCmd{verdictFlags: verdictFlags{Verdict: "dir"}}, 1, nil, ""},
		{runCmd{verdictFlags: verdictFlags{VerdictOnFailure: "dir"}}, 1, []fault.Status{fired}, ""},
	} {
		if got := c.run.unexplained(c.errors, c.faults); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}
