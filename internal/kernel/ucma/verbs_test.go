package ucma

import (
	"slices"
	"strings"
	"testing"

	"github.com/gorxe/gorxe/internal/fault"
)

// TestVerbs: fault rules know the verbs of the commands, and there is a command for each verb of
// librdmacm that they know.
func TestVerbs(t *testing.T) {
	var verbs []string
	for _, c := range commands {
		verbs = append(verbs, c.verb)
		if c.verb != "" && !slices.Contains(fault.Verbs(), c.verb) {
			t.Errorf("fault rules do not know the verb %s", c.verb)
		}
	}
	for _, verb := range fault.Verbs() {
		if strings.HasPrefix(verb, "rdma_") && !slices.Contains(verbs, verb) {
			t.Errorf("no command is the verb %s", verb)
		}
	}
}
