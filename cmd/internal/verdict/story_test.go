package verdict

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/gorxe/gorxe/internal/explain"
	"github.com/gorxe/gorxe/internal/fault"
	"github.com/gorxe/gorxe/internal/pcap/report"
	"github.com/gorxe/gorxe/internal/service/proto"
)

// TestHTML: the page of HTML says what is true of the whole run, and is green only if all of it
// went well. Names in it are text.
func TestHTML(t *testing.T) {
	with := func(list ...explain.Record) *proto.Report {
		return reportOf(list, nil)
	}
	failed := explain.Record{Count: 1, Program: "</p><script>x\x1b[2J\u202e", PID: 7, Kind: explain.Completion, Fault: explain.Peer, QPN: 0x11, PeerQPN: 0x12, What: "it failed"}
	stepped := with()
	stepped.Steps = []proto.QPStep{{Name: "</p><script>x\x1b[2J\u202e", PID: 7, QPN: 0x11, State: "RTS"}}
	hit := []fault.Status{{Rule: "packet drop,nth=3", Candidates: 9, Fired: 1}}
	for name, c := range map[string]struct {
		run   Run
		class string
		says  []string
	}{
		"with a state": {Run{Report: stepped}, "clean", []string{"ended well<"}},
		"good":         {Run{Report: with()}, "clean", []string{"<b>Program:</b> ended well<", "<b>Faults:</b> none ordered<", ">The program ended well</h1>", `<li id="side-1">No one: `}},
		"failed":       {Run{Report: with(), Exit: 3}, "violation", []string{"<b>Program:</b> failed<", `<li id="side-1" class="wrong"><b>The program</b>, outside of RDMA`}},
		"errors only":  {Run{Report: with(failed)}, "violation", []string{"<b>Program:</b> exited with status 0, but 1 work request failed<", `<li id="side-1" class="wrong"><b>The peer</b> of <code>&lt;/p&gt;&lt;script&gt;x?[2J?</code>: it failed.`}},
		"a rule hit":   {Run{Report: with(), Faults: hit}, "warning", []string{"<b>Faults:</b> 1 rule ordered, fired once<", ">The program ended well, despite the faults that were ordered</h1>"}},
		"a rule killed": {Run{Started: time.Unix(0, 0), Report: reportOf(nil, []proto.ProcessEnd{{Time: time.Unix(5, 0), PID: 7, Name: "x", Signal: "SIGKILL"}}), Exit: 137,
			Faults: []fault.Status{{Rule: "peer killed", Candidates: 9, Fired: 1}}}, "violation", []string{`<b>Process 7</b> (<code>x</code>), after 5.000 s: it was killed by the fault rule (SIGKILL).</li>`, `<li id="event-1">After 5.000 s, `}},
		"a rule never fired": {Run{Report: with(), Missed: true, Faults: []fault.Status{{Rule: "packet drop"}}}, "violation", []string{"1 rule never fired<"}},
		"no daemon":          {Run{Trouble: "gone"}, "warning", []string{"the daemon is gone: gone"}},
	} {
		c.run.Command = []string{"prog\u202e", "<b>"}
		dir := filepath.Dir(writtenOf(t, &c.run))
		text, err := os.ReadFile(filepath.Join(dir, LadderFile))
		if err != nil {
			t.Fatal(err)
		}
		page := string(text)
		m := regexp.MustCompile(`class="verdict ([a-z]*)"`).FindStringSubmatch(page)
		if m == nil || m[1] != c.class {
			t.Errorf("%s: the head is %q, want %s", name, m, c.class)
		}
		for _, s := range append(c.says, "<code>prog? &#39;&lt;b&gt;&#39;</code>") {
			if !strings.Contains(page, s) {
				t.Errorf("%s: %q is missing in:\n%s", name, s, page[strings.Index(page, "<h1"):])
			}
		}
		if strings.ContainsAny(page, "\x1b\u202e") {
			t.Errorf("%s: a name changes the direction of the page", name)
		}
	}
}

// TestNobodyListens: a program that connects where nobody listens is told so, without the sentence
// twice, and with advice about perftest only if it is of perftest.
func TestNobodyListens(t *testing.T) {
	for program, want := range map[string]string{
		"rping":      "**Nobody listens** at 10.0.0.1:7174 (reject reason 8), where `rping` connects by RDMA CM; start the server first.",
		"ib_send_bw": "**Nobody listens** at 10.0.0.1:7174 (reject reason 8), where `ib_send_bw` connects by RDMA CM; start the server first (perftest: -R at both ends).",
	} {
		r := Run{Exit: 1, Report: reportOf([]explain.Record{{Count: 1, Program: program, Kind: explain.Refusal, Fault: explain.Peer,
			What: "rdma_connect failed with ECONNREFUSED: nothing listens by RDMA CM at 10.0.0.1:7174 (reject reason 8)", Fix: "start the server first (perftest: -R at both ends)"}}, nil)}
		if got := r.blame(new(report.Capture)); len(got) != 1 || got[0].text != want {
			t.Errorf("%s: %v", program, got)
		}
		if got := r.happened(); len(got) != 1 || !strings.HasSuffix(got[0].text, "(reject reason 8).") {
			t.Errorf("%s: it happened %v", program, got)
		}
	}
}

// TestAsTyped: the page has fault rules as the user typed them.
func TestAsTyped(t *testing.T) {
	r := Run{Command: []string{"gorxe", "pair", "--fault", "packet drop,p=5%", "--fault=packet delay,p=1%,time=2ms", "x"}}
	for typed, want := range map[string]string{"packet drop,p=0.05": "packet drop,p=5%", "packet delay,time=2ms,p=0.01": "packet delay,p=1%,time=2ms", "packet drop,p=0.5": "packet drop,p=0.5"} {
		rule := mustParse(t, typed)
		if got := r.asTyped(rule); got != want {
			t.Errorf("%s is shown as %s, want %s", rule, got, want)
		}
	}
}

// mustParse returns a rule as gorxe writes it.
func mustParse(t *testing.T, text string) string {
	t.Helper()
	rule, err := fault.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return rule.String()
}

// TestBlameRule: a fault rule is named with when it first hit, and errors may follow from it only
// if there are some.
func TestBlameRule(t *testing.T) {
	start := time.Unix(100, 0)
	first := &fault.Event{Time: start.Add(1500 * time.Millisecond), QP: 0x11}
	for _, c := range []struct {
		run   Run
		fired uint64
		want  string
	}{
		{Run{Started: start}, 3, "**The fault rule** `packet drop`, on purpose: it fired 3 times, first after 1.500 s, at queue pair 0x000011."},
		{Run{Started: start, Exit: 1}, 1, "**The fault rule** `packet drop`, on purpose: it fired once, after 1.500 s, at queue pair 0x000011. Errors below may follow from it."},
	} {
		if got := c.run.blameRule(&fault.Status{Rule: "packet drop", Fired: c.fired, First: first}); got != c.want {
			t.Errorf("%s", got)
		}
	}
}
