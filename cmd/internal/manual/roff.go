package manual

import (
	"bytes"
	"fmt"
	"strings"
	"time"
)

// roff writes a page. It is a mango.Builder. The builder of muesli/roff takes percent signs
// for verbs, and joins the lines of an example. It prints the time of day, so two builds
// would differ.
type roff struct {
	buf      bytes.Buffer
	date     time.Time
	version  string
	synopsis string // what the section of that name says; empty: it is left out
	section  string
}

// Heading implements mango.Builder.
func (r *roff) Heading(section uint, title, _ string, _ time.Time) {
	date := ""
	if !r.date.IsZero() {
		date = r.date.UTC().Format(time.DateOnly)
	}
	fmt.Fprintf(&r.buf, ".TH %s %d %q %q %q\n", strings.ToUpper(escape(title)), section, date, "gorxe "+r.version, "gorxe manual")
	r.buf.WriteString(".nh\n.ad l\n") // options must not be hyphenated
}

// request begins a line with a request.
func (r *roff) request(name string, args ...any) {
	if r.skips() {
		return
	}
	r.endLine()
	r.buf.WriteString("." + name)
	for _, a := range args {
		fmt.Fprintf(&r.buf, " %v", a)
	}
	r.buf.WriteByte('\n')
}

func (r *roff) endLine() {
	if b := r.buf.Bytes(); len(b) > 0 && b[len(b)-1] != '\n' {
		r.buf.WriteByte('\n')
	}
}

// skips reports whether the section is written by Section alone. mango gives every page
// the same synopsis.
func (r *roff) skips() bool { return r.section == "Synopsis" }

// Section implements mango.Builder.
func (r *roff) Section(name string) {
	r.section = ""
	if name == "Synopsis" {
		if r.synopsis != "" {
			r.request("SH", "SYNOPSIS")
			r.Text(r.synopsis)
		}
		r.section = name
		return
	}
	r.request("SH", strings.ToUpper(name))
	r.section = name
}

// EndSection implements mango.Builder: it ends the tag of a tagged paragraph.
func (r *roff) EndSection() { r.endLine() }

// Paragraph implements mango.Builder.
func (r *roff) Paragraph() { r.request("PP") }

// Indent implements mango.Builder.
func (r *roff) Indent(n int) { r.request("RS", n) }

// IndentEnd implements mango.Builder.
func (r *roff) IndentEnd() { r.request("RE") }

// TaggedParagraph implements mango.Builder.
func (r *roff) TaggedParagraph(int) { r.request("TP") }

// List implements mango.Builder.
func (r *roff) List(text string) {
	r.request("IP", `\(bu`, 3)
	r.Text(text)
}

// Text implements mango.Builder. An empty line begins a paragraph, and indented lines are
// an example.
func (r *roff) Text(text string) {
	if r.skips() {
		return
	}
	if r.section == "Name" {
		text = strings.Replace(text, " - ", " \x00 ", 1) // the one dash that is not a hyphen
	}
	example := false
	for i, line := range strings.Split(text, "\n") {
		indented := strings.HasPrefix(line, "  ")
		switch {
		case indented && !example:
			r.request("RS", 2)
			r.request("nf")
		case example && !indented:
			r.request("fi")
			r.request("RE")
			if strings.TrimSpace(line) != "" {
				r.request("PP")
			}
		case i > 0:
			r.endLine()
		}
		example = indented
		switch {
		case strings.TrimSpace(line) == "":
			if i > 0 {
				r.request("PP")
			}
			continue
		case example:
			line = strings.TrimPrefix(line, "  ")
		}
		r.line(line)
	}
	if example {
		r.request("fi")
		r.request("RE")
	}
}

// line writes one line of text, which must not look like a request.
func (r *roff) line(s string) {
	if b := r.buf.Bytes(); (len(b) == 0 || b[len(b)-1] == '\n') && strings.HasPrefix(s, ".") || strings.HasPrefix(s, "'") {
		s = "\x01" + s
	}
	r.buf.WriteString(strings.NewReplacer("\x00", `\-`, "\x01", `\&`).Replace(escape(s)))
}

// TextBold implements mango.Builder.
func (r *roff) TextBold(text string) { r.font('B', text) }

// TextItalic implements mango.Builder.
func (r *roff) TextItalic(text string) { r.font('I', text) }

func (r *roff) font(name byte, text string) {
	if !r.skips() {
		fmt.Fprintf(&r.buf, `\f%c%s\fP`, name, escape(text))
	}
}

// String implements mango.Builder.
func (r *roff) String() string {
	r.endLine()
	return r.buf.String()
}

// escape writes what roff would take for a command or turn into another character. A
// hyphen stays one that can be copied from the page.
func escape(s string) string {
	return strings.NewReplacer(`\`, `\e`, "-", `\-`, "^", `\(ha`, "~", `\(ti`, "`", `\(ga`, "'", `\(aq`).Replace(s)
}
