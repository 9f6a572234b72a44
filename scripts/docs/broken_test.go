package docs

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestBrokenBuilds: each mistake of scripts/broken-builds.sh changes one line of its file. The
// script takes minutes and runs rarely, and code moves meanwhile.
func TestBrokenBuilds(t *testing.T) {
	script, err := os.ReadFile("../broken-builds.sh")
	if err != nil {
		t.Fatal(err)
	}
	mistakes := regexp.MustCompile(`(?m)^broken "(.*)" (\S+) '(.*)'$`).FindAllStringSubmatch(string(script), -1)
	if len(mistakes) != 3 {
		t.Fatalf("the script makes %d mistakes, want 3", len(mistakes))
	}
	for _, m := range mistakes {
		path := filepath.Join("../..", m[2])
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		broken, err := exec.Command("sed", m[3], path).Output()
		if err != nil {
			t.Fatalf("%s: %v", m[1], err)
		}
		before, after := strings.Split(string(text), "\n"), strings.Split(string(broken), "\n")
		if len(before) != len(after) {
			t.Fatalf("%s: %d lines of %s became %d", m[1], len(before), m[2], len(after))
		}
		changed := 0
		for i := range before {
			if before[i] != after[i] {
				changed++
			}
		}
		if changed != 1 {
			t.Errorf("%s: %d lines of %s are changed by %s, want 1", m[1], changed, m[2], m[3])
		}
	}
}
