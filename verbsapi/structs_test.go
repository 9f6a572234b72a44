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

var update = flag.Bool("update", false, "write the fields of the engine's structs into the comments of structs.go")

const (
	structsFile = "structs.go"
	indent      = 8
)

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

// TestAliasComments: the comment of each alias in structs.go has the fields of its struct, so that
// `go doc verbsapi.QPCap` shows them.
func TestAliasComments(t *testing.T) {
	fields := fieldsOf(t, "../rxe")
	old := string(must(os.ReadFile(structsFile))(t))
	alias := regexp.MustCompile(`(?m)^((?://.*\n)+)type (\w+) = rxe\.(\w+)\n`)
	found := 0
	text := alias.ReplaceAllStringFunc(old, func(match string) string {
		m := alias.FindStringSubmatch(match)
		body, ok := fields[m[3]]
		if !ok {
			t.Errorf("%s: rxe has no struct %s", m[2], m[3])
			return match
		}
		found++
		intro, _, _ := strings.Cut(m[1], "//\n")
		var comment strings.Builder
		comment.WriteString(intro + "//\n")
		for line := range strings.Lines(body) {
			comment.WriteString(strings.TrimRight("//\t"+strings.TrimPrefix(line, strings.Repeat(" ", indent)), " \n") + "\n")
		}
		return comment.String() + "type " + m[2] + " = rxe." + m[3] + "\n"
	})
	if want := strings.Count(old, "= rxe."); found != want || want == 0 {
		t.Errorf("%d of %d aliases have a comment", found, want)
	}
	text = string(must(format.Source([]byte(text)))(t))
	if text == old {
		return
	}
	if !*update {
		t.Errorf("%s is out of date: go test ./verbsapi -run TestAliasComments -update", structsFile)
		return
	}
	if err := os.WriteFile(structsFile, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}
