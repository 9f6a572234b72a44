package main

import (
	"slices"
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
		{runCmd{labFlags: labFlags{Why: whyVerdict}}, 1, nil, "1 error: --verdict DIR says why"},
		{runCmd{labFlags: labFlags{Why: whyNone}}, 1, nil, ""},
		{runCmd{ExplainTo: "file"}, 1, nil, ""},
		{runCmd{verdictFlags: verdictFlags{Verdict: "dir"}}, 1, nil, ""},
		{runCmd{verdictFlags: verdictFlags{VerdictOnFailure: "dir"}}, 1, []fault.Status{fired}, ""},
	} {
		if got := c.run.unexplained(c.errors, c.faults); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

// TestLike: a part of a name, or a name with a wrong letter, leads to the name.
func TestLike(t *testing.T) {
	for word, want := range map[string][]string{
		"IBV_WC_SUCESS": {"IBV_WC_SUCCESS"}, "sucess": {"IBV_WC_SUCCESS"}, "retry": {"IBV_WC_RETRY_EXC_ERR", "IBV_WC_RNR_RETRY_EXC_ERR"},
		"EINVL": {"EINVAL"}, "rejectd": {"RDMA_CM_EVENT_REJECTED"}, "nope": nil, "x": nil, "": nil,
	} {
		if got := like(word); !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", word, got, want)
		}
	}
}
