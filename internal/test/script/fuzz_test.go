package script

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// commandsOf returns the commands of a script without its output.
func commandsOf(text string) (lines []string) {
	for _, block := range strings.Split(text, "\n\n") {
		for _, line := range strings.Split(block, "\n") {
			if line == "----" {
				break
			}
			if line != "" && line[0] != '#' {
				lines = append(lines, line)
			}
		}
	}
	return lines
}

// FuzzScript plays what a fuzzer writes. Whatever the commands are, the devices obey the
// protocol, and what the model of this package expects comes of it.
func FuzzScript(f *testing.F) {
	files, err := filepath.Glob("testdata/scripts/*")
	if err != nil {
		f.Fatal(err)
	}
	for _, name := range files {
		b, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(strings.Join(append(commandsOf(string(b)), "finish"), "\n"))
	}
	f.Add("connect rc\npost write 10\npost read 10\nfinish")
	// Long waits and large memories take time and find nothing.
	heavy := regexp.MustCompile(`memory|\d{5}|wait.*[hm]\b`)
	f.Fuzz(func(t *testing.T, text string) {
		lines := strings.Split(text, "\n")
		if len(lines) > 40 || heavy.MatchString(text) {
			return
		}
		if o := Play(lines); o.Problem != nil {
			t.Errorf("%v\n%s", o.Problem, o.Output)
		}
	})
}
