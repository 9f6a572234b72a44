package script

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
)

// TestScripts plays the scripts of testdata and compares what happens with what they say. With
// -rewrite it writes what happens into them.
func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata/scripts", func(t *testing.T, path string) {
		s := &Script{}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			return s.Do(d)
		})
		if len(s.problems) > 0 {
			t.Errorf("%v", s.problems[0])
		}
	})
}

// TestScriptsSayWhatHappens: each script begins with words and the clause of the specification.
func TestScriptsSayWhatHappens(t *testing.T) {
	files, err := filepath.Glob("testdata/scripts/*")
	if err != nil || len(files) < 30 {
		t.Fatalf("%d scripts, %v", len(files), err)
	}
	clause := regexp.MustCompile(`\(IBA (A?\d+[.\d]*|C\d+-\d+)[^)]*\)`)
	for _, name := range files {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		comment, _, _ := strings.Cut(string(b), "\n\n")
		joined := strings.ReplaceAll(comment, "\n# ", " ")
		if !strings.HasPrefix(comment, "# ") || !clause.MatchString(joined) {
			t.Errorf("%s: the comment at the top names no clause: %s", name, comment)
		}
	}
}

func parse(t *testing.T, line string) []datadriven.CmdArg {
	t.Helper()
	_, list, err := datadriven.ParseLine(line)
	if err != nil {
		t.Fatal(err)
	}
	return list
}
