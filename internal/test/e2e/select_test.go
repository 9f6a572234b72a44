package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/gorxe/gorxe/internal/test/race"
)

// rank says in which runs a case takes part. A case that does not is left out,
// not skipped: a skip means that something is missing on the machine.
type rank int

const (
	core     rank = iota // also under the race detector, which is slow
	standard             // in every other run
	complete             // with GORXE_E2E=full
)

// besideOthers lets a test run at the same time as others of its kind: it has hosts and
// daemons of its own, and mostly waits. Those that overload the machine do not call it, and no
// short ones. In the full run, which also writes documents, all tests run one after another.
func besideOthers(t *testing.T) {
	t.Helper()
	if !full && !*update {
		t.Parallel()
	}
}

// notNative skips a test of what only gorxe has, when the tests run on the kernel's device.
func notNative(t *testing.T, what string) {
	t.Helper()
	if native != "" {
		t.Skip("the kernel's device has no " + what)
	}
}

// selection counts what ran, to say so at the end.
var selection tally

type tally struct {
	mu       sync.Mutex
	ran, all int
}

// inTurn says whether case number i runs in way j of ways that it can be run in.
// Unless everything is asked for, each runs in one of them, in turn. The second run (TestDirect)
// leaves out every other one that is not core: only the doorbell differs there.
func (s *tally) inTurn(r rank, i, j, ways int) bool {
	if i%ways != j && !full {
		r = complete
	}
	if doorbells == "direct" && r == standard && (i/ways)%2 == 1 && !full {
		r = complete
	}
	return s.takes(r)
}

// trappedOnly is the rank of a standard case that shows nothing new with direct doorbells.
func trappedOnly() rank {
	if doorbells == "direct" {
		return complete
	}
	return standard
}

// seenIn is the rank of what the race detector leaves out because the daemon does the same in that
// test, which it sees.
func seenIn(string) rank { return standard }

// TestSeenIn: the tests that seenIn names are there.
func TestSeenIn(t *testing.T) {
	files, err := filepath.Glob("*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(text)
	}
	named := regexp.MustCompile(`seenIn\("(\w+)"\)`).FindAllStringSubmatch(all.String(), -1)
	for _, name := range named {
		if !strings.Contains(all.String(), "\nfunc "+name[1]+"(t *testing.T) {") {
			t.Errorf("there is no %s", name[1])
		}
	}
	if len(named) == 0 {
		t.Error("nothing is left out: seenIn can go")
	}
}

// takes says whether cases of this rank run.
func (s *tally) takes(r rank) bool {
	limit := standard
	switch {
	case full:
		limit = complete
	case race.Enabled:
		limit = core
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all++
	if r > limit {
		return false
	}
	s.ran++
	return true
}

func (s *tally) report() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	text := fmt.Sprintf("e2e: ran %d of %d cases", s.ran, s.all)
	if s.ran < s.all {
		text += ": a representative selection. GORXE_E2E=full runs all of them"
	}
	return text
}
