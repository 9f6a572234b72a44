package main

import (
	"encoding/binary"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gorxe/gorxe/internal/pcap/ladder"
	"github.com/gorxe/gorxe/internal/pcap/report"
	"github.com/gorxe/gorxe/rocev2/conformance"
)

const damaged = "../../testdata/pcaps/netem_corrupt2.pcap"

func TestPCAPCheckJSON(t *testing.T) {
	code, stdout, _ := gorxe(t, "pcap", "check", "--json", "--max", "3", damaged, "../../testdata/pcaps/rping.pcap")
	var files []report.JSONCapture
	if err := json.Unmarshal([]byte(stdout), &files); err != nil || code != exitFailed || len(files) != 2 {
		t.Fatalf("exit code %d, %v in\n%s", code, err, stdout)
	}
	bad, good := files[0], files[1]
	if bad.Packets != 1161 || bad.Violations != 26 || len(bad.Findings) != 3 || len(bad.Flows) != 2 || len(bad.Rules) != 1 {
		t.Errorf("%+v", bad)
	}
	if f := bad.Findings[0]; f.Packet != 60 || f.Rule != "icrc" || f.Severity != "violation" || f.Expected == "" || f.Seen == "" || f.Clause == "" {
		t.Errorf("%+v", f)
	}
	if good.Violations != 0 || len(good.Flows) != 4 || good.Flows[2].Peer != good.Flows[3].ID {
		t.Errorf("%+v", good)
	}
}

func TestPCAPCheckJUnit(t *testing.T) {
	name := filepath.Join(t.TempDir(), "report.xml")
	code, _, stderr := gorxe(t, "pcap", "check", "-q", "--junit", name, "--ignore", "pad", damaged)
	if code != exitFailed || stderr != "" {
		t.Fatalf("exit code %d, %q", code, stderr)
	}
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	var all report.JUnitSuites
	if err := xml.Unmarshal(text, &all); err != nil {
		t.Fatal(err)
	}
	s := all.Suites[0]
	if len(s.Cases) != len(conformance.Rules()) || s.Tests != len(s.Cases) || s.Failures != 1 || s.Skipped != 1 || s.Errors != 0 {
		t.Errorf("%d cases: %+v", len(s.Cases), s)
	}
	for _, c := range s.Cases {
		if (c.Failure != nil) != (c.Name == "icrc") || (c.Skipped != nil) != (c.Name == "pad") {
			t.Errorf("%+v", c)
		}
		if c.Failure != nil && strings.Count(c.Failure.Text, "packet ") != 20 {
			t.Errorf("%s", c.Failure.Text)
		}
	}
	// A file that cannot be read is an error, not a pass.
	if code, _, _ = gorxe(t, "pcap", "check", "-q", "--junit", name, "main_test.go"); code != exitFailed {
		t.Errorf("exit code %d", code)
	}
	if text, err = os.ReadFile(name); err != nil || !strings.Contains(string(text), `errors="1"`) {
		t.Errorf("%v, %s", err, text)
	}
}

// TestPCAPStrict: a warning fails only if it is asked to.
func TestPCAPStrict(t *testing.T) {
	const warns = "../../testdata/pcaps/broken/solicited-event.pcap"
	if code, stdout, _ := gorxe(t, "pcap", "check", warns); code != exitOK || !strings.Contains(stdout, "warning: solicited-event (IBA 9.2, solicited event)") {
		t.Errorf("exit code %d\n%s", code, stdout)
	}
	if code, _, _ := gorxe(t, "pcap", "check", "--strict", warns); code != exitFailed {
		t.Errorf("exit code %d with --strict", code)
	}
}

// TestPCAPRules: --rules chooses, and never has a file pass by not looking at it.
func TestPCAPRules(t *testing.T) {
	const msn = "../../testdata/pcaps/broken/msn.pcap"
	for _, c := range []struct {
		args []string
		code int
	}{
		{[]string{"--rules=msn", msn}, exitFailed},
		{[]string{"--rules=pad,msn", msn}, exitFailed},
		{[]string{"--rules=pad", "--rules=msn", msn}, exitFailed},
		{[]string{"--rules=pad", msn}, exitOK},
		{[]string{"--rules=msn", "--ignore=msn", msn}, exitOK},
		{[]string{"--rules=icrc", damaged}, exitFailed},
		{[]string{"--rules=no-such-rule", msn}, exitUsage},
		{[]string{"--rules", msn}, exitUsage},
		{[]string{"--rules", "msn", msn}, exitUsage},
		{[]string{"--rules=msn"}, exitUsage},
	} {
		if code, stdout, stderr := gorxe(t, append([]string{"pcap", "check", "-q"}, c.args...)...); code != c.code {
			t.Errorf("%v: exit code %d, want %d; %q, %q", c.args, code, c.code, stdout, stderr)
		}
	}
}

// TestPCAPNothing: a capture without RDMA does not pass for a clean one.
func TestPCAPNothing(t *testing.T) {
	dir := t.TempDir()
	header := []byte{0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0, 0, 1, 0, 0, 0}
	arp := append([]byte{0, 0, 0, 0, 0, 0, 0, 0, 14, 0, 0, 0, 14, 0, 0, 0}, 2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x08, 0x06)
	// A whole IPv4 and UDP header, to port 4791, and nothing behind them.
	headers := []byte{0, 0, 0, 0, 0, 0, 0, 0, 42, 0, 0, 0, 66, 0, 0, 0}
	headers = append(headers, 2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x08, 0)
	headers = append(headers, 0x45, 0, 0, 52, 0, 0, 0x40, 0, 64, 17, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2)
	headers = append(headers, 0xc0, 0, 0x12, 0xb7, 0, 32, 0, 0)
	for name, file := range map[string][]byte{
		"no-packets.pcap": header, "other.pcap": slices.Concat(header, arp), "cut.pcap": slices.Concat(header, arp[:20]),
		"headers-only.pcap": slices.Concat(header, headers),
	} {
		t.Run(name, func(t *testing.T) {
			name, junit := filepath.Join(dir, name), filepath.Join(dir, name+".xml")
			if err := os.WriteFile(name, file, 0o666); err != nil {
				t.Fatal(err)
			}
			code, stdout, stderr := gorxe(t, "pcap", "check", "--json", "--junit", junit, name)
			var files []report.JSONCapture
			if err := json.Unmarshal([]byte(stdout), &files); err != nil {
				t.Fatal(err)
			}
			if code != exitFailed || !strings.Contains(stderr, "nothing to judge") || !strings.Contains(files[0].Error, "nothing to judge") {
				t.Errorf("exit code %d, %q, %+v", code, stderr, files[0])
			}
			if text, err := os.ReadFile(junit); err != nil || !strings.Contains(string(text), `errors="1"`) {
				t.Errorf("%v, %s", err, text)
			}
			said := ""
			if filepath.Base(name) == "cut.pcap" {
				said = "gorxe: " + name + ": the file ends within a packet, which begins at byte 24: the packets before it were read\n"
			}
			if code, stdout, stderr = gorxe(t, "pcap", "check", "--allow-empty", name); code != exitOK || stderr != said || !strings.Contains(stdout, "0 violations") {
				t.Errorf("exit code %d with --allow-empty, %q, %q", code, stdout, stderr)
			}
			// It fails beside a good one, too.
			if code, _, _ = gorxe(t, "pcap", "check", "-q", "../../testdata/pcaps/rping.pcap", name); code != exitFailed {
				t.Errorf("exit code %d beside another", code)
			}
		})
	}
}

// TestPCAPCut: all commands read a file that ends within a packet up to there, warn where, and do
// not fail for it.
func TestPCAPCut(t *testing.T) {
	whole, err := os.ReadFile("../../testdata/pcaps/rping.pcap")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	name := filepath.Join(dir, "cut.pcap")
	if err := os.WriteFile(name, whole[:len(whole)-7], 0o666); err != nil {
		t.Fatal(err)
	}
	last := 0 // where the last record begins
	for at := 24; at < len(whole); at += 16 + int(binary.LittleEndian.Uint32(whole[at+8:])) {
		last = at
	}
	warning := fmt.Sprintf("gorxe: %s: the file ends within a packet, which begins at byte %d: the packets before it were read\n", name, last)
	for _, tt := range []struct {
		args []string
		code int
		out  string
	}{
		{[]string{"check"}, exitOK, "64 packets"},
		{[]string{"check", "--json"}, exitOK, `"cut": true`},
		{[]string{"check", "--strict"}, exitFailed, "64 packets"},
		{[]string{"show"}, exitOK, "\n    64 "},
		{[]string{"show", "--json"}, exitOK, `{"packet":64,`},
		{[]string{"show", "--ladder"}, exitOK, "CM REQ"},
		{[]string{"show", "--html", "-"}, exitOK, "The file could not be read to its end: the file ends within a packet"},
		{[]string{"replay"}, exitOK, ": equal"},
		{[]string{"replay", "--json"}, exitOK, `"cut": true`},
	} {
		code, stdout, stderr := gorxe(t, append(append([]string{"pcap"}, tt.args...), name)...)
		if code != tt.code || stderr != warning || !strings.Contains(stdout, tt.out) {
			t.Errorf("%v: exit code %d, %q, %q in\n%.300s", tt.args, code, stderr, tt.out, stdout)
		}
	}
}

// TestPCAPUnreadable: of a file that cannot be read, or has no RDMA packet, each command says only
// why.
func TestPCAPUnreadable(t *testing.T) {
	dir := t.TempDir()
	none, empty := filepath.Join(dir, "none"), filepath.Join(dir, "empty.pcap")
	if err := os.WriteFile(empty, []byte{0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0, 0, 1, 0, 0, 0}, 0o666); err != nil {
		t.Fatal(err)
	}
	for name, why := range map[string]string{none: "no such file", "main_test.go": "not a pcap or pcapng file", empty: "no packet to UDP port 4791", dir: "is a directory"} {
		for _, args := range [][]string{{"check"}, {"check", "-q"}, {"show"}, {"show", "--json"}, {"show", "--ladder"}, {"show", "--html", "-"}, {"replay"}} {
			code, stdout, stderr := gorxe(t, append(append([]string{"pcap"}, args...), name)...)
			if code != exitFailed || stdout != "" || strings.Count(stderr, name) != 1 || !strings.Contains(stderr, why) {
				t.Errorf("%v %s: exit code %d, %q, %q", args, name, code, stdout, stderr)
			}
		}
		for _, args := range [][]string{{"check", "--json"}, {"replay", "--json"}} {
			_, stdout, _ := gorxe(t, append(append([]string{"pcap"}, args...), name)...)
			var files []struct{ File, Error string }
			if err := json.Unmarshal([]byte(stdout), &files); err != nil || len(files) != 1 || !strings.Contains(files[0].Error, why) {
				t.Errorf("%v %s: %v, %q", args, name, err, stdout)
			}
		}
	}
}

// TestPCAPNoMatch: a choice of what is not there says what is.
func TestPCAPNoMatch(t *testing.T) {
	const name = "../../testdata/pcaps/rping.pcap"
	for _, form := range [][]string{nil, {"--ladder"}, {"--json"}, {"--html", "-"}} {
		for _, tt := range []struct {
			args []string
			want string
		}{
			{[]string{"--qp", "0x99"}, "no packet of queue pair 0x000099: the capture has the queue pairs 0x000001, 0x000020\n"},
			{[]string{"--qp", "7", "--qp", "8"}, "no packet of queue pair 0x000007 or 0x000008: the capture has the queue pairs 0x000001, 0x000020\n"},
			{[]string{"--host", "192.0.2.9"}, "no packet of host 192.0.2.9: the capture has the hosts 10.77.0.1, 10.77.0.2\n"},
		} {
			code, stdout, stderr := gorxe(t, slices.Concat([]string{"pcap", "show", name}, form, tt.args)...)
			if code != exitFailed || stdout != "" || !strings.Contains(stderr, tt.want) {
				t.Errorf("%v %v: exit code %d, %q, %q", form, tt.args, code, stdout, stderr)
			}
		}
	}
	if code, stdout, stderr := gorxe(t, "pcap", "show", "--notable", name); code != exitOK || stdout != "" || !strings.Contains(stderr, "no packet was sent again") {
		t.Errorf("nothing notable: exit code %d, %q, %q", code, stdout, stderr)
	}
}

// TestPCAPShowJSON: each line is a packet, with its findings.
func TestPCAPShowJSON(t *testing.T) {
	code, stdout, stderr := gorxe(t, "pcap", "show", "--json", damaged)
	if code != exitOK || stderr != "" {
		t.Fatalf("exit code %d, %s", code, stderr)
	}
	var all []ladder.JSONPacket
	for line := range strings.Lines(stdout) {
		var p ladder.JSONPacket
		d := json.NewDecoder(strings.NewReader(line))
		d.DisallowUnknownFields()
		if err := d.Decode(&p); err != nil {
			t.Fatalf("%v in %q", err, line)
		}
		all = append(all, p)
	}
	if len(all) != 1161 {
		t.Fatalf("%d lines", len(all))
	}
	p := all[35]
	if p.Packet != 36 || p.Opcode != "RC_FETCH_ADD" || p.DestinationQP != "0x000026" || p.PSN != "0x000010" || p.VA != "0x2e0eec40" ||
		p.RKey != "0x1270" || p.Operands != "add 0x1" || p.ICRC != "good" || *p.Payload != 0 || *p.Seconds != p.Time.Sub(*all[0].Time).Seconds() {
		t.Errorf("%+v", p)
	}
	if p := all[51]; p.Syndrome != "ACK" || *p.MSN != 3 || p.Original != "0x0" || p.Source != "10.77.0.2" {
		t.Errorf("%+v", p)
	}
	if p := all[59]; p.ICRC != "bad" || len(p.Findings) != 1 || p.Findings[0].Rule != "icrc" || p.Findings[0].Packet != 60 || p.Headers != nil {
		t.Errorf("%+v", p)
	}
	_, stdout, _ = gorxe(t, "pcap", "show", "--json", "-v", "--limit", "1", damaged)
	var first ladder.JSONPacket
	if err := json.Unmarshal([]byte(stdout), &first); err != nil || len(first.Headers) < 4 || first.Headers[0].Fields["number"] != "1" {
		t.Errorf("%v, %+v", err, first)
	}
	if code, _, stderr := gorxe(t, "pcap", "show", "--json", "--ladder", damaged); code != exitUsage || !strings.Contains(stderr, "--json") {
		t.Errorf("exit code %d, %s", code, stderr)
	}
}

// A capture's name may have escape sequences. No command sends them to the terminal.
func TestPCAPNames(t *testing.T) {
	text, err := os.ReadFile(damaged)
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(t.TempDir(), "\x1b[2J\x07.pcap")
	if err := os.WriteFile(name, text, 0o666); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"check", "--max", "1", name}, {"check", "--json", "--max", "1", name}, {"check", name + ".none"},
		{"show", name}, {"show", name + ".none"}, {"replay", "-v", name}, {"replay", name + ".none"},
	} {
		_, stdout, stderr := gorxe(t, append([]string{"pcap"}, args...)...)
		if strings.ContainsAny(stdout+stderr, "\x1b\x07") {
			t.Errorf("%q: escape sequences in\n%.2000q\n%.2000q", args, stdout, stderr)
		}
	}
	code, stdout, _ := gorxe(t, "pcap", "check", "--max", "1", name)
	if code != exitFailed || strings.Count(stdout, "?[2J?.pcap") < 2 {
		t.Errorf("exit code %d\n%s", code, stdout)
	}
}
