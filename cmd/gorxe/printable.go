package main

import (
	"strconv"
	"strings"
)

// printable removes control characters from a name that someone else chose: of a program, or
// of a file.
func printable(s string) string {
	if s == "" {
		return "?"
	}
	return strings.Map(printableRune, s)
}

// printableText is printable for a text of several lines.
func printableText(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' {
			return r
		}
		return printableRune(r)
	}, s)
}

func printableRune(r rune) rune {
	if strconv.IsPrint(r) {
		return r
	}
	return '?'
}
