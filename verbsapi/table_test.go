package verbsapi

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
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
	text := must(os.ReadFile(tableFile))(t)
	var rows []row
	for _, m := range tableRow.FindAllStringSubmatch(string(text), -1) {
		rows = append(rows, row{c: m[1], goCall: m[2], test: m[3]})
	}
	if lines := strings.Count(string(text), "\n| `"); lines != len(rows) {
		t.Errorf("%s: %d lines of the table, %d of them well formed", tableFile, lines, len(rows))
	}
	return rows
}

func readCalls(t *testing.T) []string {
	t.Helper()
	return strings.Fields(string(must(os.ReadFile(callsFile))(t)))
}

// TestVerbsTable: every call of libibverbs is in docs/verbs.md once, with a Go
// call and a test that exist; and the calls that return ErrNotSupported are
// marked so.
func TestVerbsTable(t *testing.T) {
	decls := declared(t)
	seen := make(map[string]bool)
	for _, r := range readTable(t) {
		if seen[r.c] {
			t.Errorf("%s is listed twice", r.c)
		}
		seen[r.c] = true
		if !decls[r.goCall] {
			t.Errorf("%s: there is no %s", r.c, r.goCall)
		}
		if !strings.HasPrefix(r.test, "Test") || !decls[r.test] {
			t.Errorf("%s: there is no %s", r.c, r.test)
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

// TestVerbsHeader: the list of calls is what the installed verbs.h has. Where
// there is none, the list that is checked in stands.
func TestVerbsHeader(t *testing.T) {
	text, err := os.ReadFile(header)
	if err != nil {
		t.Logf("not compared: %v", err)
		return
	}
	calls := readCalls(t)
	for _, c := range headerCalls(string(text)) {
		if !slices.Contains(calls, c) {
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
	var calls []string
	for _, m := range cDeclaration.FindAllStringSubmatch(cComment.ReplaceAllString(text, ""), -1) {
		if c := m[1]; c != "ibv_static_providers" && !slices.Contains(calls, c) {
			calls = append(calls, c)
		}
	}
	slices.Sort(calls)
	return calls
}

// declared are this package's functions, "Open", and methods, "CQ.Poll", tests
// included, and the fields of exported structs.
func declared(t *testing.T) map[string]bool {
	t.Helper()
	names := make(map[string]bool)
	files := must(os.ReadDir("."))(t)
	fset := token.NewFileSet()
	for _, f := range files {
		if !strings.HasSuffix(f.Name(), ".go") {
			continue
		}
		for _, d := range must(parser.ParseFile(fset, f.Name(), nil, parser.SkipObjectResolution))(t).Decls {
			if fn, ok := d.(*ast.FuncDecl); ok {
				names[receiver(fn)+fn.Name.Name] = true
			}
		}
	}
	return names
}

func receiver(fn *ast.FuncDecl) string {
	if fn.Recv == nil || len(fn.Recv.List) == 0 {
		return ""
	}
	typ := fn.Recv.List[0].Type
	if p, ok := typ.(*ast.StarExpr); ok {
		typ = p.X
	}
	if id, ok := typ.(*ast.Ident); ok {
		return id.Name + "."
	}
	return ""
}
