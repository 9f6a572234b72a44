package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/gorxe/gorxe/cmd/internal/manual"
	"github.com/gorxe/gorxe/internal/fault/rulefile"
)

var (
	faultInEnv   = regexp.MustCompile(`GORXE_FAULTS='([^']*)'`)
	faultInQuote = regexp.MustCompile("'((?:packet|verb|completion|peer|port|device|limits) [^']*)'")
	faultInTable = regexp.MustCompile("^\\| `((?:packet|verb|completion|peer|port|device|limits) [a-z_]+,?[^`]*)` \\|")
	rulesInYAML  = regexp.MustCompile("(?s)```yaml\n(.*?)```")
)

// documentedRules returns the rules that a document gives together: those of a command line, of a
// row, or of a file.
func documentedRules(t *testing.T, text string) (lists [][]string) {
	t.Helper()
	for line := range strings.Lines(text) {
		var list []string
		for _, m := range faultInEnv.FindAllStringSubmatch(line, -1) {
			for rule := range strings.SplitSeq(m[1], ";") {
				list = append(list, strings.TrimSpace(rule))
			}
		}
		for _, m := range faultInQuote.FindAllStringSubmatch(faultInEnv.ReplaceAllString(line, ""), -1) {
			list = append(list, m[1])
		}
		for _, m := range faultInTable.FindAllStringSubmatch(line, -1) {
			list = append(list, strings.ReplaceAll(m[1], `\|`, "|"))
		}
		if len(list) > 0 {
			lists = append(lists, list)
		}
	}
	for _, m := range rulesInYAML.FindAllStringSubmatch(text, -1) {
		if !strings.Contains(m[1], "where: ") {
			continue
		}
		rules, err := rulefile.Parse([]byte(m[1]))
		if err != nil {
			t.Errorf("%v\n%s", err, m[1])
		}
		var list []string
		for i := range rules {
			list = append(list, rules[i].String())
		}
		lists = append(lists, list)
	}
	return lists
}

// outcomes has what programs say of rules.
const outcomes = "internal/test/e2e/testdata/fault-outcomes.md"

// TestDocumentedFaults: the rules of each example can all fire, also beside each other.
func TestDocumentedFaults(t *testing.T) {
	texts := make(map[string]string)
	for _, topic := range manual.Topics() {
		var b strings.Builder
		if err := topic.Write(&b); err != nil {
			t.Fatal(err)
		}
		texts["gorxe help "+topic.Name] = b.String()
	}
	for _, pattern := range []string{"*.md", "docs/*.md", "dist/*/*.md", outcomes} {
		files, err := filepath.Glob("../../" + pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %d files, %v", pattern, len(files), err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			texts[strings.TrimPrefix(file, "../../")] = string(text)
		}
	}
	found := make(map[string]int)
	for name, text := range texts {
		for _, list := range documentedRules(t, text) {
			found[name]++
			if err := checkRules(list); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	for name, least := range map[string]int{"docs/faults.md": 25, outcomes: 75, "README.md": 1, "gorxe help faults": 7} {
		if found[name] < least {
			t.Errorf("%s has %d examples, want %d at least", name, found[name], least)
		}
	}
}
