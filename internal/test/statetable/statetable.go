// Package statetable reads tables of states from comments, so that a test can compare them with
// the code.
package statetable

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strings"
	"testing"
)

// A Table has a row for each state, with the state that follows each event.
type Table map[string]map[string]string

// Read returns the table in the comment of a type of a Go file: lines with cells between bars. The
// first line has the names of the events, and the others begin with the name of a state.
func Read(t *testing.T, file, typeName string) Table {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	var events []string
	table := make(Table)
	for line := range strings.Lines(comment(f, typeName)) {
		cells := strings.Split(line, "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		switch {
		case len(cells) == 1:
		case events == nil:
			events = cells
		case len(cells) != len(events) || table[cells[0]] != nil:
			t.Fatalf("%s, %s: a row of the table is wrong: %s", file, typeName, line)
		default:
			row := make(map[string]string)
			for i := 1; i < len(cells); i++ {
				row[events[i]] = cells[i]
			}
			table[cells[0]] = row
		}
	}
	if len(table) == 0 {
		t.Fatalf("%s: the comment of %s has no table", file, typeName)
	}
	return table
}

// comment returns the comment of a type.
func comment(f *ast.File, typeName string) string {
	for _, d := range f.Decls {
		g, ok := d.(*ast.GenDecl)
		if !ok || g.Tok != token.TYPE {
			continue
		}
		for _, s := range g.Specs {
			if s.(*ast.TypeSpec).Name.Name == typeName {
				return g.Doc.Text()
			}
		}
	}
	return ""
}
