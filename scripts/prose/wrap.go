package main

import (
	"fmt"
	"io"
	"os"
	"path"
	"regexp"
	"strings"
	"unicode/utf8"
)

const (
	wrapColumns = 100 // the widest line of prose
	tabColumns  = 4   // what a tab counts for
)

// wrapFiles looks for lines of prose that are wider than wrapColumns: in Markdown outside of
// tables, headings and code, and in the comments of Go files. With write it breaks them.
func wrapFiles(under []string, write bool, out io.Writer) (faults int, err error) {
	files, err := tracked(under)
	if err != nil {
		return 0, err
	}
	for _, name := range files {
		wrap := wrapperFor(name)
		if wrap == nil {
			continue
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return faults, err
		}
		wrapped, wide, err := wrap(string(text))
		if err != nil {
			return faults, fmt.Errorf("%s: %w", name, err)
		}
		if write {
			if wrapped != string(text) {
				err = os.WriteFile(name, []byte(wrapped), 0o666)
			}
			if err != nil {
				return faults, err
			}
			continue
		}
		for _, line := range wide {
			fmt.Fprintf(out, "%s:%d: a line of more than %d columns (wrap)\n", name, line, wrapColumns)
		}
		faults += len(wide)
	}
	return faults, nil
}

// wrapperFor returns what wraps a file: it returns the wrapped text, and which lines are too wide.
func wrapperFor(name string) func(string) (string, []int, error) {
	if strings.Contains(name, "testdata/") {
		return nil
	}
	switch path.Ext(name) {
	case ".md":
		return wrapMarkdown
	case ".go":
		return wrapGo
	}
	return nil
}

// wrapper copies lines, and breaks paragraphs that have a line that is too wide.
type wrapper struct {
	out  strings.Builder
	wide []int

	// The open paragraph.
	first, rest string // what stands before its first line, and before the others
	lines       []string
	at          int // its first line's number
	words       []string
}

// copy ends the paragraph, and copies a line that belongs to none.
func (w *wrapper) copy(line string) {
	w.end()
	w.out.WriteString(line + "\n")
}

// open begins a paragraph.
func (w *wrapper) open(n int, first, rest, text, line string) {
	w.end()
	w.first, w.rest, w.at = first, rest, n
	w.add(text, line)
}

// add adds a line to the open paragraph. Text is what stands behind the line's prefix.
func (w *wrapper) add(text, line string) {
	w.lines = append(w.lines, line)
	w.words = append(w.words, text)
}

// end writes the open paragraph, wrapped only if one of its lines is too wide and can be broken.
func (w *wrapper) end() {
	wrapped := breakLines(w.first, w.rest, pieces(strings.Join(w.words, " ")))
	var wide []int
	for i, line := range w.lines {
		if columns(line) > wrapColumns && !contains(wrapped, line) {
			wide = append(wide, w.at+i)
		}
	}
	w.wide = append(w.wide, wide...)
	if len(wide) == 0 {
		wrapped = w.lines
	}
	for _, line := range wrapped {
		w.out.WriteString(line + "\n")
	}
	w.lines, w.words = nil, nil
}

func contains(lines []string, line string) bool {
	for _, l := range lines {
		if l == line {
			return true
		}
	}
	return false
}

func columns(line string) int {
	return utf8.RuneCountInString(line) + (tabColumns-1)*strings.Count(line, "\t")
}

var (
	// A piece of code or a link stays on one line, with what touches it.
	unbroken = regexp.MustCompile("(?:`[^`]*`|\\[[^\\]]*\\]\\([^)\\s]*\\)|[^\\s`])+|`")
	// No line may begin with a mark that would make it an item, a heading or a quotation.
	startsItem = regexp.MustCompile(`^([-*+>]|\d+[.)]|#+)$`)
)

// pieces cuts text into what may stand on a line by itself.
func pieces(text string) []string {
	var out []string
	for _, word := range unbroken.FindAllString(text, -1) {
		if n := len(out); n > 0 && (startsItem.MatchString(word) || strings.HasPrefix(word, "|")) {
			out[n-1] += " " + word
			continue
		}
		out = append(out, word)
	}
	return out
}

// breakLines puts as many pieces on each line as fit.
func breakLines(first, rest string, pieces []string) (lines []string) {
	line, empty := first, true
	for _, piece := range pieces {
		if !empty && columns(line)+1+columns(piece) > wrapColumns {
			lines = append(lines, line)
			line, empty = rest, true
		}
		if !empty {
			line += " "
		}
		line += piece
		empty = false
	}
	if !empty {
		lines = append(lines, line)
	}
	return lines
}

// wrapMarkdown wraps paragraphs, list items and quotations, but not what a test has written.
func wrapMarkdown(text string) (wrapped string, wide []int, err error) {
	var w wrapper
	fence, comment, generated, n := "", false, false, 0
	for line := range strings.Lines(text) {
		n++
		line = strings.TrimRight(line, "\r\n")
		body := strings.TrimLeft(line, " \t")
		indent := line[:len(line)-len(body)]
		switch {
		case fence != "":
			if strings.HasPrefix(body, fence) {
				fence = ""
			}
			w.copy(line)
		case generated:
			generated = !strings.HasPrefix(body, "<!-- end ")
			w.copy(line)
		case comment || strings.HasPrefix(body, "<!--"):
			generated = strings.HasPrefix(body, "<!-- begin ")
			comment = !strings.Contains(body, "-->")
			w.copy(line)
		case strings.HasPrefix(body, "```"), strings.HasPrefix(body, "~~~"):
			fence = body[:3]
			w.copy(line)
		case body == "", strings.HasPrefix(body, "<"), strings.HasPrefix(body, "!["),
			strings.HasPrefix(body, "|"), strings.HasPrefix(body, "#"),
			len(indent) >= 4 && w.lines == nil:
			w.copy(line)
		case isItem(body):
			mark := body[:strings.IndexByte(body, ' ')+1]
			w.open(n, indent+mark, indent+strings.Repeat(" ", len(mark)), body[len(mark):], line)
		case strings.HasPrefix(body, "> ") && (w.lines == nil || !strings.HasPrefix(w.rest, "> ")):
			w.open(n, "> ", "> ", body[2:], line)
		case w.lines == nil:
			w.open(n, indent, indent, body, line)
		default:
			w.add(strings.TrimPrefix(body, "> "), line)
		}
		if strings.HasSuffix(line, "  ") || strings.HasSuffix(line, `\`) {
			w.end() // a line break that the page shows
		}
	}
	w.end()
	return w.out.String(), w.wide, nil
}
