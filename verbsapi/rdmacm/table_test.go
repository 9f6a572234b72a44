package rdmacm

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
	tableFile = "../../docs/verbs.md"
	header    = "/usr/include/rdma/rdma_cma.h"
)

// declared has the bodies of this package's functions, "Dial", and methods, "ID.Bind".
func declared(t *testing.T) map[string]string {
	t.Helper()
	names := make(map[string]string)
	files, err := filepath.Glob("*.go")
	ok(t, err)
	for _, f := range files {
		text, err := os.ReadFile(f)
		ok(t, err)
		parsed, err := parser.ParseFile(token.NewFileSet(), f, text, parser.SkipObjectResolution)
		ok(t, err)
		for _, d := range parsed.Decls {
			fn, isFunc := d.(*ast.FuncDecl)
			if !isFunc {
				continue
			}
			name := fn.Name.Name
			if fn.Recv != nil {
				kind := fn.Recv.List[0].Type
				if star, isStar := kind.(*ast.StarExpr); isStar {
					kind = star.X
				}
				name = kind.(*ast.Ident).Name + "." + name
			}
			names[name] = string(text[fn.Pos()-parsed.FileStart : fn.End()-parsed.FileStart])
		}
	}
	return names
}

// TestCMTable: docs/verbs.md has every call of librdmacm once, with Go calls that exist,
// and a test that makes the first of them, itself or through the helpers of the tests.
func TestCMTable(t *testing.T) {
	page, err := os.ReadFile(tableFile)
	ok(t, err)
	_, table, found := strings.Cut(string(page), "\n## Calls of librdmacm\n")
	if !found {
		t.Fatal("no table")
	}
	decls := declared(t)
	goCall := regexp.MustCompile("`([\\w.]+)`")
	rows := make(map[string]bool)
	for _, m := range regexp.MustCompile("(?m)^\\| `(rdma_\\w+)` \\| (.*?) \\| (?:`(\\w+)` )?\\|$").FindAllStringSubmatch(table, -1) {
		if rows[m[1]] {
			t.Errorf("%s is listed twice", m[1])
		}
		rows[m[1]] = true
		if strings.HasPrefix(m[2], "- ") {
			continue
		}
		calls := goCall.FindAllStringSubmatch(m[2], -1)
		for _, c := range calls {
			if decls[c[1]] == "" {
				t.Errorf("%s: there is no %s", m[1], c[1])
			}
		}
		name := calls[0][1][strings.LastIndex(calls[0][1], ".")+1:]
		if !reaches(decls, m[3], name, 3) {
			t.Errorf("%s: %q does not call %s", m[1], m[3], name)
		}
	}
	if lines := strings.Count(table, "\n| `"); lines != len(rows) {
		t.Errorf("%d lines, %d of them well formed", lines, len(rows))
	}

	text, err := os.ReadFile(header)
	if err != nil {
		testenv.Missing(t, "NOT COMPARED with librdmacm: install the Debian package librdmacm-dev")
	}
	var calls []string
	for _, m := range regexp.MustCompile(`(?m)^[a-z_][\w\s*]*?\*?\b(rdma_\w+)\(`).FindAllStringSubmatch(string(text), -1) {
		calls = append(calls, m[1])
	}
	if len(calls) < 30 {
		t.Fatalf("only %d calls in %s", len(calls), header)
	}
	for _, c := range calls {
		if !rows[c] {
			t.Errorf("%s is not in %s", c, tableFile)
		}
	}
	for c := range rows {
		if !slices.Contains(calls, c) {
			t.Errorf("%s is not in %s", c, header)
		}
	}
}

// reaches reports whether a function calls another one, perhaps through functions of the
// tests.
func reaches(decls map[string]string, from, to string, depth int) bool {
	body := decls[from]
	for _, m := range regexp.MustCompile(`\b(\w+)\(`).FindAllStringSubmatch(body, -1) {
		if m[1] == to {
			return true
		}
		if depth > 0 && m[1] != from {
			for _, name := range []string{m[1], "program." + m[1], "host." + m[1]} {
				if decls[name] != "" && reaches(decls, name, to, depth-1) {
					return true
				}
			}
		}
	}
	return false
}
