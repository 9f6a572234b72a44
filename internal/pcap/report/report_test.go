package report

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/gorxe/gorxe/internal/pcap/replay"
	"github.com/gorxe/gorxe/rocev2/conformance"
)

const captures = "../../../testdata/pcaps/"

// checked returns the verdict on a capture.
func checked(t *testing.T, name string) *Capture {
	t.Helper()
	r, err := conformance.CheckFile(captures+name, conformance.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return &Capture{File: name, Elapsed: 1500 * time.Millisecond, Report: *r}
}

func TestEmpty(t *testing.T) {
	if c := (Capture{}); !c.Empty() || c.Failed(true) {
		t.Error("a capture without packets is not empty, or fails")
	}
	if c := (Capture{Err: ErrNothing}); !c.Failed(false) {
		t.Error("a capture that could not be read passes")
	}
	if c := checked(t, "rping.pcap"); c.Empty() || c.Failed(true) {
		t.Error("a clean capture is empty, or fails")
	}
	if c := checked(t, "broken/solicited-event.pcap"); c.Failed(false) || !c.Failed(true) {
		t.Error("a warning fails a check that is not strict, or passes a strict one")
	}
}

// TestFindings: the limit is for each rule, and the rest is counted.
func TestFindings(t *testing.T) {
	var out strings.Builder
	f := NewFindings(&out, 2)
	c := checked(t, "netem_corrupt2.pcap")
	for i := range c.Findings {
		if x := &c.Findings[i]; f.Count(x) {
			f.Print(c.File, x)
		}
	}
	f.Rest()
	text := out.String()
	if strings.Count(text, "violation: icrc") != 2 || !strings.Contains(text, "icrc: 24 more; --max 0 prints all\n") {
		t.Errorf("printed\n%s", text)
	}
}

func TestVerdict(t *testing.T) {
	for _, tt := range []struct {
		c    Capture
		want string
	}{
		{Capture{}, "x: 0 packets, 0 flows: 0 violations, 0 warnings, 0 notes\n"},
		{Capture{Report: conformance.Report{Cut: true, Drops: 1}},
			"x: 0 packets, 0 flows: 0 violations, 0 warnings, 0 notes\n" +
				"x: the file records 1 packet as lost\n"},
		{Capture{Report: conformance.Report{Summary: conformance.Summary{
			Packets: 9, RoCEv1: 2, Other: 1, Truncated: 3, Violations: 1, Notes: 2, Forgotten: 4}}},
			"x: 9 packets (2 RoCEv1, 3 cut, 1 of other protocols), 0 flows: 1 violation, 0 warnings, 2 notes\n" +
				"x: forgotten, to bound memory: 4 flows\n"},
	} {
		tt.c.File = "x"
		var out strings.Builder
		if tt.c.WriteVerdict(&out, tt.c.File, nil); out.String() != tt.want {
			t.Errorf("got\n%swant\n%s", out.String(), tt.want)
		}
	}
}

// TestTables: the tables of a check fit in 80 characters and lack what is 0 everywhere. The wide
// ones have every column.
func TestTables(t *testing.T) {
	for _, name := range []string{"netem_corrupt2.pcap", "allops_rc_gid0_v6.pcap", "interop-mistakes.pcap", "broken/solicited-event.pcap", "rping.pcap"} {
		c := checked(t, name)
		var narrow, wide strings.Builder
		c.WriteSummary(&narrow, Form{})
		c.WriteSummary(&wide, Form{Wide: true})
		for line := range strings.Lines(narrow.String()) {
			if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > 80 {
				t.Errorf("%s: %d characters in %q", name, n, line)
			}
		}
		first, _, _ := strings.Cut(wide.String(), "\n")
		for _, head := range []string{"FLOW", "RESENT", "CNP", "NOTES"} {
			if !strings.Contains(first, head) {
				t.Errorf("%s: the wide table has no %s: %s", name, head, first)
			}
		}
		if strings.Contains(narrow.String(), "CNP") {
			t.Errorf("%s: a column without a CNP:\n%s", name, narrow.String())
		}
		for _, f := range c.Flows {
			if qp := fmt.Sprintf("0x%06x", uint32(f.QPN)); !strings.Contains(narrow.String(), qp) || f.Stats.Retransmissions > 0 && !strings.Contains(narrow.String(), "RESENT") {
				t.Errorf("%s: no %s, or no column RESENT:\n%s", name, qp, narrow.String())
			}
		}
	}
}

// TestFormats: JSON and JUnit say the same of one capture, and of one that could not be
// read.
func TestFormats(t *testing.T) {
	all := []*Capture{checked(t, "broken/pad.pcap"), {File: "missing", Err: errors.New("no such file")}}
	var out bytes.Buffer
	if err := WriteJSON(&out, JSON(all)); err != nil {
		t.Fatal(err)
	}
	var files []JSONCapture
	if err := json.Unmarshal(out.Bytes(), &files); err != nil {
		t.Fatal(err)
	}
	if f := files[0]; f.Error != "" || f.Violations != 1 || len(f.Rules) != 1 || f.Rules[0].Name != "pad" || f.Rules[0].FirstPacket != f.Findings[0].Packet {
		t.Errorf("%+v", f)
	}
	if f := files[1]; f.Error != "no such file" || f.Rules == nil || f.Flows == nil || f.Findings == nil {
		t.Errorf("%+v", f)
	}
	out.Reset()
	if err := WriteJUnit(&out, all, []string{"msn"}, false); err != nil {
		t.Fatal(err)
	}
	var suites JUnitSuites
	if err := xml.Unmarshal(out.Bytes(), &suites); err != nil {
		t.Fatal(err)
	}
	if s := suites.Suites[0]; s.Failures != 1 || s.Skipped != 1 || s.Errors != 0 || s.Time != "1.500" || s.Tests != len(conformance.Rules()) {
		t.Errorf("%+v", s)
	}
	cut := &Capture{File: "cut", Report: conformance.Report{Cut: true, CutAt: 24}}
	for _, strict := range []bool{false, true} {
		if s := cut.junit(nil, strict); (s.Errors > 0) != strict || cut.Failed(strict) != strict {
			t.Errorf("strict %v: a file that is cut: %+v", strict, s)
		}
	}
	if s := suites.Suites[1]; s.Failures != 0 || s.Errors != 1 || s.Cases[0].Error == nil || s.Cases[0].Error.Message != "no such file" {
		t.Errorf("%+v", s)
	}
}

func TestRules(t *testing.T) {
	var text, list bytes.Buffer
	if err := errors.Join(WriteRules(&text, false, Form{}), WriteRules(&list, true, Form{})); err != nil {
		t.Fatal(err)
	}
	var rules []jsonRule
	if err := json.Unmarshal(list.Bytes(), &rules); err != nil {
		t.Fatal(err)
	}
	named := 0
	for line := range strings.Lines(text.String()) {
		if !strings.HasPrefix(line, " ") {
			named++
		}
		if utf8.RuneCountInString(strings.TrimSuffix(line, "\n")) > 80 {
			t.Errorf("more than 80 characters: %q", line)
		}
	}
	if n := len(conformance.Rules()); named != n || len(rules) != n {
		t.Errorf("%d and %d rules, want %d", named, len(rules), n)
	}
}

// TestReplay: the last line says whether all is equal, and verbose lists every session.
func TestReplay(t *testing.T) {
	in, err := os.Open(captures + "interop-not-ready.pcap")
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	r, err := replay.Replay(in)
	if err != nil {
		t.Fatal(err)
	}
	print := func(verbose bool) []string {
		var out strings.Builder
		WriteReplay(&out, "x", r, Detail{Verbose: verbose})
		return strings.Split(strings.TrimSpace(out.String()), "\n")
	}
	lines, all := print(false), print(true)
	if last := lines[len(lines)-1]; !strings.HasPrefix(last, "x: ") || !strings.Contains(last, "equal, except for ") {
		t.Errorf("last line %q", last)
	}
	sessions := func(lines []string) int {
		return len(slices.DeleteFunc(slices.Clone(lines), func(s string) bool { return !strings.Contains(s, ", the engine as ") }))
	}
	if sessions(all) != len(r.Sessions) || sessions(lines) >= sessions(all) {
		t.Errorf("%d sessions, %d if verbose, want %d", sessions(lines), sessions(all), len(r.Sessions))
	}
	r.Sessions, r.Skipped = nil, []replay.Skipped{{Flow: "f", Why: "w"}}
	if got := print(false); len(got) != 2 || got[0] != "not played: f: w" || !strings.HasSuffix(got[1], ": nothing to compare") {
		t.Errorf("%q", got)
	}
	if j := NewJSONReplay("x", r, errors.New("cut")); j.Error != "cut" || j.File != "x" || j.Report != r {
		t.Errorf("%+v", j)
	}
}
