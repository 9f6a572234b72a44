package report

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// Form is how tables are printed.
type Form struct {
	Width int  // of a line; 0 means 80
	Wide  bool // every column, in one line
}

const (
	standardWidth = 80
	columnGap     = 2
	// minText is the least width of a column of text that is wrapped.
	minText = 24
)

func (f Form) width() int {
	if f.Width <= 0 {
		return standardWidth
	}
	return f.Width
}

// column is a column of a table. Its cells are empty where there is nothing to say.
type column struct {
	head  string
	cells []string
	left  bool // aligned to the left; numbers are not
	text  bool // wrapped; only for the last column
}

func (c *column) size() int {
	n := utf8.RuneCountInString(c.head)
	for _, s := range c.cells {
		n = max(n, utf8.RuneCountInString(s))
	}
	return n
}

// idle reports whether no cell says anything.
func (c *column) idle() bool {
	for _, s := range c.cells {
		if s != "" && s != "0" && s != "-" {
			return false
		}
	}
	return true
}

// writeTable prints columns without those that are idle. If they do not fit in a line, they follow
// in several tables, each of which begins with the first column.
func writeTable(w io.Writer, columns []column, form Form) {
	var some []column
	for i := range columns {
		if form.Wide || i == 0 || !columns[i].idle() {
			some = append(some, columns[i])
		}
	}
	for i := 0; len(some) > 0; i++ {
		n := len(some)
		for !form.Wide && n > 2 && span(some[:n]) > form.width() {
			n--
		}
		if i > 0 {
			fmt.Fprintln(w)
		}
		writeBlock(w, some[:n], form)
		if n == len(some) {
			return
		}
		some = append([]column{columns[0]}, some[n:]...)
	}
}

// span is the width of columns side by side.
func span(columns []column) int {
	n := -columnGap
	for i := range columns {
		size := columns[i].size()
		if columns[i].text {
			size = min(size, minText)
		}
		n += size + columnGap
	}
	return n
}

func writeBlock(w io.Writer, columns []column, form Form) {
	lines := 0
	for i := range columns {
		lines = max(lines, len(columns[i].cells))
	}
	last := len(columns) - 1
	room := form.width() - span(columns[:last]) - columnGap
	for row := -1; row < lines; row++ {
		var b strings.Builder
		for i := range columns {
			c := &columns[i]
			cell := c.head
			if row >= 0 {
				cell = c.cells[row]
			}
			if cell == "" && row >= 0 && !c.text {
				cell = "-"
			}
			pad := strings.Repeat(" ", max(0, c.size()-utf8.RuneCountInString(cell)))
			switch {
			case c.text && i == last && !form.Wide:
				indent := b.Len()
				b.WriteString(strings.Join(wrap(cell, max(room, minText)), "\n"+strings.Repeat(" ", indent)))
			case c.left && i == last:
				b.WriteString(cell)
			case c.left:
				b.WriteString(cell + pad)
			default:
				b.WriteString(pad + cell)
			}
			if i < last {
				b.WriteString(strings.Repeat(" ", columnGap))
			}
		}
		fmt.Fprintln(w, strings.TrimRight(b.String(), " "))
	}
}

// wrap divides a text into lines of up to n characters, where no word is longer.
func wrap(text string, n int) []string {
	lines := []string{""}
	for _, word := range strings.Fields(text) {
		last := &lines[len(lines)-1]
		switch size := utf8.RuneCountInString(*last); {
		case size == 0:
			*last = word
		case size+1+utf8.RuneCountInString(word) <= n:
			*last += " " + word
		default:
			lines = append(lines, word)
		}
	}
	return lines
}
