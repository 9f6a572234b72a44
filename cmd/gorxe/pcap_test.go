package main

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

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
			if code, stdout, stderr = gorxe(t, "pcap", "check", "--allow-empty", name); code != exitOK || stderr != "" || !strings.Contains(stdout, "0 violations") {
				t.Errorf("exit code %d with --allow-empty, %q, %q", code, stdout, stderr)
			}
			// It fails beside a good one, too.
			if code, _, _ = gorxe(t, "pcap", "check", "-q", "../../testdata/pcaps/rping.pcap", name); code != exitFailed {
				t.Errorf("exit code %d beside another", code)
			}
		})
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

// TestTerminal: a buffer is no terminal, so that progress is not shown in one.
func TestTerminal(t *testing.T) {
	if isTerminal(new(bytes.Buffer)) {
		t.Fatal("a buffer is no terminal")
	}
}
