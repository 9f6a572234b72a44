package e2e

import (
	"slices"
	"strings"
	"testing"
)

// TestSemantics: what a program sees where the device follows the specification, and rdma_rxe does
// not, or could not see in time what librxe's queues hold. docs/compatibility.md says which.
func TestSemantics(t *testing.T) {
	besideOthers(t)
	if !selection.takes(core) {
		return
	}
	notNative(t, "gorxe's statuses")
	r := oneHost(t)
	got := slices.Collect(strings.Lines(r.start(t, compile(t, "semantics"), r.device).ok()))
	want := slices.Collect(strings.Lines(`port flags: 1
receive posted in ERR: 5
SEND: 0, the receive 0, wc_flags 0
SEND longer than the receive: 9, the receive 1, wc_flags 0
READ: 0
READ with inline data: 4
compare-and-swap: 0
compare-and-swap of 16 bytes: 1
WRITE with immediate data and a wrong key: 10, the receive 8, wc_flags 0
receive in the SRQ's domain: 0, the receive 0
receive in the queue pair's domain: 11, the receive 4
dereg_mr with a window: 16
dealloc_mw: 0
dereg_mr: 0
`))
	if !slices.Equal(got, want) {
		t.Errorf("the program says\n%sand not\n%s", strings.Join(got, ""), strings.Join(want, ""))
	}
}
