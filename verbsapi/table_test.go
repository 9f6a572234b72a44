package verbsapi

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gorxe/gorxe/internal/test/calls"
	"github.com/gorxe/gorxe/internal/test/testenv"
)

const (
	tableFile = "../docs/verbs.md"
	callsFile = "testdata/verbs.txt"
	header    = "/usr/include/infiniband/verbs.h"
)

// row is a line of the table: | C call | Go call | test |.
type row struct{ c, goCall, test string }

var tableRow = regexp.MustCompile("(?m)^\\| `(\\w+)` \\| `([\\w.]+)`[^|]*\\| `(\\w+)` \\|$")

func readTable(t *testing.T) []row {
	t.Helper()
	page := must(os.ReadFile(tableFile))(t)
	// package rdmacm tests these
	text, _, _ := strings.Cut(string(page), "\n## Calls of librdmacm\n")
	var rows []row
	for _, m := range tableRow.FindAllStringSubmatch(text, -1) {
		rows = append(rows, row{c: m[1], goCall: m[2], test: m[3]})
	}
	if lines := strings.Count(text, "\n| `"); lines != len(rows) {
		t.Errorf("%s: %d lines of the table, %d of them well formed", tableFile, lines, len(rows))
	}
	return rows
}

func readCalls(t *testing.T) []string {
	t.Helper()
	return strings.Fields(string(must(os.ReadFile(callsFile))(t)))
}

// TestVerbsTable: every call of libibverbs is in docs/verbs.md once, with a Go
// call that exists and a test that makes it. (TestNotSupported calls what is listed.)
func TestVerbsTable(t *testing.T) {
	code := calls.Parse(t)
	seen := make(map[string]bool)
	for _, r := range readTable(t) {
		if seen[r.c] {
			t.Errorf("%s is listed twice", r.c)
		}
		seen[r.c] = true
		if !code.Has(r.goCall) {
			t.Errorf("%s: there is no %s", r.c, r.goCall)
		}
		if !strings.HasPrefix(r.test, "Test") || !code.Has(r.test) {
			t.Errorf("%s: there is no %s", r.c, r.test)
		} else if r.test != "TestNotSupported" && !code.Reaches(r.test, r.goCall) {
			t.Errorf("%s: %s does not call %s", r.c, r.test, r.goCall)
		}
	}
	for _, c := range readCalls(t) {
		if !seen[c] {
			t.Errorf("%s is not in %s", c, tableFile)
		}
		delete(seen, c)
	}
	for c := range seen {
		t.Errorf("%s is in %s and not in libibverbs", c, tableFile)
	}
}

// TestVerbsHeader: the list of calls is what the installed verbs.h has.
func TestVerbsHeader(t *testing.T) {
	text, err := os.ReadFile(header)
	if err != nil {
		testenv.Missing(t, "NOT COMPARED with libibverbs: install the Debian package libibverbs-dev")
	}
	known := readCalls(t)
	for _, c := range headerCalls(string(text)) {
		if !slices.Contains(known, c) {
			t.Errorf("%s of %s is not in %s", c, header, callsFile)
		}
	}
}

var (
	cComment     = regexp.MustCompile(`(?s)/\*.*?\*/|(?m)^\s*#\s*define.*$`)
	cDeclaration = regexp.MustCompile(`(?m)^[a-z_][\w\s*]*?\*?\b(ibv_\w+|(?:mult|mbps)_to_ibv_rate)\(`)
)

// headerCalls lists the functions that a header declares or defines inline.
// Function-like macros only wrap these; ibv_static_providers is not for callers.
func headerCalls(text string) []string {
	var found []string
	for _, m := range cDeclaration.FindAllStringSubmatch(cComment.ReplaceAllString(text, ""), -1) {
		if c := m[1]; c != "ibv_static_providers" && !slices.Contains(found, c) {
			found = append(found, c)
		}
	}
	slices.Sort(found)
	return found
}
