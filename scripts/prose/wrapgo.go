package main

import (
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"strings"
)

// wrapGo wraps the comments of a Go file that stand on lines of their own. A comment behind code
// moves to a line of its own if it is too wide.
func wrapGo(text string) (wrapped string, wide []int, err error) {
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, "", text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return "", nil, err
	}
	if ast.IsGenerated(f) {
		return text, nil, nil
	}
	comments := lineComments(fset, f)
	var w wrapper
	n := 0
	for line := range strings.Lines(text) {
		n++
		line = strings.TrimRight(line, "\r\n")
		col, ok := comments[n]
		switch {
		case !ok:
			w.copy(line)
		case strings.TrimLeft(line[:col], "\t ") != "":
			w.behind(n, line, col)
		default:
			w.comment(n, line[:col], line[col+2:], line)
		}
	}
	w.end()
	if len(w.wide) == 0 {
		return text, nil, nil
	}
	out, err := format.Source([]byte(w.out.String()))
	return string(out), w.wide, err
}

// lineComments says for each line with a comment of // at which byte the comment begins.
func lineComments(fset *token.FileSet, f *ast.File) map[int]int {
	at := make(map[int]int)
	for _, group := range f.Comments {
		for _, c := range group.List {
			if strings.HasPrefix(c.Text, "//") {
				p := fset.Position(c.Pos())
				at[p.Line] = p.Column - 1
			}
		}
	}
	return at
}

// comment takes a line that has only a comment. Indent is what stands before the slashes, and
// body what stands behind them.
func (w *wrapper) comment(n int, indent, body, line string) {
	words := strings.TrimLeft(body, " ")
	blanks := body[:len(body)-len(words)]
	mark := indent + "//"
	switch {
	case words == "", directive(body), strings.HasPrefix(words, "\t"), strings.HasPrefix(body, " # "):
		w.copy(line)
	case isItem(words):
		bullet := words[:strings.IndexByte(words, ' ')+1]
		w.open(n, mark+blanks+bullet, mark+blanks+strings.Repeat(" ", len(bullet)), words[len(bullet):], line)
	case w.lines != nil && blanks == strings.TrimPrefix(w.rest, mark):
		w.add(words, line)
	case len(blanks) > 1:
		w.copy(line) // code, or a drawing
	default:
		w.open(n, mark+" ", mark+" ", words, line)
	}
}

// behind takes a line with a comment behind code.
func (w *wrapper) behind(n int, line string, col int) {
	body := line[col+2:]
	if columns(line) <= wrapColumns || directive(body) || strings.HasPrefix(body, " want ") {
		w.copy(line)
		return
	}
	w.end()
	w.wide = append(w.wide, n)
	code := strings.TrimRight(line[:col], " \t")
	indent := code[:len(code)-len(strings.TrimLeft(code, "\t"))]
	inside := strings.HasPrefix(code[len(indent):], "}") || strings.HasPrefix(code[len(indent):], "case ") ||
		strings.HasPrefix(code[len(indent):], "default:")
	if inside {
		w.copy(code)
		indent += "\t"
	}
	for _, l := range breakLines(indent+"// ", indent+"// ", pieces(body)) {
		w.copy(l)
	}
	if !inside {
		w.copy(code)
	}
}
