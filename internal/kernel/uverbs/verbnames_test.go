package uverbs

import (
	"slices"
	"strings"
	"testing"

	"github.com/gorxe/gorxe/internal/fault"
	"github.com/gorxe/gorxe/internal/provider/mlx5"
)

// TestVerbNames: fault rules know each verb of the tables, and there is each verb of libibverbs
// that they know.
func TestVerbNames(t *testing.T) {
	// these ask for faults themselves
	have := map[string]bool{"open_device": true, "post_send": true}
	all := withModeration(withSteering(withXRC(tablesWith((mlx5.Driver{}).Methods()))))
	for _, m := range all.Methods {
		have[m.Verb] = true
	}
	for _, c := range all.Commands {
		have[c.Verb] = true
	}
	for _, c := range all.ExCommands {
		have[c.Verb] = true
	}
	for _, verb := range fault.Verbs() {
		if !strings.HasPrefix(verb, "rdma_") && !have[verb] {
			t.Errorf("no request is the verb %s", verb)
		}
	}
	delete(have, "")
	for verb := range have {
		if !slices.Contains(fault.Verbs(), verb) {
			t.Errorf("fault rules do not know the verb %s", verb)
		}
	}
}
