package main

import (
	"io"
	"regexp"
	"unicode/utf8"

	"github.com/gorxe/gorxe/internal/sys/terminal"
)

// paint gives words a color, if it is true.
type paint bool

func paintOf(w io.Writer) paint {
	if t, ok := w.(*table); ok {
		w = t.out
	}
	return paint(terminal.Colors(w))
}

const (
	bold   = "1"
	red    = "31"
	green  = "32"
	yellow = "33"
	dim    = "2"
)

func (p paint) as(color, text string) string {
	if !p || text == "" {
		return text
	}
	return "\x1b[" + color + "m" + text + "\x1b[0m"
}

var escapes = regexp.MustCompile("\x1b\\[[0-9;]*m")

// shown is how many columns a text takes, without its colors.
func shown(s string) int { return utf8.RuneCountInString(escapes.ReplaceAllString(s, "")) }
