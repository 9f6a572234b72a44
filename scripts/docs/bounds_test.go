package docs

import (
	"os"
	"os/exec"
	"path"
	"regexp"
	"strings"
	"testing"
)

// TestArchitectureIsShort: ARCHITECTURE.md can be read in one sitting. The names of packages
// are not counted: each package has a row.
func TestArchitectureIsShort(t *testing.T) {
	const most = 1200
	text := read(t, "ARCHITECTURE.md")
	n := 0
	for w := range strings.FieldsSeq(text) {
		if regexp.MustCompile(`[\p{L}\p{N}]`).MatchString(w) && !packageName.MatchString(w) {
			n++
		}
	}
	if n > most || n < most/3 {
		t.Errorf("ARCHITECTURE.md has %d words, above %d: move what explains a decision to docs/design", n, most)
	}
}

var packageName = regexp.MustCompile("^`internal/[a-z0-9/]+`,?$")

// TestReaderFinds: a reader of ARCHITECTURE.md finds the file for each of these without a
// search of the code.
func TestReaderFinds(t *testing.T) {
	text := read(t, "ARCHITECTURE.md")
	for what, file := range map[string]string{
		"the table of RNR times":                 "wire/aeth.go",
		"the errno of a malformed ioctl":         "internal/kernel/dispatch/ioctl.go",
		"the errno of an engine's error":         "internal/kernel/uverbs/entry.go",
		"what a doorbell does":                   "librxe/sendring.go",
		"where a work request is a packet":       "rxe/requester_packets.go",
		"the test that kills the daemon":         "kill_test.go",
		"the call that a program's thread makes": "receiver.go",
	} {
		if !strings.Contains(text, file) {
			t.Errorf("ARCHITECTURE.md does not name %s, which has %s", file, what)
		}
	}
}

// TestGlossary: it is short, sorted, and defines words that occur.
func TestGlossary(t *testing.T) {
	const glossary, most = "docs/glossary.md", 80
	_, text, found := strings.Cut(read(t, glossary), "| word | means |\n|---|---|\n")
	if !found {
		t.Fatal(glossary, "has no table")
	}
	text, _, _ = strings.Cut(text, "\n\n")
	lines := strings.Split(strings.TrimSpace(text), "\n")
	if len(lines) > most || len(lines) < 5 {
		t.Errorf("the glossary has %d lines, above %d", len(lines), most)
	}
	uses := source()
	for _, doc := range documents(t) {
		if doc != glossary {
			uses += read(t, doc)
		}
	}
	uses = " " + regexp.MustCompile(`\W+`).ReplaceAllString(strings.ToLower(uses), " ")
	last := ""
	for _, line := range lines {
		word := strings.TrimSpace(strings.Split(line, "|")[1])
		if strings.ToLower(word) <= strings.ToLower(last) {
			t.Errorf("the glossary has %q behind %q", word, last)
		}
		last = word
		said := strings.NewReplacer("-", " ").Replace(strings.ToLower(word))
		if !strings.Contains(uses, " "+said) && !strings.Contains(uses, " "+strings.ReplaceAll(said, " ", "")) {
			t.Errorf("the glossary defines %q, which no code uses", word)
		}
	}
}

// TestDesignRecords: each record has a status and the three parts, and at most 250 words. Numbers
// are not used twice, and the index has a line for each record. With -update it writes these lines.
func TestDesignRecords(t *testing.T) {
	const most = 250
	seen := make(map[string]string)
	var lines strings.Builder
	for _, name := range documents(t) {
		rest, ok := strings.CutPrefix(name, "docs/design/")
		if !ok || rest == "README.md" {
			continue
		}
		number, _, _ := strings.Cut(rest, "-")
		if other := seen[number]; other != "" {
			t.Errorf("%s and %s have one number", name, other)
		}
		seen[number] = name
		text := read(t, name)
		title, _, _ := strings.Cut(text, "\n")
		if !strings.HasPrefix(title, "# "+number+": ") {
			t.Errorf("%s does not begin with its number", name)
		}
		for _, part := range []string{"**Context.**", "**Decision.**", "**Cost.**"} {
			if strings.Count(text, part) != 1 {
				t.Errorf("%s has no part %s, or two", name, part)
			}
		}
		if n := len(strings.Fields(text)); n > most {
			t.Errorf("%s has %d words, above %d", name, n, most)
		}
		line := strings.TrimPrefix(title, "# ")
		switch m := status.FindStringSubmatch(text); {
		case m == nil:
			t.Errorf("%s has no line `Status: accepted.` or `Status: superseded by [NNNN](...)`", name)
			continue
		case m[1] != "":
			line += " (superseded by " + m[1] + ")"
		}
		lines.WriteString("- [" + line + "](" + rest + ")\n")
	}
	if len(seen) < 15 {
		t.Errorf("only %d design records were found", len(seen))
	}
	const index = "docs/design/README.md"
	text := read(t, index)
	head, _, _ := strings.Cut(text, "\n- [")
	want := head + "\n" + lines.String()
	if *update {
		if err := os.WriteFile(path.Join(root, index), []byte(want), 0o666); err != nil {
			t.Fatal(err)
		}
	} else if text != want {
		t.Errorf("%s has other lines than the records: run this test with -update", index)
	}
}

// status is the second paragraph of a record.
var status = regexp.MustCompile(`^.*\n\nStatus: (?:accepted|superseded by \[(\d{4})\]\(\S+\))\.`)

// TestWords: the documents are short enough to be read.
func TestWords(t *testing.T) {
	const all = 45000
	total := 0
	for _, name := range documents(t) {
		total += len(strings.Fields(read(t, name)))
	}
	if total > all {
		t.Errorf("the documents have %d words, above %d", total, all)
	}
	for name, most := range map[string]int{
		"docs/performance.md": 600,
	} {
		if n := len(strings.Fields(read(t, name))); n > most {
			t.Errorf("%s has %d words, above %d", name, n, most)
		}
	}
}

// TestColumns: lines of documents have at most 100 columns, except tables, links and code.
func TestColumns(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), "go", "run", "./scripts/prose", "-wrap", "*.md")
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v; go run ./scripts/prose -wrap -write '*.md' breaks them\n%s", err, out)
	}
}

// TestTables: docs/performance.md has one table for each machine: of two processors, and of
// sixteen.
func TestTables(t *testing.T) {
	if n := strings.Count(read(t, "docs/performance.md"), "\n|---"); n != 2 {
		t.Errorf("docs/performance.md has %d tables: others go to docs/notes", n)
	}
}

// TestBoundsAreTested: each row of the table in docs/security.md says what bounds an actor, and
// names a test. TestTests finds these.
func TestBoundsAreTested(t *testing.T) {
	_, table, found := strings.Cut(read(t, "docs/security.md"), "| actor | may take, or try | what bounds it | test |\n|---|---|---|---|\n")
	if !found {
		t.Fatal("docs/security.md has no table of bounds")
	}
	table, _, _ = strings.Cut(table, "\n\n")
	rows := strings.Split(table, "\n")
	if len(rows) < 15 {
		t.Errorf("the table has %d rows", len(rows))
	}
	for _, row := range rows {
		cells := strings.Split(strings.Trim(row, "| "), " | ")
		if n := len(cells); n < 3 || !regexp.MustCompile("^(`(Test|Fuzz)[A-Za-z0-9]+`(, )?)+$").MatchString(cells[n-1]) {
			t.Errorf("no test holds %s", row)
		}
	}
}
