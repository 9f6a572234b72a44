package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"reflect"
	"strconv"
	"strings"
)

// goFile reads the comments of a Go file, its messages and the names that it declares.
func goFile(text string) ([]block, error) {
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, "", text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	g := goReader{fset: fset, lines: strings.Split(text, "\n")}
	for _, group := range f.Comments {
		g.comment(group)
	}
	ast.Inspect(f, g.visit)
	return g.c.blocks, nil
}

type goReader struct {
	fset  *token.FileSet
	lines []string
	c     collector
}

func (g *goReader) place(p token.Pos) place {
	at := g.fset.Position(p)
	return place{at.Line, at.Column}
}

// comment takes the text of a comment group, but not directives such as //go:build.
func (g *goReader) comment(group *ast.CommentGroup) {
	for _, c := range group.List {
		at := g.place(c.Pos())
		if body, ok := strings.CutPrefix(c.Text, "//"); ok {
			if !directive(body) {
				g.c.line(body, place{at.line, at.col + 2})
			}
			continue
		}
		for i, line := range strings.Split(strings.TrimSuffix(c.Text[2:], "*/"), "\n") {
			col := 1
			if i == 0 {
				col = at.col + 2
			}
			g.c.line(line, place{at.line + i, col})
		}
	}
	g.c.end()
}

// directive reports whether a comment is for a tool: no space follows the slashes.
func directive(body string) bool {
	name, _, found := strings.Cut(body, ":")
	return found && name != "" && strings.Trim(name, "abcdefghijklmnopqrstuvwxyz") == "" ||
		strings.HasPrefix(body, "nolint") || strings.HasPrefix(body, "export ")
}

// visit takes messages and declared names.
func (g *goReader) visit(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.ImportSpec:
		return false
	case *ast.Field:
		for _, name := range n.Names {
			g.name(name)
		}
		if n.Tag != nil {
			g.help(n.Tag)
		}
		if n.Type != nil {
			ast.Inspect(n.Type, g.visit)
		}
		return false
	case *ast.BasicLit:
		if n.Kind == token.STRING {
			g.message(n)
		}
	case *ast.FuncDecl:
		g.name(n.Name)
	case *ast.TypeSpec:
		g.name(n.Name)
	case *ast.ValueSpec:
		for _, name := range n.Names {
			g.name(name)
		}
	case *ast.AssignStmt:
		if n.Tok == token.DEFINE {
			for _, e := range n.Lhs {
				if name, ok := e.(*ast.Ident); ok {
					g.name(name)
				}
			}
		}
	}
	return true
}

func (g *goReader) name(n *ast.Ident) {
	if n.Name != "_" {
		g.c.single(identifier, n.Name, g.place(n.Pos()))
	}
}

// help takes the help text of a command's flag.
func (g *goReader) help(tag *ast.BasicLit) {
	text, err := strconv.Unquote(tag.Value)
	if err != nil {
		return
	}
	if help := reflect.StructTag(text).Get("help"); help != "" {
		g.literal(help, tag)
	}
}

// message takes a string literal that looks like words for people: it has a space in it,
// no line break, and a word of letters on both sides.
func (g *goReader) message(lit *ast.BasicLit) {
	text, err := strconv.Unquote(lit.Value)
	if err != nil || strings.Contains(text, "\n") || strings.Count(text, " ") < 3 || strings.HasPrefix(lit.Value, "`") {
		return
	}
	g.literal(text, lit)
}

// literal adds text, all of it at the place of lit: escapes make columns differ.
func (g *goReader) literal(text string, lit *ast.BasicLit) {
	b := block{kind: fragment, text: text}
	p := g.place(lit.Pos())
	for range len(text) {
		b.at = append(b.at, p)
	}
	g.c.blocks = append(g.c.blocks, b)
}
