package program

import (
	"bytes"
	"io"
)

// maxLine is the length at which a line is printed though it has not ended. It also bounds the
// bytes of a line that are compared.
const maxLine = 64 << 10

// labeler writes each line with a label in one piece, so that lines of two programs do not mix.
type labeler struct {
	to    io.Writer
	label string
	line  []byte // that has not ended
}

// Write implements io.Writer.
func (l *labeler) Write(p []byte) (int, error) {
	for line := range bytes.Lines(p) {
		for len(line) > 0 {
			n := min(len(line), maxLine-len(l.line))
			l.line = append(l.line, line[:n]...)
			line = line[n:]
			if l.line[len(l.line)-1] == '\n' || len(l.line) == maxLine {
				l.flush()
			}
		}
	}
	return len(p), nil // nobody reads what is lost: the program goes on
}

// flush writes what is there of a line.
func (l *labeler) flush() {
	if len(l.line) == 0 {
		return
	}
	text := append([]byte(l.label), bytes.TrimSuffix(l.line, []byte("\n"))...)
	l.to.Write(append(text, '\n')) //nolint:errcheck // as above
	l.line = l.line[:0]
}
