package verbsapi

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

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
	text, _, _ := strings.Cut(string(page), "\n## Calls of librdmacm\n") // package rdmacm tests these
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
	decls, tests := declared(t), mentioned(t)
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
		} else if name := r.goCall[strings.LastIndex(r.goCall, ".")+1:]; r.test != "TestNotSupported" && !tests.reaches(r.test, name) {
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

// mentions are the names that each function of the tests uses.
type mentions map[string][]string

func mentioned(t *testing.T) mentions {
	t.Helper()
	m := mentions{}
	fset := token.NewFileSet()
	for _, f := range must(filepath.Glob("*_test.go"))(t) {
		for _, d := range must(parser.ParseFile(fset, f, nil, parser.SkipObjectResolution))(t).Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			ast.Inspect(fn.Body, func(n ast.Node) bool {
				if id, ok := n.(*ast.Ident); ok {
					m[fn.Name.Name] = append(m[fn.Name.Name], id.Name)
				}
				return true
			})
		}
	}
	return m
}

// reaches reports whether a test uses a name, or one of its helpers does.
func (m mentions) reaches(test, name string) bool {
	todo, seen := []string{test}, map[string]bool{}
	for len(todo) > 0 {
		fn := todo[0]
		todo = todo[1:]
		if seen[fn] {
			continue
		}
		seen[fn] = true
		if slices.Contains(m[fn], name) {
			return true
		}
		for _, called := range m[fn] {
			if _, helper := m[called]; helper && !strings.HasPrefix(called, "Test") {
				todo = append(todo, called)
			}
		}
	}
	return false
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
