package main

import (
	"testing"

	"github.com/gorxe/gorxe/internal/explain"
	"github.com/gorxe/gorxe/internal/fault"
	"github.com/gorxe/gorxe/internal/service/keeper"
	"github.com/gorxe/gorxe/internal/service/proto"
)

// TestFired: a run says which of its rules fired.
func TestFired(t *testing.T) {
	once, never, often := fault.Status{ID: 1, Rule: "peer silent", Fired: 1}, fault.Status{ID: 2, Rule: "packet drop"}, fault.Status{ID: 3, Rule: "packet mark", Fired: 12}
	for _, c := range []struct {
		list []fault.Status
		want string
	}{
		{nil, ""}, {[]fault.Status{never}, ""}, {[]fault.Status{once, never}, "fault rule 1 (peer silent) fired once"},
		{[]fault.Status{once, never, often}, "fault rule 1 (peer silent) fired once, rule 3 (packet mark) 12 times"},
	} {
		if got := fired(c.list); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

// TestEnded: after a run nobody is sent to a list that is gone. Each record names rules instead.
func TestEnded(t *testing.T) {
	named := explain.Record{What: "x"}
	named.Blame([]string{"1 (peer silent)"})
	if named.Fix != seeRules {
		t.Fatalf("package explain says %q", named.Fix)
	}
	records := []explain.Record{named, {What: "a fault rule says so", Fix: seeRules}, {What: "y", Fix: "use port 1"}}
	ended(records, []fault.Status{{ID: 1, Rule: "peer silent", Fired: 2}})
	for i, want := range []string{"x; on purpose, by fault rule 1 (peer silent).", "a fault rule says so; fault rule 1 (peer silent) fired 2 times.", "y; use port 1."} {
		if got := records[i].String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestUnfound: a user whose rule found no packet learns which packets there were.
func TestUnfound(t *testing.T) {
	devices := []proto.DeviceStatus{
		{Packets: map[string]proto.PacketCount{"RC_SEND_ONLY": {Sent: 1}, "RC_RDMA_WRITE_ONLY": {}}},
		{Packets: map[string]proto.PacketCount{"RC_ACKNOWLEDGE": {Received: 1}}},
	}
	for _, c := range []struct {
		missed  fault.Status
		devices []proto.DeviceStatus
		want    string
	}{
		{fault.Status{Rule: "packet drop,opcode=RC_RDMA_WRITE_ONLY"}, devices, "no packet was a candidate of a rule that never fired; the devices had RC_ACKNOWLEDGE, RC_SEND_ONLY"},
		{fault.Status{Rule: "packet drop,first=1"}, nil, ""},
		{fault.Status{Rule: "packet drop,nth=9", Candidates: 3}, devices, ""},
		{fault.Status{Rule: "verb fail,verb=create_qp"}, devices, ""},
	} {
		if got := unfound([]fault.Status{c.missed}, c.devices); got != c.want {
			t.Errorf("%+v: %q, want %q", c.missed, got, c.want)
		}
	}
}

// TestQuiet: a run that succeeds prints nothing of its own, and a pair says which rules fired.
func TestQuiet(t *testing.T) {
	ended := &keeper.Outcome{Faults: []fault.Status{{ID: 1, Rule: "peer silent", Fired: 1}}}
	if got := (&runCmd{}).hints(ended, nil); len(got) != 0 {
		t.Errorf("a run that succeeds says %q", got)
	}
	if got := (&runCmd{}).hints(&keeper.Outcome{}, []string{"ibv_devices", "--pcap", "x"}); len(got) != 1 {
		t.Errorf("a run whose program got a flag of gorxe, and ignored it, says %q", got)
	}
	if got := (&runCmd{shown: []string{"gorxe", "pair"}}).hints(ended, nil); len(got) != 1 {
		t.Errorf("a pair that succeeds says %q, and not which rule fired", got)
	}
}
