package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func loadRules(t *testing.T) *ruleSet {
	t.Helper()
	text, err := os.ReadFile("rules.txt")
	if err != nil {
		t.Fatal(err)
	}
	set, err := parseRules(string(text))
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// TestRules runs each rule on the two sentences that it comes with.
func TestRules(t *testing.T) {
	set := loadRules(t)
	if len(set.rules) < 15 {
		t.Fatalf("only %d rules were read", len(set.rules))
	}
	for _, r := range set.rules {
		k := paragraph
		if r.names {
			k = identifier
		}
		try := func(text string) []string {
			var c collector
			c.single(k, text, place{1, 1})
			var broken []string
			for _, f := range set.apply(c.blocks) {
				broken = append(broken, f.rule)
			}
			return broken
		}
		if broken := try(r.bad); !slices.Equal(broken, []string{r.name}) {
			t.Errorf("%q breaks %v, not %s alone", r.bad, broken, r.name)
		}
		if broken := try(r.good); len(broken) != 0 {
			t.Errorf("%q breaks %v", r.good, broken)
		}
	}
}

// TestLength has the longest sentence that is allowed, and one that is a word longer.
func TestLength(t *testing.T) {
	set := loadRules(t)
	count := func(n int) int {
		var c collector
		c.single(paragraph, "It "+strings.Repeat("may ", n-2)+"end.", place{1, 1})
		return len(set.apply(c.blocks))
	}
	if n := count(set.sentence); n != 0 {
		t.Errorf("%d faults in a sentence of %d words", n, set.sentence)
	}
	if n := count(set.sentence + 1); n != 1 {
		t.Errorf("%d faults in a sentence of %d words", n, set.sentence+1)
	}
}

// TestGrade has two texts of the same facts.
func TestGrade(t *testing.T) {
	set := &ruleSet{grade: 10, gradeFrom: 10}
	apply := func(text string) int {
		blocks, err := markdown(text)
		if err != nil {
			t.Fatal(err)
		}
		return len(set.apply(blocks))
	}
	if n := apply("The port sends a packet. The peer gets it. Then the peer sends an answer."); n != 0 {
		t.Error("short sentences of short words are a fault")
	}
	if n := apply("Retransmission necessitates reestablishing synchronization between communicating participants notwithstanding intermediate unacknowledged transmissions."); n != 1 {
		t.Error("a long sentence of long words is not a fault")
	}
}

func TestLetters(t *testing.T) {
	for w, want := range map[string]int{
		"packet": 6, "QPs": 3, "ibv_alloc_dm": codeLetters, "AllocDM": codeLetters, "rxe/qp.go": codeLetters, "Größe": 5,
	} {
		if got := letters(w); got != want {
			t.Errorf("letters(%q) = %d, want %d", w, got, want)
		}
	}
}

func TestParseRulesRefuses(t *testing.T) {
	for _, text := range []string{
		"match x",
		"rule a",
		"rule a\nmatch (",
		"rule a\nbold yes",
		"sentence many",
		"rule a\nmatch x\nsay y\nbad x",
	} {
		if _, err := parseRules(text); err == nil {
			t.Errorf("no error for %q", text)
		}
	}
}

func TestSentences(t *testing.T) {
	tests := []struct {
		text string
		want []string
	}{
		{"One. Two? Three!", []string{"One.", "Two?", "Three!"}},
		{"Version 1.2 has files, e.g. a.go and b.go. It works.", []string{"Version 1.2 has files, e.g. a.go and b.go.", "It works."}},
		{"(It ends.) Then it begins", []string{"(It ends.)", "Then it begins"}},
		{"It waits ... and goes on.", []string{"It waits ... and goes on."}},
	}
	for _, tt := range tests {
		var got []string
		for _, s := range sentences(tt.text) {
			got = append(got, tt.text[s.from:s.to])
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("sentences(%q) = %q, want %q", tt.text, got, tt.want)
		}
	}
}

func TestNameWords(t *testing.T) {
	for name, want := range map[string]string{
		"bellLog": "bell log", "QPState": "qp state", "parseHTTP2": "parse http", "max_bells": "max bells", "x": "x",
	} {
		if got := strings.Join(nameWords(name), " "); got != want {
			t.Errorf("nameWords(%q) = %q, want %q", name, got, want)
		}
	}
}

// faultsOf applies a rule that finds the word BAD, and returns the places.
func faultsOf(t *testing.T, read func(string) ([]block, error), text string) []place {
	t.Helper()
	set, err := parseRules("sentence 12\nrule bad\nmatch BAD\nsay no\nbad BAD\ngood x\nname-rule worse\nmatch \\bworse\\b\nsay no\nbad worse\ngood x\n")
	if err != nil {
		t.Fatal(err)
	}
	blocks, err := read(text)
	if err != nil {
		t.Fatal(err)
	}
	var at []place
	for _, f := range set.apply(blocks) {
		at = append(at, f.at)
	}
	return at
}

func TestMarkdown(t *testing.T) {
	text := "# A BAD title\n" +
		"\n" +
		"A paragraph with\n" +
		"a BAD word, and `BAD` code.\n" +
		"\n" +
		"    BAD indented code\n" +
		"\n" +
		"```\n" +
		"BAD fenced code\n" +
		"```\n" +
		"\n" +
		"- an item that is BAD\n" +
		"  and goes on BAD. [A link](BAD.md) is good.\n" +
		"\n" +
		"| cell | BAD cell |\n" +
		"|---|---|\n" +
		"<!-- a BAD\n" +
		"comment -->\n" +
		"One two three four five six seven eight nine ten eleven twelve thirteen.\n"
	want := []place{{1, 5}, {4, 3}, {12, 19}, {15, 10}, {19, 1}}
	if got := faultsOf(t, markdown, text); !slices.Equal(got, want) {
		t.Errorf("faults at %v, want %v", got, want)
	}
}

func TestGoFile(t *testing.T) {
	text := "// Package p is BAD.\n" +
		"package p\n" +
		"\n" +
		"//go:generate BAD\n" +
		"\n" +
		"import \"BAD/import of a thing\"\n" +
		"\n" +
		"// f is good.\n" +
		"//\n" +
		"//\tBAD code\n" +
		"//\n" +
		"//   - an item that is BAD\n" +
		"func f(worse int) error { // a BAD trailer\n" +
		"\treturn errors.New(\"this is a BAD message\")\n" +
		"}\n" +
		"\n" +
		"type t struct {\n" +
		"\tGood int `help:\"A BAD help.\"`\n" +
		"\tworseOff int\n" +
		"}\n" +
		"\n" +
		"/* A block\n" +
		"   that is BAD */\n" +
		"var _ = \"BAD\"\n"
	want := []place{{1, 17}, {12, 24}, {13, 8}, {13, 32}, {14, 20}, {18, 11}, {19, 2}, {23, 12}}
	got := faultsOf(t, goFile, text)
	slices.SortFunc(got, func(a, b place) int { return (a.line-b.line)*1000 + a.col - b.col })
	if !slices.Equal(got, want) {
		t.Errorf("faults at %v, want %v", got, want)
	}
	if _, err := goFile("package"); err == nil {
		t.Error("a file that is not Go has no error")
	}
}

func TestHashComments(t *testing.T) {
	text := "#!/bin/sh BAD\n" +
		"# A comment that\n" +
		"# is BAD.\n" +
		"BAD=1\n" +
		"target: ## A BAD target\n" +
		"\techo BAD\n" +
		"\t# BAD too\n"
	want := []place{{3, 6}, {5, 14}, {7, 4}}
	if got := faultsOf(t, hashComments, text); !slices.Equal(got, want) {
		t.Errorf("faults at %v, want %v", got, want)
	}
}

func TestUnchecked(t *testing.T) {
	u := parseUnchecked("# comment\ninternal/\n!internal/pcap/ # done\ninternal/pcap/x.go\n")
	for path, want := range map[string]bool{
		"internal/a.go": true, "internal/pcap/a.go": false, "internal/pcap/x.go": true, "rxe/a.go": false,
	} {
		if got := u.has(path); got != want {
			t.Errorf("%s: unchecked is %v, want %v", path, got, want)
		}
	}
}

// TestRun runs the whole command in a repository of its own.
func TestRun(t *testing.T) {
	t.Chdir(t.TempDir())
	write := func(name, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(name), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := exec.Command("git", "init", "-q").CombinedOutput(); err != nil {
		t.Fatalf("git init: %v\n%s", err, out)
	}
	command := func(args ...string) (int, string, string) {
		var out, errs bytes.Buffer
		code := run(args, &out, &errs)
		return code, out.String(), errs.String()
	}
	if code, _, errs := command(); code != exitUsage || !strings.Contains(errs, "root of the checkout") {
		t.Errorf("without rules: exit code %d, %q", code, errs)
	}
	write(rulesFile, "rule bad\nmatch BAD\nsay write GOOD\nbad BAD\ngood GOOD\ngrade-from 3\n")
	write("a.md", "This is GOOD.\n")
	if code, out, errs := command(); code != exitClean || out+errs != "" {
		t.Errorf("a clean checkout: exit code %d, %q, %q", code, out, errs)
	}
	write("dir/b.md", "This is\nvery BAD.\n")
	const line = "dir/b.md:2:6: \"BAD\": write GOOD (bad)\n"
	if code, out, _ := command(); code != exitFaults || out != line {
		t.Errorf("one fault: exit code %d, %q, want %q", code, out, line)
	}
	if code, out, _ := command("-count"); code != exitFaults || out != "    1  dir/b.md\n" {
		t.Errorf("-count: exit code %d, %q", code, out)
	}
	if code, out, _ := command("-grade"); code != exitClean || !strings.Contains(out, "a.md") {
		t.Errorf("-grade: exit code %d, %q", code, out)
	}
	if code, _, _ := command("a.md"); code != exitClean {
		t.Errorf("a file without a fault: exit code %d", code)
	}
	write(uncheckedFile, "dir/\n")
	if code, out, _ := command(); code != exitClean {
		t.Errorf("an unchecked fault: exit code %d, %q", code, out)
	}
	if code, _, _ := command("-all"); code != exitFaults {
		t.Errorf("-all: exit code %d", code)
	}
	if code, _, _ := command("dir"); code != exitFaults {
		t.Errorf("a file that is named is checked in any case: exit code %d", code)
	}
	if code, _, _ := command("-sideways"); code != exitUsage {
		t.Errorf("an unknown flag: exit code %d", code)
	}
}
