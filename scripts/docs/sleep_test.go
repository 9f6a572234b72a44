package docs

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// waits is a command that waits for some time. In a loop it waits for a condition.
var waits = regexp.MustCompile(`(?:^|[^\w-])sleep [0-9]`)

// TestExamplesDoNotSleep: no example waits for some time and hopes that a server is ready then.
// gorxe pair waits for a server.
func TestExamplesDoNotSleep(t *testing.T) {
	const root = "../.."
	read := 0
	for _, place := range []string{"README.md", "docs", "examples", "dist", "cmd/gorxe"} {
		err := filepath.WalkDir(filepath.Join(root, place), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || strings.HasSuffix(path, "_test.go") {
				return err
			}
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			read++
			before := ""
			for line := range strings.Lines(string(text)) {
				if waits.MatchString(line) && !strings.Contains(line, "do sleep") && !inLoop(before) {
					t.Errorf("%s sleeps: %s", path, strings.TrimSpace(line))
				}
				before = line
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if read < 50 {
		t.Errorf("only %d files were read", read)
	}
}

// inLoop reports whether the line before a sleep ends a test that a loop repeats.
func inLoop(before string) bool {
	before = strings.TrimSpace(before)
	return before == "fi" || strings.HasSuffix(before, "do")
}
