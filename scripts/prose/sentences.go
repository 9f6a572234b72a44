package main

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// span is a part of a block's text.
type span struct{ from, to int }

// abbreviations end with a dot that ends no sentence.
var abbreviations = map[string]bool{"e.g.": true, "i.e.": true, "etc.": true, "vs.": true, "cf.": true, "no.": true, "p.": true, "sec.": true}

// sentences splits a block's text. A sentence ends with a dot, a question mark or an
// exclamation mark, and a space behind it.
func sentences(text string) []span {
	var out []span
	start := 0
	for i := 0; i < len(text); i++ {
		if !strings.ContainsRune(".?!", rune(text[i])) {
			continue
		}
		end := i + 1
		for end < len(text) && strings.ContainsRune(`)"'*_`, rune(text[end])) {
			end++
		}
		if end < len(text) && text[end] != ' ' {
			continue
		}
		if word := text[strings.LastIndexByte(text[:i], ' ')+1 : i+1]; abbreviations[strings.ToLower(strings.TrimLeft(word, "("))] {
			continue
		}
		next := strings.TrimLeft(text[end:], " ")
		if r, _ := utf8.DecodeRuneInString(next); next != "" && unicode.IsLower(r) && text[i] == '.' && strings.HasSuffix(text[:i], "..") {
			continue // an ellipsis
		}
		out = append(out, span{start, end})
		start = len(text) - len(next)
		i = max(i, start-1)
	}
	if strings.TrimSpace(text[start:]) != "" {
		out = append(out, span{start, len(text)})
	}
	return out
}

var (
	codeSpan = regexp.MustCompile("`[^`]*`")
	linkEnd  = regexp.MustCompile(`\]\([^)]*\)|\]\[[^\]]*\]`)
	word     = regexp.MustCompile(`[\p{L}\p{N}][\p{L}\p{N}'’./:_-]*`)
)

// plain blanks out code and the targets of links, so that rules see prose only. Lengths
// stay the same. A piece of code counts as one word, X.
func plain(text string) string {
	blank := func(s string) string { return "X" + strings.Repeat(" ", len(s)-1) }
	text = codeSpan.ReplaceAllStringFunc(text, blank)
	return linkEnd.ReplaceAllStringFunc(text, func(s string) string { return strings.Repeat(" ", len(s)) })
}

// words counts the words of plain text.
func words(text string) int { return len(word.FindAllString(text, -1)) }

// measures are what the readability of a file follows from.
type measures struct{ letters, words, sentences int }

// measure counts whole paragraphs only.
func measure(blocks []block) (m measures) {
	for _, b := range blocks {
		if b.kind != paragraph {
			continue
		}
		text := plain(b.text)
		for _, s := range sentences(text) {
			found := word.FindAllString(text[s.from:s.to], -1)
			if len(found) == 0 {
				continue
			}
			m.sentences++
			m.words += len(found)
			for _, w := range found {
				m.letters += letters(w)
			}
		}
	}
	return m
}

// codeLetters is how many letters a name of code counts for: a reader takes it as one sign.
const codeLetters = 4

// letters counts the letters of a word. A name of code has an underscore, a slash, or a
// capital letter behind a small one.
func letters(w string) int {
	last := ' '
	for _, r := range w {
		if r == '_' || r == '/' || unicode.IsUpper(r) && unicode.IsLower(last) {
			return codeLetters
		}
		last = r
	}
	return utf8.RuneCountInString(w)
}

// grade is the automated readability index: the school year that the text is for. It
// grows with the length of words and of sentences.
func (m measures) grade() float64 {
	if m.words == 0 {
		return 0
	}
	return 4.71*float64(m.letters)/float64(m.words) + 0.5*float64(m.words)/float64(m.sentences) - 21.43
}
