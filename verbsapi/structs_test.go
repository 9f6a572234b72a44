package verbsapi

import (
	"bytes"
	"flag"
	"go/ast"
	"go/format"
	"go/parser"
	"go/printer"
	"go/token"
	"os"
	"regexp"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the fields of structs into the comments of their aliases")

const indent = 8

// aliasFiles have aliases of structs, each with the directory of the package.
var aliasFiles = []struct{ file, pkg, dir string }{
	{"structs.go", "rxe", "../rxe"},
	{"fault.go", "fault", "../internal/fault"},
}

// fieldsOf returns the fields of the structs of a package in a directory, as source.
func fieldsOf(t *testing.T, dir string) map[string]string {
	t.Helper()
	fset := token.NewFileSet()
	fields := make(map[string]string)
	for _, entry := range must(os.ReadDir(dir))(t) {
		if !strings.HasSuffix(entry.Name(), ".go") || strings.HasSuffix(entry.Name(), "_test.go") {
			continue
		}
		file := must(parser.ParseFile(fset, dir+"/"+entry.Name(), nil, parser.ParseComments))(t)
		ast.Inspect(file, func(n ast.Node) bool {
			spec, ok := n.(*ast.TypeSpec)
			if !ok {
				return true
			}
			if s, ok := spec.Type.(*ast.StructType); ok {
				var text bytes.Buffer
				spaces := printer.Config{Mode: printer.UseSpaces, Tabwidth: indent}
				if err := spaces.Fprint(&text, fset, &printer.CommentedNode{Node: s, Comments: file.Comments}); err != nil {
					t.Fatal(err)
				}
				body := strings.TrimSuffix(strings.TrimPrefix(text.String(), "struct {\n"), "}")
				fields[spec.Name.Name] = strings.ReplaceAll(body, "wire.", "")
			}
			return true
		})
	}
	return fields
}

// TestAliasComments: the comment of each alias of a struct has the fields of the struct, so that
// `go doc verbsapi.QPCap` shows them.
func TestAliasComments(t *testing.T) {
	for _, a := range aliasFiles {
		fields := fieldsOf(t, a.dir)
		old := string(must(os.ReadFile(a.file))(t))
		text, found := withFields(old, a.pkg, fields)
		if want := strings.Count(old, " = "+a.pkg+".") - strings.Count(old, "type Fault = "); found != want || want == 0 {
			t.Errorf("%s: %d of %d aliases have a comment with fields", a.file, found, want)
		}
		text = string(must(format.Source([]byte(text)))(t))
		switch {
		case text == old:
		case !*update:
			t.Errorf("%s is out of date: go test ./verbsapi -run TestAliasComments -update", a.file)
		default:
			if err := os.WriteFile(a.file, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// withFields returns a file whose comments of aliases have the fields of the structs. ParseFault
// makes a Fault, whose fields are the grammar's, so its comment has none.
func withFields(old, pkg string, fields map[string]string) (text string, found int) {
	alias := regexp.MustCompile(`(?m)^((?://.*\n)+)type (\w+) = ` + pkg + `\.(\w+)\n`)
	text = alias.ReplaceAllStringFunc(old, func(match string) string {
		m := alias.FindStringSubmatch(match)
		body, ok := fields[m[3]]
		if !ok || m[2] == "Fault" {
			return match
		}
		found++
		intro, _, _ := strings.Cut(m[1], "//\n")
		var comment strings.Builder
		comment.WriteString(intro + "//\n")
		for line := range strings.Lines(body) {
			comment.WriteString(strings.TrimRight("//\t"+strings.TrimPrefix(line, strings.Repeat(" ", indent)), " \n") + "\n")
		}
		return comment.String() + "type " + m[2] + " = " + pkg + "." + m[3] + "\n"
	})
	return text, found
}
