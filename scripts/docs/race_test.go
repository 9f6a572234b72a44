package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"regexp"
	"strings"
	"testing"
)

// TestSequential: what `make race` leaves out has nothing for the race detector to see. Neither
// the packages with their tests, nor what they import of this module, start a goroutine.
func TestSequential(t *testing.T) {
	m := regexp.MustCompile(`(?m)^SEQUENTIAL := (\S+)$`).FindStringSubmatch(read(t, "Makefile"))
	if m == nil {
		t.Fatal("the Makefile has no SEQUENTIAL")
	}
	seen := make(map[string]bool)
	for _, dir := range strings.Split(m[1], "|") {
		if !exists(dir) {
			t.Errorf("the Makefile's SEQUENTIAL names %s, which does not exist", dir)
		}
		checkSequential(t, seen, dir, true)
	}
}

// TestDemoSetup: what `make demo` lacks is said before the build, which takes minutes.
func TestDemoSetup(t *testing.T) {
	m := regexp.MustCompile(`(?m)^demo: (.*?) ##.*\n((?:\t.*\n)+)`).FindStringSubmatch(read(t, "Makefile"))
	if m == nil {
		t.Fatal("the Makefile has no demo")
	}
	setup, build := strings.Index(m[2], "setup.sh demo"), strings.Index(m[2], "$(MAKE)")
	if strings.Contains(m[1], "build") || setup < 0 || build < setup {
		t.Errorf("make demo needs %s, and does\n%s", m[1], m[2])
	}
}

// concurrent are functions that start goroutines.
var concurrent = map[string]bool{"Go": true, "AfterFunc": true, "Parallel": true, "RunParallel": true}

// checkSequential looks at a package, and then at those that it imports. The race detector looks at
// tests, and at unsafe pointers, of the others.
func checkSequential(t *testing.T, seen map[string]bool, dir string, leftOut bool) {
	t.Helper()
	if seen[dir] && !leftOut {
		return
	}
	seen[dir] = true
	for _, name := range files() {
		if path.Dir(name) != dir || path.Ext(name) != ".go" || strings.HasSuffix(name, "_test.go") && !leftOut {
			continue
		}
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, name, read(t, name), 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range file.Imports {
			imported := strings.Trim(i.Path.Value, `"`)
			if imported == "unsafe" && leftOut {
				t.Errorf("%s imports unsafe: make race has to run %s", name, dir)
			}
			if rest, own := strings.CutPrefix(imported, module); own {
				checkSequential(t, seen, rest, false)
			}
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.GoStmt:
				t.Errorf("%s starts a goroutine: make race has to run what imports %s", fset.Position(n.Pos()), dir)
			case *ast.CallExpr:
				if f, ok := n.Fun.(*ast.SelectorExpr); ok && concurrent[f.Sel.Name] {
					t.Errorf("%s calls %s: make race has to run what imports %s", fset.Position(n.Pos()), f.Sel.Name, dir)
				}
			}
			return true
		})
	}
}
