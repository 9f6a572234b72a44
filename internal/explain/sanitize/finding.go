package sanitize

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode"

	"github.com/gorxe/gorxe/internal/explain/plural"
)

// Finding is one misuse.
type Finding struct {
	Check   string   `json:"check"`
	Level   Level    `json:"level"`
	PID     int      `json:"pid"`
	Program string   `json:"program"`
	Device  string   `json:"device"`
	What    string   `json:"what"`
	Objects []string `json:"objects,omitempty"` // that it is about, as "queue pair 0x11"
	Places  []Place  `json:"places,omitempty"`
	Drawing []string `json:"drawing,omitempty"` // of the region
	PSN     *uint32  `json:"psn,omitempty"`     // of the packet
	See     string   `json:"see"`
	Count   int      `json:"count"` // how often it was found
	// Suppressed says that the user has a rule against it (Suppressions). It does not count.
	Suppressed bool `json:"suppressed,omitempty"`
}

// Place is what happened where in a program.
type Place struct {
	What  string  `json:"what"`            // as "the region was registered"
	Stack *Stack  `json:"stack,omitempty"` // nil: not known
	Lines []Frame `json:"lines,omitempty"` // that Stack stands for, innermost first
}

// Stack is what a thread had on its stack when it made a call. What it means is known to the reader
// of the program's files only.
type Stack struct {
	TID   int    `json:"tid"`
	PC    uint64 `json:"pc"`
	SP    uint64 `json:"sp"`
	Bytes []byte `json:"bytes"` // from SP on
	Maps  int    `json:"maps"`  // index into Report.Maps; negative: not known
	// Near says that the program posts too fast to be stopped at each post, and was stopped here
	// for the last time before.
	Near bool `json:"near,omitempty"`
	// Lines are what it means, if the caller knew.
	Lines []Frame `json:"-"`
}

// Frame is one function of a stack.
type Frame struct {
	Function string `json:"function,omitempty"`
	File     string `json:"file,omitempty"` // of the source; empty: not known
	Line     int    `json:"line,omitempty"`
	Module   string `json:"module,omitempty"` // the program or a library
	Offset   uint64 `json:"offset"`           // in the function, or without one in the module
}

func (f *Frame) String() string {
	switch {
	case f.File != "":
		return fmt.Sprintf("%s:%d in %s", f.File, f.Line, f.Function)
	case f.Function != "":
		return fmt.Sprintf("%s+%#x (%s)", f.Function, f.Offset, f.Module)
	}
	return fmt.Sprintf("%s+%#x", f.Module, f.Offset)
}

// title is what happened, and how sure the stack is.
func (p *Place) title() string {
	if p.Stack != nil && p.Stack.Near {
		return p.What + ", at this place or another: posts came too fast to stop at each, and this was the last stop before"
	}
	return p.What
}

// Report is what a Session has found.
type Report struct {
	Findings []Finding `json:"findings"`
	LeftOut  int       `json:"left_out,omitempty"` // findings that there was no room for
	// Unseen is how many objects and work requests there was no room to watch.
	Unseen int      `json:"unseen,omitempty"`
	Maps   []string `json:"maps,omitempty"` // /proc/PID/maps of the programs
}

// Count returns how many findings have a level, and are not suppressed.
func (r *Report) Count(level Level) (n int) {
	for i := range r.Findings {
		if r.Findings[i].Level == level && !r.Findings[i].Suppressed {
			n++
		}
	}
	return n
}

// Worst returns the findings that are not suppressed, the errors first and the notes last.
func (r *Report) Worst() (list []*Finding) {
	for _, level := range []Level{Error, Warning, Note} {
		for i := range r.Findings {
			if f := &r.Findings[i]; f.Level == level && !f.Suppressed {
				list = append(list, f)
			}
		}
	}
	return list
}

// Killed forgives a process what it left behind: a signal ended it.
func (r *Report) Killed(pid int) {
	r.Findings = slices.DeleteFunc(r.Findings, func(f Finding) bool { return f.PID == pid && f.Check == leak })
}

// Write prints the report as text.
func (r *Report) Write(w io.Writer) {
	suppressed := 0
	for i := range r.Findings {
		if r.Findings[i].Suppressed {
			suppressed++
			continue
		}
		r.Findings[i].write(w)
	}
	fmt.Fprintf(w, "gorxe: sanitizer: %s, %s, %s", plural.Of(r.Count(Error), "error"), plural.Of(r.Count(Warning), "warning"), plural.Of(r.Count(Note), "note"))
	if suppressed > 0 {
		fmt.Fprintf(w, "; %d suppressed", suppressed)
	}
	if r.LeftOut > 0 {
		fmt.Fprintf(w, "; %s more left out", plural.Of(r.LeftOut, "finding"))
	}
	if r.Unseen > 0 {
		fmt.Fprintf(w, "; %s not watched, for want of room", plural.Of(r.Unseen, "object or request"))
	}
	fmt.Fprintln(w)
}

func (f *Finding) write(w io.Writer) {
	times := ""
	if f.Count > 1 {
		times = fmt.Sprintf(" (%d times)", f.Count)
	}
	fmt.Fprintf(w, "==%d== %s: %s: %s%s\n", f.PID, strings.ToUpper(string(f.Level)), f.Check, f.What, times)
	fmt.Fprintf(w, "    in %s, device %s\n", clean(f.Program), f.Device)
	for i := range f.Places {
		p := &f.Places[i]
		fmt.Fprintf(w, "    %s\n", p.title())
		lines := p.Lines
		if lines == nil && p.Stack != nil {
			lines = p.Stack.Lines
		}
		if lines == nil && p.Stack == nil {
			fmt.Fprintln(w, "      where is not known")
		}
		for n := range lines {
			fmt.Fprintf(w, "      #%d %s\n", n, clean(lines[n].String()))
		}
	}
	for _, line := range f.Drawing {
		fmt.Fprintf(w, "    %s\n", line)
	}
	if f.PSN != nil {
		fmt.Fprintf(w, "    packet: PSN 0x%06x\n", *f.PSN)
	}
	fmt.Fprintf(w, "    see %s; --sanitize=-%s switches this check off\n", f.See, f.Check)
}

// clean makes text of a program harmless for a terminal. Control characters are 0 to 0x1f and 0x7f
// to 0x9f (ISO/IEC 6429, console_codes(4)). Others turn a line round (Unicode's UAX 9), or end it.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp) {
			return '?'
		}
		return r
	}, s)
}
