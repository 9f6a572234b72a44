package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/gorxe/gorxe/internal/sys/terminal"
)

// columns is how wide a line of w may be: as wide as the terminal, else as the environment variable
// COLUMNS says, else 80.
func columns(w io.Writer) int {
	const usual, least = 80, 20
	if s, ok := w.(*screen); ok {
		w = s.terminal
	}
	if wide, _ := terminal.Size(w); wide >= least {
		return wide
	}
	if n, err := strconv.Atoi(os.Getenv("COLUMNS")); err == nil && n >= least {
		return n
	}
	return usual
}

// table aligns the cells of lines, which tabs end. Lines without a tab stand between tables. A
// table that is wider than the terminal has several lines for each row: the later ones are
// indented.
type table struct {
	out   io.Writer
	width int
	text  bytes.Buffer
}

func newTable(w io.Writer) *table { return &table{out: w, width: columns(w)} }

// Write implements io.Writer.
func (t *table) Write(p []byte) (int, error) { return t.text.Write(p) }

// Flush prints the tables.
func (t *table) Flush() error {
	var b strings.Builder
	var rows [][]string
	for line := range strings.Lines(t.text.String()) {
		line = strings.TrimSuffix(line, "\n")
		if strings.Contains(line, "\t") {
			rows = append(rows, strings.Split(line, "\t"))
			continue
		}
		t.print(&b, rows)
		rows = nil
		b.WriteString(line + "\n")
	}
	t.print(&b, rows)
	t.text.Reset()
	_, err := io.WriteString(t.out, b.String())
	return err
}

// gap is between columns, and indent in front of the later lines of a row.
const (
	gap    = 2
	indent = 4
)

// print prints one table.
func (t *table) print(b *strings.Builder, rows [][]string) {
	var widths []int
	for _, row := range rows {
		for i, cell := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], shown(cell))
		}
	}
	rows, widths = withoutZeros(rows, widths, t.width)
	lines := fold(widths, t.width)
	for _, row := range rows {
		for n, line := range lines {
			text := strings.Repeat(" ", min(n, 1)*indent)
			for i := line.from; i < min(line.to, len(row)); i++ {
				text += row[i]
				if i+1 < line.to {
					text += strings.Repeat(" ", widths[i]-shown(row[i])+gap)
				}
			}
			if text = strings.TrimRight(text, " "); text != "" || n == 0 {
				b.WriteString(text + "\n")
			}
		}
	}
}

// withoutZeros drops the columns of a table that is too wide if all their numbers are zero, or if
// they have nothing.
func withoutZeros(rows [][]string, widths []int, width int) ([][]string, []int) {
	if len(rows) < 2 || len(fold(widths, width)) < 2 {
		return rows, widths
	}
	var keep []int
	for i := range widths {
		for _, row := range rows[1:] {
			if i < len(row) && row[i] != "0" && row[i] != "-" && row[i] != "" {
				keep = append(keep, i)
				break
			}
		}
	}
	if len(keep) == 0 {
		return rows, widths
	}
	var narrow []int
	out := make([][]string, len(rows))
	for _, i := range keep {
		narrow = append(narrow, widths[i])
		for k, row := range rows {
			if i < len(row) {
				out[k] = append(out[k], row[i])
			}
		}
	}
	return out, narrow
}

// span is a range of columns.
type span struct{ from, to int }

// fold divides columns into lines that are not wider than a width, if they can be divided.
func fold(widths []int, width int) (lines []span) {
	used, from := 0, 0
	for i, w := range widths {
		if i > from && used+w > width {
			lines = append(lines, span{from, i})
			used, from = indent, i
		}
		used += w + gap
	}
	return append(lines, span{from, len(widths)})
}

// wrap breaks a text between words into lines of at most width columns.
func wrap(text string, width int) (lines []string) {
	line := ""
	for _, word := range strings.Fields(text) {
		if line != "" && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > width {
			lines, line = append(lines, line), ""
		}
		line = strings.TrimPrefix(line+" "+word, " ")
	}
	return append(lines, line)
}

// writeWrapped prints a paragraph, each line of it behind a prefix.
func writeWrapped(w io.Writer, prefix, text string) {
	for _, line := range wrap(text, columns(w)-len(prefix)) {
		fmt.Fprintln(w, prefix+line)
	}
}
