package docs

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
)

// TestFirstProgram: the program of docs/verbs.md compiles, and prints what the page says.
func TestFirstProgram(t *testing.T) {
	text, err := os.ReadFile("../../docs/verbs.md")
	if err != nil {
		t.Fatal(err)
	}
	program := regexp.MustCompile("(?s)```go\n(package main\n.*?)```").FindSubmatch(text)
	says := regexp.MustCompile("`go run \\.` prints `([^`]+)`").FindSubmatch(text)
	if program == nil || says == nil {
		t.Fatal("docs/verbs.md has no program, or does not say what it prints")
	}
	file := filepath.Join(t.TempDir(), "main.go")
	if err := os.WriteFile(file, program[1], 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "go", "run", file)
	cmd.Dir = "../.."
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if want := string(says[1]) + "\n"; err != nil || string(out) != want {
		t.Errorf("it prints %q (%v), want %q", out, err, want)
	}
}

// TestReadmeIsShort: the README has at most 1,200 words, names the targets with which a newcomer
// begins, and its first shell block begins with the clone.
func TestReadmeIsShort(t *testing.T) {
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	if n := len(regexp.MustCompile(`\S+`).FindAll(text, -1)); n > 1200 {
		t.Errorf("README.md has %d words", n)
	}
	block := regexp.MustCompile("(?s)```sh\n(.*?)```").FindSubmatch(text)
	if block == nil || !regexp.MustCompile(`(?s)^git clone .*\nmake demo\b.*\nmake install\b`).Match(block[1]) {
		t.Errorf("README.md begins with %q", block)
	}
	contributing, err := os.ReadFile("../../CONTRIBUTING.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, target := range []string{"`make demo`", "`make test`"} {
		if !regexp.MustCompile(regexp.QuoteMeta(target)).Match(contributing) {
			t.Errorf("CONTRIBUTING.md does not name %s", target)
		}
	}
	if !regexp.MustCompile("`make test`").Match(text) {
		t.Error("README.md does not name make test")
	}
}
