package main

import "strings"

// markdown reads the prose of a Markdown file. It leaves out code and HTML; a table's
// cells are fragments.
func markdown(text string) ([]block, error) {
	var c collector
	fence := ""
	comment := false
	n := 0
	for line := range strings.Lines(text) {
		n++
		line = strings.TrimRight(line, "\r\n")
		body := strings.TrimLeft(line, " \t")
		indent := len(line) - len(body)
		if fence != "" {
			if strings.HasPrefix(body, fence) {
				fence = ""
			}
			continue
		}
		if comment || strings.HasPrefix(body, "<!--") {
			c.end()
			comment = !strings.Contains(body, "-->")
			continue
		}
		switch {
		case strings.HasPrefix(body, "```"), strings.HasPrefix(body, "~~~"):
			c.end()
			fence = body[:3]
		case body == "", strings.HasPrefix(body, "<"), strings.HasPrefix(body, "!["):
			c.end()
		case strings.HasPrefix(body, "|"):
			c.end()
			cells(&c, line, n)
		case strings.HasPrefix(body, "#"):
			c.end()
			head := strings.TrimLeft(body, "# ")
			c.single(fragment, head, place{n, len(line) - len(head) + 1})
		case indent >= 4 && c.open.text == "":
			// Code: nothing of it opens a paragraph.
		case isItem(body):
			c.end()
			rest := body[strings.IndexByte(body, ' ')+1:]
			c.open.add(strings.TrimSpace(rest), place{n, len(line) - len(rest) + 1})
		default:
			body = strings.TrimPrefix(body, "> ")
			c.open.add(strings.TrimRight(body, " "), place{n, len(line) - len(body) + 1})
		}
	}
	c.end()
	return c.blocks, nil
}

// cells takes the cells of a table's row.
func cells(c *collector, line string, n int) {
	for start, i := 0, 0; i <= len(line); i++ {
		if i < len(line) && line[i] != '|' {
			continue
		}
		cell := strings.TrimLeft(line[start:i], " ")
		if strings.Trim(cell, " :-") != "" {
			c.single(fragment, strings.TrimRight(cell, " "), place{n, i - len(cell) + 1})
		}
		start = i + 1
	}
}
