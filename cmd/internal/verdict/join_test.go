package verdict

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gorxe/gorxe/internal/explain"
	"github.com/gorxe/gorxe/internal/fault"
	"github.com/gorxe/gorxe/internal/service/proto"
)

// TestJoin: one page is about all hosts of a lab, and names the host in all that it says.
func TestJoin(t *testing.T) {
	began := time.Now().Add(-time.Second)
	status := 7
	run := func(device string, records ...explain.Record) *Run {
		for i := range records {
			records[i].Count, records[i].Program, records[i].PID = 1, "prog", 10
		}
		return &Run{Command: []string{"prog"}, Started: began, Report: &proto.Report{
			Errors:  proto.Errors{Total: uint64(len(records)), Errors: records},
			Devices: []proto.DeviceStatus{{Name: device}},
		}}
	}
	late := run("rxe0", explain.Record{Time: began.Add(2 * time.Millisecond), Fault: explain.Unreachable, What: "it was silent"})
	late.Report.Ends = []proto.ProcessEnd{{Time: began.Add(3 * time.Millisecond), PID: 10, Name: "prog", Status: &status}}
	late.Report.Steps = []proto.QPStep{{PID: 10, Name: "prog", QPN: 0x11, State: "RTS"}}
	early := run("rxe0", explain.Record{Time: began.Add(time.Millisecond), Fault: explain.Program, What: "it was wrong"})
	links := []fault.Status{
		{Rule: "packet shape,rate=1gbit,direction=out", Fired: 5}, {Rule: "packet shape,latency=1ms,direction=out", Fired: 5},
		{Rule: "packet shape,loss=1%,direction=in"},
	}
	hosts := []Host{
		{Name: "h1", Address: "10.0.1.1", Command: late.Command, Exit: 7},
		{Name: "h2", Address: "10.0.1.2", Command: early.Command, Exit: 143, Stopped: true},
		{Name: "h3", Address: "10.0.1.3", Command: []string{"gone"}},
	}
	path := filepath.Join(t.TempDir(), "run")
	for i, r := range []*Run{late, early} {
		if err := r.Save(path, links[:3-2*i]); err != nil {
			t.Fatal(err)
		}
		if err := hosts[i].Load(path); err != nil {
			t.Fatal(err)
		}
	}
	if err := hosts[2].Load(path + "-none"); err == nil || hosts[2].Run != nil {
		t.Error("a file that is not there is read")
	}
	joined := Join([]string{"gorxe", "lab", "x.yml"}, began, 7, hosts)
	if s := joined.steps(); len(s) != 1 || s[0].Process != "h1:prog[10]" || s[0].State != "RTS" {
		t.Errorf("the states are %+v", s)
	}
	page := verdictOf(t, joined)
	for _, says := range []string{
		"# Verdict: the program of h1 failed with exit status 7", "| h1 | 10.0.1.1 | `prog` | 7 | 1 |",
		"| h2 | 10.0.1.2 | `prog` | the lab ended it | 1 |", "| h3 | 10.0.1.3 | `gone` | 0 | not known |",
		"- **The program** `h2:prog`: it was wrong.", "1. After 0.001 s, `h2:prog[10]`: it was wrong.", "2. After 0.002 s, `h1:prog[10]`",
		"`h1:prog[10]` exited with status 7", "**The fault rule** `packet shape,rate=1gbit,direction=out`",
	} {
		if !strings.Contains(page, says) {
			t.Errorf("%q is missing in:\n%s", says, page)
		}
	}
	if strings.Contains(page, "latency=1ms") || strings.Contains(page, "loss=1%") {
		t.Errorf("a link is blamed that loses no packets:\n%s", page)
	}
	well := verdictOf(t, Join([]string{"x"}, began, 0, []Host{{Name: "h1", Run: run("rxe0"), Links: links}}))
	if !strings.Contains(well, "# Verdict: the lab ended well") || strings.Contains(well, "packet shape") {
		t.Error(well)
	}
	unknown := verdictOf(t, Join([]string{"x"}, began, 1, []Host{{Name: "h1", Exit: 1}}))
	if !strings.Contains(unknown, "It is not known: no host has reported.") {
		t.Error(unknown)
	}
}
