package e2e

import (
	"cmp"
	"os"
	"slices"
	"strings"
	"testing"
)

// works is a row of the table "works with" in docs/compatibility.md: what a program
// was seen to do.
type works struct {
	program string // as its users call it
	version string // as it reports it
	started string // what was typed after `gorxe run --`
	result  string // what ended well
}

const (
	worksSection = "works with"
	worksHead    = "| program | version | started as | result |\n|---|---|---|---|\n"
)

func (w works) line() string {
	return "| " + strings.Join([]string{w.program, w.version, w.started, w.result}, " | ") + " |\n"
}

// record compares the program's row with the document, or writes it there (`make
// compat`). A test calls it after its last check. Another version than the
// document's is no fault: the table says which versions were tried.
func (w works) record(t *testing.T) {
	t.Helper()
	if t.Failed() || native != "" {
		return
	}
	rows := documentedWorks(t)
	if !*update {
		known := slices.ContainsFunc(rows, func(o works) bool { return o.program == w.program && o.version == w.version })
		// Another release may have been started in this way, too.
		other := known && !slices.ContainsFunc(rows, func(o works) bool {
			return o.program == w.program && o.version == w.version && o.started == w.started
		}) && slices.ContainsFunc(rows, func(o works) bool { return o.program == w.program && o.started == w.started })
		switch {
		case slices.Contains(rows, w):
		case known && !other:
			t.Errorf("docs/compatibility.md, %s, is not what this run found: run `make compat`. It found:\n%s", worksSection, w.line())
		default:
			t.Logf("docs/compatibility.md has no row of %s %s", w.program, w.version)
		}
		return
	}
	rows = slices.DeleteFunc(rows, func(o works) bool {
		return o.program == w.program && o.version == w.version && o.started == w.started
	})
	rows = append(rows, w)
	slices.SortStableFunc(rows, func(a, b works) int {
		return cmp.Or(strings.Compare(a.program, b.program), strings.Compare(a.version, b.version), strings.Compare(a.started, b.started))
	})
	table := worksHead
	for _, r := range rows {
		table += r.line()
	}
	compatibility(t, worksSection, table)
}

// documentedWorks reads the table in the document.
func documentedWorks(t *testing.T) (rows []works) {
	t.Helper()
	text, err := os.ReadFile(compatibilityFile)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "<!-- begin "+worksSection+": make compat -->\n")
	table, _, ok := strings.Cut(rest, "<!-- end "+worksSection+" -->\n")
	if !ok {
		t.Fatalf("%s has no section %q", compatibilityFile, worksSection)
	}
	for line := range strings.Lines(strings.TrimPrefix(table, worksHead)) {
		cells := strings.Split(strings.Trim(line, "| \n"), " | ")
		if len(cells) != 4 {
			t.Fatalf("%s: not a row of four cells: %s", compatibilityFile, line)
		}
		rows = append(rows, works{cells[0], cells[1], cells[2], cells[3]})
	}
	return rows
}
