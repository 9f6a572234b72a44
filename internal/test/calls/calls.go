// Package calls says which functions a package has, and which of them its tests call. The
// tests of tables in docs use it.
package calls

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Package is the package that runs the test.
type Package struct {
	funcs map[string]bool
	// tests has the names that each function of the test files calls. Methods are under
	// their bare name.
	tests map[string][]string
}

// Parse reads the Go files of the working directory.
func Parse(t testing.TB) *Package {
	t.Helper()
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	p := &Package{funcs: make(map[string]bool), tests: make(map[string][]string)}
	for _, name := range files {
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		p.add(f, strings.HasSuffix(name, "_test.go"))
	}
	return p
}

func (p *Package) add(f *ast.File, test bool) {
	for _, d := range f.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok {
			continue
		}
		p.funcs[receiver(fn)+fn.Name.Name] = true
		if test {
			p.tests[fn.Name.Name] = append(p.tests[fn.Name.Name], called(fn)...)
		}
	}
}

// called returns the names that a function calls.
func called(fn *ast.FuncDecl) (names []string) {
	ast.Inspect(fn, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		switch f := call.Fun.(type) {
		case *ast.Ident:
			names = append(names, f.Name)
		case *ast.SelectorExpr:
			names = append(names, f.Sel.Name)
		}
		return true
	})
	return names
}

// receiver returns "CQ." for a method of CQ or *CQ.
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

// Has reports whether the package, with its tests, has a function, "Open", or a method,
// "CQ.Poll".
func (p *Package) Has(name string) bool { return p.funcs[name] }

// Reaches reports whether a test calls a function or method, perhaps through helpers in the
// test files. name may be qualified, as in Has; only its last part counts.
func (p *Package) Reaches(test, name string) bool {
	name = name[strings.LastIndex(name, ".")+1:]
	todo, seen := []string{test}, make(map[string]bool)
	for len(todo) > 0 {
		fn := todo[0]
		todo = todo[1:]
		if seen[fn] {
			continue
		}
		seen[fn] = true
		if slices.Contains(p.tests[fn], name) {
			return true
		}
		for _, c := range p.tests[fn] {
			if !strings.HasPrefix(c, "Test") {
				todo = append(todo, c)
			}
		}
	}
	return false
}
