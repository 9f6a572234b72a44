package procfs

import (
	"os"
	"testing"
)

// TestStarted: a process keeps its start, another one has a later one, and one that has ended has
// none.
func TestStarted(t *testing.T) {
	mine := Started(os.Getpid())
	if mine == "" || mine != Started(os.Getpid()) || mine == Started(1) {
		t.Errorf("this process began at %q, the first one at %q", mine, Started(1))
	}
	if got := Started(1 << 30); got != "" {
		t.Errorf("a process that is not there began at %q", got)
	}
}
