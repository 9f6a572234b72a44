package manual

import (
	"embed"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"
	"unicode/utf8"
)

//go:embed topics/*.txt
var files embed.FS

// Topic is a text of `gorxe help NAME`, and the page gorxe-NAME(7).
type Topic struct {
	Name  string
	Title string // what follows the name in the list of topics
	Text  string // paragraphs; indented lines are shown as they are
}

// Topics returns all topics, sorted by name.
func Topics() []Topic {
	var list []Topic
	names, _ := fs.Glob(files, "topics/*.txt") // the pattern is correct
	for _, name := range names {
		text, err := files.ReadFile(name)
		if err != nil {
			panic(err) // the file is in the binary
		}
		title, rest, _ := strings.Cut(string(text), "\n")
		list = append(list, Topic{
			Name:  strings.TrimSuffix(path.Base(name), ".txt"),
			Title: title, Text: strings.TrimSpace(rest),
		})
	}
	return list
}

// width is that of a terminal at least.
const width = 80

// Write prints the topic for a terminal, its paragraphs wrapped.
func (t *Topic) Write(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n\n", t.Title)
	for line := range strings.SplitSeq(t.Text, "\n") {
		if strings.HasPrefix(line, "  ") {
			b.WriteString(line + "\n")
			continue
		}
		column := 0
		for word := range strings.FieldsSeq(line) {
			n := utf8.RuneCountInString(word)
			switch {
			case column == 0:
			case column+1+n > width:
				b.WriteByte('\n')
				column = 0
			default:
				b.WriteByte(' ')
				column++
			}
			b.WriteString(word)
			column += n
		}
		b.WriteByte('\n')
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// FindTopic returns the topic of that name, or nil.
func FindTopic(name string) *Topic {
	for _, t := range Topics() {
		if strings.EqualFold(t.Name, name) {
			return &t
		}
	}
	return nil
}
