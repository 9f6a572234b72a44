package sanitize

import (
	"bufio"
	"fmt"
	"io"
	"path"
	"strings"

	"github.com/gorxe/gorxe/internal/explain/plural"
)

// Suppressions are findings that the user knows and does not want to hear of.
type Suppressions []suppression

// suppression is a line of a file of them. What is empty matches everything.
type suppression struct {
	check                  string // a word of ParseSelection
	function, file, module string // patterns of a frame
	object, program        string // patterns
}

// ParseSuppressions reads lines: a check, a group or all, and keys with commas in front of them, as
// "leak,function=ucp_*,object=queue pair". A finding matches if all keys do.
func ParseSuppressions(r io.Reader) (list Suppressions, err error) {
	lines := bufio.NewScanner(r)
	for n := 1; lines.Scan(); n++ {
		text := strings.TrimSpace(lines.Text())
		if text == "" || strings.HasPrefix(text, "#") {
			continue
		}
		s, err := parseSuppression(text)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		list = append(list, s)
	}
	return list, lines.Err()
}

func parseSuppression(text string) (s suppression, err error) {
	words := strings.Split(text, ",")
	if s.check = strings.TrimSpace(words[0]); !known(s.check) {
		return s, fmt.Errorf("%q is no check: give all, a group (%s) or a name (%s)", s.check, strings.Join(groups(), ", "), strings.Join(names(), ", "))
	}
	for _, word := range words[1:] {
		key, value, ok := strings.Cut(strings.TrimSpace(word), "=")
		to := map[string]*string{"function": &s.function, "file": &s.file, "module": &s.module, "object": &s.object, "program": &s.program}[key]
		if to == nil || !ok || value == "" {
			return s, fmt.Errorf("%q is no key with a value: give function=, file=, module=, object= or program=", word)
		}
		if _, err := path.Match(value, ""); err != nil {
			return s, fmt.Errorf("%q is no pattern: %w", value, err)
		}
		*to = value
	}
	return s, nil
}

// Suppress marks what the user does not want to hear of. The report has its lines (Place.Lines).
func (r *Report) Suppress(list Suppressions) {
	for i := range r.Findings {
		for j := range list {
			if list[j].matches(&r.Findings[i]) {
				r.Findings[i].Suppressed = true
				break
			}
		}
	}
}

func (s *suppression) matches(f *Finding) bool {
	if c := checkOf(f.Check); c == nil || !c.is(s.check) || !like(s.program, f.Program) {
		return false
	}
	return s.ofObject(f) && s.ofFrame(f)
}

// ofObject compares with an object, with or without its number.
func (s *suppression) ofObject(f *Finding) bool {
	for _, o := range f.Objects {
		kind, _, _ := strings.Cut(o, " 0x")
		if like(s.object, o) || like(s.object, kind) {
			return true
		}
	}
	return s.object == ""
}

// ofFrame reports whether one frame has the function, the file and the module.
func (s *suppression) ofFrame(f *Finding) bool {
	for i := range f.Places {
		for j := range f.Places[i].Lines {
			l := &f.Places[i].Lines[j]
			if like(s.function, l.Function) && like(s.file, path.Base(l.File)) && like(s.module, l.Module) {
				return true
			}
		}
	}
	return s.function == "" && s.file == "" && s.module == ""
}

func like(pattern, text string) bool {
	ok, err := path.Match(pattern, text)
	return pattern == "" || ok && err == nil
}

// Brief says in one line what a finding is: the check, what happened, and the first line of the
// program that is known.
func (f *Finding) Brief() string {
	text := f.Check + ": " + f.What
	if f.Count > 1 {
		text += fmt.Sprintf(" (%s)", plural.Of(f.Count, "time"))
	}
	if l := f.line(); l != nil {
		text += fmt.Sprintf(" (%s:%d)", path.Base(l.File), l.Line)
	}
	return text
}

// line is the first line of the program that a finding names; nil: there is none.
func (f *Finding) line() *Frame {
	for i := range f.Places {
		if l := f.Places[i].line(); l != nil {
			return l
		}
	}
	return nil
}

// own reports whether a frame has a line, and not one of a header of the verbs, whose functions
// compilers put into those of programs.
func (f *Frame) own() bool {
	dir := path.Base(path.Dir(f.File))
	return f.File != "" && dir != "infiniband" && dir != "rdma"
}

func (p *Place) line() *Frame {
	for i := range p.Lines {
		if p.Lines[i].own() {
			return &p.Lines[i]
		}
	}
	return nil
}
