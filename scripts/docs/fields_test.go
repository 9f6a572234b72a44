package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"strings"
	"testing"
)

// maxFields is how many fields a struct of the product may have. Fields of structs without a name
// in it count, too.
const maxFields = 25

// manyFields begins the line of a struct's comment that says why it has more.
const manyFields = "Fields: "

// TestFields: a struct with more fields than maxFields says why, or it is cut along its roles.
func TestFields(t *testing.T) {
	structs, reasons := 0, 0
	for _, name := range files() {
		if path.Ext(name) != ".go" || strings.HasSuffix(name, "_test.go") || strings.Contains(name, "testdata/") ||
			strings.HasPrefix(name, "internal/test/") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, read(t, name), parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		eachStruct(f, func(typ, comment string, s *ast.StructType) {
			structs++
			n, reason := countFields(s), strings.Contains("\n"+comment, "\n"+manyFields)
			switch {
			case n > maxFields && !reason:
				t.Errorf("%s: %s has %d fields, more than %d: cut it along its roles, or say why not in a line %q",
					name, typ, n, maxFields, manyFields+"…")
			case n <= maxFields && reason:
				t.Errorf("%s: %s has %d fields, and needs no reason for more", name, typ, n)
			case reason:
				reasons++
			}
		})
	}
	if structs < 500 || reasons == 0 {
		t.Errorf("%d structs were found, %d with a reason", structs, reasons)
	}
}

// TestCountFields: what counts as a field.
func TestCountFields(t *testing.T) {
	const text = `package p
type (
	// Fields: many.
	a struct { x, y int; b; c struct{ z int; d struct{ w, v int } } }
)
// Not a reason for Fields: none.
type b struct{}
`
	f, err := parser.ParseFile(token.NewFileSet(), "", text, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	eachStruct(f, func(typ, comment string, s *ast.StructType) {
		if strings.HasPrefix(comment, manyFields) {
			typ += "!"
		}
		got = append(got, typ+strings.Repeat("i", countFields(s)))
	})
	if want := "a!iiiiiiii b"; strings.Join(got, " ") != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// eachStruct calls look for each type of a file that is a struct, with the type's comment.
func eachStruct(f *ast.File, look func(name, comment string, s *ast.StructType)) {
	for _, d := range f.Decls {
		g, ok := d.(*ast.GenDecl)
		if !ok {
			continue
		}
		for _, spec := range g.Specs {
			typ, ok := spec.(*ast.TypeSpec)
			if !ok {
				continue
			}
			if s, ok := typ.Type.(*ast.StructType); ok {
				look(typ.Name.Name, g.Doc.Text()+typ.Doc.Text(), s)
			}
		}
	}
}

// countFields returns how many fields a struct has. An embedded one counts once.
func countFields(s *ast.StructType) int {
	n := 0
	for _, f := range s.Fields.List {
		n += max(1, len(f.Names))
		if inner, ok := f.Type.(*ast.StructType); ok {
			n += countFields(inner)
		}
	}
	return n
}
