package main

import (
	"os"
	"path"
	"strings"
)

// kind says what a block is, for rules that apply to some kinds only.
type kind int

const (
	paragraph  kind = iota // whole sentences
	fragment               // a heading, a table's cell, a message: no sentence is expected
	identifier             // a name that Go code declares
)

// place is a line and a column, from 1 on.
type place struct{ line, col int }

// block is a paragraph, a heading, a list item, or another piece of text that no
// sentence crosses. at has the place of each of its bytes.
type block struct {
	kind kind
	text string
	at   []place
}

// add appends a line of text that begins at p. Lines of one block are joined by a space.
func (b *block) add(text string, p place) {
	if b.text != "" {
		b.text += " "
		b.at = append(b.at, b.at[len(b.at)-1])
	}
	b.text += text
	for i := range len(text) {
		b.at = append(b.at, place{p.line, p.col + i})
	}
}

// readBlocks reads the prose of a file, or nothing if it is not a kind of file that has
// any.
func readBlocks(name string) ([]block, error) {
	read := readerFor(name)
	if read == nil {
		return nil, nil
	}
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	return read(string(text))
}

func readerFor(name string) func(string) ([]block, error) {
	if strings.Contains(name, "testdata/") {
		return nil
	}
	switch base := path.Base(name); path.Ext(name) {
	case ".md":
		return markdown
	case ".go":
		return goFile
	case ".sh", ".yml", ".service", ".socket":
		return hashComments
	default:
		if base == "Makefile" || name == ".ci/run" {
			return hashComments
		}
		return nil
	}
}

// hashComments reads the comments of shell, make, YAML and systemd files, and the help
// of make's targets, which stands behind "##".
func hashComments(text string) ([]block, error) {
	var c collector
	n := 0
	for line := range strings.Lines(text) {
		n++
		line = strings.TrimRight(line, "\r\n")
		body := strings.TrimLeft(line, " \t")
		indent := len(line) - len(body)
		switch at := strings.Index(line, " ## "); {
		case strings.HasPrefix(body, "#!"):
			c.end()
		case strings.HasPrefix(body, "#"):
			c.line(strings.TrimPrefix(body, "#"), place{n, indent + 2})
		case at >= 0:
			c.end()
			c.single(fragment, line[at+4:], place{n, at + 5})
		default:
			c.end()
		}
	}
	c.end()
	return c.blocks, nil
}

// collector makes blocks of lines of text: paragraphs end at empty lines, and list items
// are blocks of their own. Lines that are indented like code are left out.
type collector struct {
	blocks []block
	open   block
	inCode bool // an indented line came, and nothing since that ends it
}

func (c *collector) end() {
	if strings.TrimSpace(c.open.text) != "" {
		c.blocks = append(c.blocks, c.open)
	}
	c.open = block{}
	c.inCode = false
}

func (c *collector) single(k kind, text string, p place) {
	c.open = block{kind: k}
	c.open.add(text, p)
	c.end()
}

// line takes a line of a comment, without the comment's mark.
func (c *collector) line(text string, p place) {
	body := strings.TrimLeft(text, " ")
	indent := len(text) - len(body)
	switch {
	case strings.TrimSpace(body) == "":
		c.end()
	case isItem(body):
		c.end()
		rest := strings.TrimLeft(body[strings.IndexByte(body, ' '):], " ")
		c.open.add(strings.TrimRight(rest, " "), place{p.line, p.col + len(text) - len(rest)})
	case strings.HasPrefix(body, "\t") || indent >= 4 && c.open.text == "":
		c.end()
		c.inCode = true
	case c.inCode && indent >= 2:
	case strings.HasPrefix(text, " # "):
		c.end()
		c.single(fragment, body[2:], place{p.line, p.col + indent + 2})
	default:
		c.inCode = false
		c.open.add(strings.TrimRight(body, " "), place{p.line, p.col + indent})
	}
}

// isItem reports whether a line begins a list item: "- ", "* " or "1. ".
func isItem(s string) bool {
	if strings.HasPrefix(s, "- ") || strings.HasPrefix(s, "* ") {
		return true
	}
	digits := len(s) - len(strings.TrimLeft(s, "0123456789"))
	return digits > 0 && digits < 3 && (strings.HasPrefix(s[digits:], ". ") || strings.HasPrefix(s[digits:], ") "))
}
