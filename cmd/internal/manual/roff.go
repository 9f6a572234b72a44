package manual

import (
	"bytes"
	"fmt"
	"strings"
	"time"
)

// roff writes a page.
type roff struct{ buf bytes.Buffer }

// newRoff begins a page.
func newRoff(section int, title string, build Build) *roff {
	date := ""
	if !build.Date.IsZero() {
		date = build.Date.UTC().Format(time.DateOnly)
	}
	r := new(roff)
	fmt.Fprintf(&r.buf, ".TH %s %d %q %q %q\n", strings.ToUpper(escape(title)), section, date, "gorxe "+build.Version, "gorxe manual")
	r.buf.WriteString(".nh\n.ad l\n") // options must not be hyphenated
	return r
}

// request begins a line with a request.
func (r *roff) request(name string, args ...any) {
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

func (r *roff) heading(name string) { r.request("SH", strings.ToUpper(name)) }

// section writes a section, if there is something to say.
func (r *roff) section(name, text string) {
	if text != "" {
		r.heading(name)
		r.text(text)
	}
}

// name writes the section of that name. Its dash is the one that is not a hyphen.
func (r *roff) name(name, what string) {
	r.heading("Name")
	r.line(name)
	r.buf.WriteString(` \- `)
	r.buf.WriteString(escape(what))
}

// tagged begins a paragraph with a tag.
func (r *roff) tagged(tag string) {
	r.request("TP")
	fmt.Fprintf(&r.buf, `\fB%s\fP`, escape(tag))
}

// text writes paragraphs. An empty line begins one, and indented lines are an example.
func (r *roff) text(text string) {
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
		r.buf.WriteString(`\&`)
	}
	r.buf.WriteString(escape(s))
}

// String ends the page.
func (r *roff) String() string {
	r.endLine()
	return r.buf.String()
}

// escape writes what roff would take for a command or turn into another character. A
// hyphen stays one that can be copied from the page.
func escape(s string) string {
	return strings.NewReplacer(`\`, `\e`, "-", `\-`, "^", `\(ha`, "~", `\(ti`, "`", `\(ga`, "'", `\(aq`).Replace(s)
}
