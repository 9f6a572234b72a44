package rxe

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gorxe/gorxe/internal/test/must"
)

// mostUp is the part of the arrows that may run up, in percent.
const mostUp = 26

// TestArrows: doc.go puts the files of this package in an order. An arrow goes from a file to
// another one with a function or method that it uses, and runs up if that file comes earlier. No
// file is left out, and few arrows run up.
func TestArrows(t *testing.T) {
	text, err := os.ReadFile("doc.go")
	must.OK(t, err)
	at := map[string]int{}
	for _, line := range regexp.MustCompile(`(?m)^//\t\S.*\.go$`).FindAllString(string(text), -1) {
		for _, name := range regexp.MustCompile(`\S+\.go`).FindAllString(line, -1) {
			if _, twice := at[name]; twice {
				t.Errorf("doc.go names %s twice", name)
			}
			at[name] = len(at)
		}
	}
	arrows := fileArrows(t, at)
	up, worst := 0, map[string]int{}
	for a := range arrows {
		if at[a[1]] < at[a[0]] {
			up++
			worst[a[0]]++
		}
	}
	t.Logf("%d of %d arrows run up", up, len(arrows))
	if 100*up > mostUp*len(arrows) {
		t.Errorf("%d of %d arrows run up, more than %d %%: %v", up, len(arrows), mostUp, worst)
	}
}

// fileArrows returns the arrows between the files of this package, which are those in at.
func fileArrows(t *testing.T, at map[string]int) map[[2]string]bool {
	t.Helper()
	set := token.NewFileSet()
	names, err := filepath.Glob("*.go")
	must.OK(t, err)
	names = slices.DeleteFunc(names, func(name string) bool { return strings.HasSuffix(name, "_test.go") })
	var files []*ast.File
	for _, name := range names {
		f, err := parser.ParseFile(set, name, nil, parser.SkipObjectResolution)
		must.OK(t, err)
		files = append(files, f)
		if _, known := at[name]; !known {
			t.Errorf("doc.go does not name %s", name)
		}
	}
	if len(at) != len(names) {
		t.Errorf("doc.go names %d files, and there are %d", len(at), len(names))
	}
	info := &types.Info{Uses: make(map[*ast.Ident]types.Object)}
	// Other packages stay empty, which is faster. What the checker does not know of them counts for
	// nothing.
	conf := types.Config{Importer: emptyImporter{}, Error: func(error) {}}
	pkg, _ := conf.Check("rxe", set, files, info)
	arrows := make(map[[2]string]bool)
	for id, obj := range info.Uses {
		if f, is := obj.(*types.Func); !is || f.Pkg() != pkg {
			continue
		}
		from, to := set.Position(id.Pos()).Filename, set.Position(obj.Pos()).Filename
		if from != to {
			arrows[[2]string{from, to}] = true
		}
	}
	return arrows
}

type emptyImporter struct{}

func (emptyImporter) Import(path string) (*types.Package, error) {
	pkg := types.NewPackage(path, filepath.Base(path))
	pkg.MarkComplete()
	return pkg, nil
}
