package sim

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/gorxe/gorxe/internal/test/script"
)

// TestShrink builds tests with one mistake in the engine. They must find it, and reduce what they
// found to a script of a few commands. That script plays without a problem here, where the
// mistake is not.
func TestShrink(t *testing.T) {
	const scripts = "../../internal/test/script"
	for _, m := range []struct {
		name, old, new string
		pkg, test      string
		most           int    // commands
		needs          string // a pattern: commands without which the mistake does not show
	}{
		{"a duplicate is executed",
			"case ahead < 0:\n\t\tr.duplicateRequest(", "case ahead < -1:\n\t\tr.duplicateRequest(",
			".", "TestSeeds", 8, "dup|drop|delay|wait"},
		// Runs of TestSeeds may exceed their retries, so few of them show this mistake.
		{"a repeated atomic is not found", "last: resp.psn})", "last: resp.psn.Sub(1)})",
			scripts, "TestRandomScripts", 7, "dup|drop|delay|wait"},
	} {
		t.Run(m.name, func(t *testing.T) {
			out := runBroken(t, m.old, m.new, m.test, m.pkg)
			lines, problem := script.ReadReport(out)
			if problem == "" {
				t.Fatalf("no script that fails:\n%s", out)
			}
			if text := strings.Join(lines, "\n"); len(lines) > m.most || !regexp.MustCompile(m.needs).MatchString(text) {
				t.Errorf("%d commands, want %d at most, with %s", len(lines), m.most, m.needs)
			}
			t.Logf("%s\n%s", strings.Join(lines, "\n"), problem)
			if o := script.Play(lines); o.Problem != nil || o.Invalid != nil {
				t.Errorf("without the mistake: %v, %v\n%s", o.Problem, o.Invalid, o.Output)
			}
		})
	}
}

// runBroken runs a test with an engine in which old is replaced by new, and returns what it
// prints. The change is in an overlay of go build, so the tree does not change.
func runBroken(t *testing.T, old, new, test, pkg string) string {
	files, err := filepath.Glob("../*.go")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	replace := make(map[string]string)
	for _, name := range files {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(name, "_test.go") || strings.Count(string(b), old) != 1 {
			continue
		}
		full, err := filepath.Abs(name)
		if err != nil {
			t.Fatal(err)
		}
		replace[full] = filepath.Join(dir, filepath.Base(name))
		if err := os.WriteFile(replace[full], []byte(strings.Replace(string(b), old, new, 1)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if len(replace) != 1 {
		t.Fatalf("%d files of the engine have %q once, want 1: choose another mistake", len(replace), old)
	}
	overlay := filepath.Join(dir, "overlay.json")
	b, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(overlay, b, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "go", "test", "-count=1", "-v", "-overlay", overlay, "-run", "^"+test+"$", pkg)
	cmd.Env = append(os.Environ(), "GORXE_SEED_FIRST=1", "GORXE_SEEDS=300", "GORXE_SEEDS_WITH=")
	out, err := cmd.CombinedOutput()
	if err == nil {
		t.Fatalf("nothing has failed:\n%s", out)
	}
	return string(out)
}
