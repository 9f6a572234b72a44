package e2e

import (
	"strings"
	"testing"
)

// TestExtras: librxe makes no call for enhanced connection establishment, moderation of completions
// and timestamps, so that programs get what they get with the kernel's rdma_rxe. NCCL asks for the
// first, and goes on.
func TestExtras(t *testing.T) {
	if !selection.takes(standard) {
		return
	}
	r := oneHost(t)
	out := r.start(t, compile(t, "extras"), r.device).ok()
	if n := strings.Count(out, ": EOPNOTSUPP\n"); n != 6 || strings.Count(out, "\n") != n {
		t.Errorf("the answers are\n%s", out)
	}
}
