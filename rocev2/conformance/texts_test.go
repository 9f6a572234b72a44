package conformance

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var verdictLine = regexp.MustCompile(`(?m)^Verdict: (no finding\.$|[a-z-]+:)`)

// TestCaptureTexts: the text beside each capture says where it comes from, and has the
// verdict that TestKernelCaptures expects.
func TestCaptureTexts(t *testing.T) {
	for _, pattern := range []string{"*.pcap", "defects/*.pcap"} {
		files, err := filepath.Glob(captures + pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("no captures %s: %v", pattern, err)
		}
		for _, name := range files {
			text, err := os.ReadFile(strings.TrimSuffix(name, ".pcap") + ".txt")
			if err != nil {
				t.Error(err)
				continue
			}
			device := "rdma_rxe of "
			if strings.HasPrefix(filepath.Base(name), "gorxe-") {
				device = "\nDevice: gorxe at both ends, "
			}
			if !strings.Contains(string(text), "\nLicence: ") || !strings.Contains(string(text), device) {
				t.Errorf("%s: the text names no licence, or no device", name)
			}
			want := "no finding."
			if known, ok := shown[filepath.Base(name)]; ok {
				want = known.rule.Name + ":"
			}
			if m := verdictLine.FindSubmatch(text); m == nil || string(m[1]) != want {
				t.Errorf("%s: the text has the verdict %q, want %q", name, m, want)
			}
		}
	}
}

// TestBrokenTexts: the table about the broken captures has the texts of the rules.
func TestBrokenTexts(t *testing.T) {
	var b strings.Builder
	b.WriteString(`# Captures that break one rule each

Device: none; an invented conversation of two queue pairs, in which one thing is wrong.
Tool: ` + "`go test ./rocev2/conformance -run TestBroken -update`" + `, which writes this page too.
Licence: made for this project; none restricts them.
Verdict of ` + "`gorxe pcap check`" + `: the rule that the file is named after, with the severity
given here, and no other rule except those that it implies.

| rule | verdict | what should be, and is not |
|---|---|---|
`)
	for _, r := range Rules() {
		fmt.Fprintf(&b, "| `%s` | %v | %s |\n", r.Name, r.Severity, r.Text)
	}
	const name = captures + "broken/README.md"
	if *update {
		if err := os.WriteFile(name, []byte(b.String()), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	if kept, err := os.ReadFile(name); err != nil || string(kept) != b.String() {
		t.Errorf("%s is not what -update writes (%v)", name, err)
	}
	files, err := filepath.Glob(captures + "broken/*.pcap")
	if err != nil || len(files) != len(Rules()) {
		t.Errorf("%d captures break %d rules (%v)", len(files), len(Rules()), err)
	}
}
