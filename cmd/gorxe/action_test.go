package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestActionSummary: the job's summary leads with what went wrong. The check of the packets comes
// first only if nothing did.
func TestActionSummary(t *testing.T) {
	selfInPath(t)
	for name, c := range map[string]struct {
		title, capture string
		begins, has    string
	}{
		"failed":         {"the program failed with exit status 1", "rping.pcap", "# Verdict: the program failed with exit status 1\n", "The packets obey the protocol. What failed is above."},
		"failed work":    {"the program exited with status 0, but 1 work request failed", "rping.pcap", "# Verdict: the program exited", "The packets obey the protocol. What failed is above."},
		"misuse":         {"the program exited with status 0, but the sanitizer found 1 error", "rping.pcap", "# Verdict: the program exited", "What failed is above."},
		"ended well":     {"the program ended well", "rping.pcap", "### RDMA traffic\n\nThe packets obey the protocol.\n", "<details><summary>What the commands did"},
		"a pair":         {"the pair ended well", "rping.pcap", "### RDMA traffic\n\nThe packets obey the protocol.\n", "<details><summary>What the commands did"},
		"violations":     {"the program ended well", "netem_corrupt2.pcap", "### RDMA traffic\n\n**The packets violate the protocol.**\n", "26 violations"},
		"one violation":  {"the program ended well", "one", "### RDMA traffic\n\n**The packets violate the protocol.**\n", ": 1 violation, "},
		"without a file": {"the program failed with exit status 1", "", "# Verdict: the program failed with exit status 1\n", "there is no capture"},
	} {
		t.Run(name, func(t *testing.T) {
			temp := t.TempDir()
			summary, dir := filepath.Join(temp, "summary"), filepath.Join(temp, "gorxe", "verdict")
			if err := os.MkdirAll(dir, 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, "verdict.md"), []byte("# Verdict: "+c.title+"\n"), 0o644); err != nil {
				t.Fatal(err)
			}
			if c.capture != "" {
				packets, err := os.ReadFile("../../testdata/pcaps/" + c.capture)
				if c.capture == "one" {
					packets, err = oneViolation()
				}
				if err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(filepath.Join(dir, "packets.pcapng"), packets, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			cmd := exec.Command("bash", "../../dist/action/report.sh")
			cmd.Env = append(os.Environ(), "RUNNER_TEMP="+temp, "GORXE_SOCKET=", "GITHUB_STEP_SUMMARY="+summary, "GITHUB_OUTPUT="+filepath.Join(temp, "output"))
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			text, err := os.ReadFile(summary)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.HasPrefix(string(text), c.begins) || !strings.Contains(string(text), c.has) {
				t.Errorf("the summary lacks %q or %q:\n%s", c.begins, c.has, text)
			}
		})
	}
}

// oneViolation returns a capture in which one byte of a packet's payload is wrong.
func oneViolation() ([]byte, error) {
	packets, err := os.ReadFile("../../testdata/pcaps/rping.pcap")
	if err != nil {
		return nil, err
	}
	packets[len(packets)-1] ^= 1 // of the ICRC of the last packet
	return packets, nil
}
