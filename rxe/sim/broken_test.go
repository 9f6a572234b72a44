package sim

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gorxe/gorxe/internal/test/script"
)

// TestShrink builds these tests with one mistake in the engine. TestSeeds must find it and
// reduce a run to a script of a few commands. That script plays without a problem here, where
// the mistake is not.
func TestShrink(t *testing.T) {
	for _, m := range []struct {
		name, old, new string
		most           int // commands
		word           string
	}{
		{"a duplicate is executed", "case ahead < 0:\n\t\tr.duplicateRequest(", "case ahead < -1:\n\t\tr.duplicateRequest(",
			8, "dup"},
		{"a repeated atomic gets the answer to a READ", "r.respond(q, e.response)",
			"r.respond(q, response{kind: respondEmpty, psn: e.psn, msn: e.msn})", 10, "post"},
	} {
		t.Run(m.name, func(t *testing.T) {
			out := runBroken(t, m.old, m.new)
			_, text, found := strings.Cut(out, scriptBegins)
			text, what, ends := strings.Cut(text, scriptEnds)
			if !found || !ends || !strings.Contains(what, "PROBLEM ") {
				t.Fatalf("no script:\n%s", out)
			}
			var lines []string
			for _, line := range strings.Split(strings.TrimSpace(text), "\n") {
				lines = append(lines, strings.TrimSpace(line))
			}
			t.Logf("%s", strings.Join(lines, "\n"))
			if len(lines) > m.most || !strings.Contains(text, m.word) {
				t.Errorf("%d commands, want %d at most, with %s:\n%s", len(lines), m.most, m.word, text)
			}
			if o := script.Play(lines); o.Problem != nil || o.Invalid != nil {
				t.Errorf("without the mistake: %v, %v\n%s", o.Problem, o.Invalid, o.Output)
			}
		})
	}
}

// runBroken runs TestSeeds with an engine in which old is replaced by new, and returns what it
// prints. The change is in an overlay of go build, so the tree does not change.
func runBroken(t *testing.T, old, new string) string {
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
	cmd := exec.CommandContext(t.Context(), "go", "test", "-count=1", "-v", "-overlay", overlay, "-run", "^TestSeeds$", ".")
	cmd.Env = append(os.Environ(), "GORXE_SEED_FIRST=1", "GORXE_SEEDS=300", "GORXE_SEEDS_WITH=")
	out, err := cmd.CombinedOutput()
	if err == nil {
		t.Fatalf("nothing has failed:\n%s", out)
	}
	return string(out)
}
