package ladder

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/gorxe/gorxe/rocev2/capture"
	"github.com/gorxe/gorxe/rocev2/conformance"
)

// Lines prints one line for each packet while packets are read.
type Lines struct {
	Out     io.Writer
	Filter  Filter
	Verbose bool // every field
	Color   bool // of a terminal
	Limit   int  // packets printed at most; 0: all
	JSON    bool // an object in each line

	LeftOut uint64 // by Limit
	Chosen  uint64 // by Filter, whether notable or not

	row     Row
	start   time.Time
	started bool
	printed int
}

// Printed returns how many packets were printed.
func (l *Lines) Printed() int { return l.printed }

// Add prints a packet, if the filter chooses it, and the findings that it caused. Some
// may be about earlier packets.
func (l *Lines) Add(p *capture.Packet, v *conformance.Verdict) error {
	if !l.started {
		l.start, l.started = p.Time, true
	}
	if !l.Filter.flow(p, v) {
		return nil
	}
	l.Chosen++
	l.row.set(p, v)
	l.row.Findings = append(l.row.Findings, v.Findings...)
	if l.Filter.Notable && !l.row.Notable() {
		return nil
	}
	if l.Limit > 0 && l.printed == l.Limit {
		l.LeftOut++
		return nil
	}
	l.printed++
	return l.print()
}

func (l *Lines) print() error {
	r := &l.row
	if l.JSON {
		return writeJSON(l.Out, r.json(l.start, l.Verbose))
	}
	style, end := "", ""
	if l.Color {
		style, end = terminalStyle(r)
	}
	_, err := fmt.Fprintf(l.Out, "%s%6d %s  %v > %v  %s%s%s\n", style, r.Number, clock(r.Time.Sub(l.start)),
		r.Src, r.Dst, r.Words(), tagText(r), end)
	if err == nil && l.Verbose {
		err = l.fields()
	}
	for i := range r.Findings {
		if err == nil {
			err = l.finding(&r.Findings[i])
		}
	}
	return err
}

func (l *Lines) fields() error {
	for _, h := range l.row.Headers() {
		parts := make([]string, len(h.Fields))
		for i, f := range h.Fields {
			parts[i] = f.Name + " " + f.Value
		}
		if _, err := fmt.Fprintf(l.Out, "         %-12s %s\n", h.Name, strings.Join(parts, ", ")); err != nil {
			return err
		}
	}
	return nil
}

// finding prints a finding below the packet that caused it.
func (l *Lines) finding(x *conformance.Finding) error {
	about := ""
	if x.Packet != l.row.Number {
		about = fmt.Sprintf("packet %d: ", x.Packet)
	}
	_, err := fmt.Fprintf(l.Out, "         ^ %s%s\n", about, findingText(x))
	return err
}

// Findings prints the findings that the end of the capture brings.
func (l *Lines) Findings(all []conformance.Finding) error {
	for i := range all {
		x := &all[i]
		if len(l.Filter.Hosts)+len(l.Filter.QPs) > 0 && !l.concerns(x) {
			continue
		}
		var err error
		if l.JSON {
			err = writeJSON(l.Out, &JSONPacket{Packet: x.Packet, AtEnd: true, Findings: []JSONFinding{jsonFinding(x)}})
		} else {
			_, err = fmt.Fprintf(l.Out, "       at the end: packet %d: %s\n", x.Packet, findingText(x))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (l *Lines) concerns(x *conformance.Finding) bool {
	f := x.Flow
	if f == nil {
		return false
	}
	p := capture.Packet{Kind: f.Kind, Src: f.Src, Dst: f.Dst}
	p.Transport = []byte{5: byte(f.QPN >> 16), 6: byte(f.QPN >> 8), 7: byte(f.QPN), 11: 0}
	return l.Filter.flow(&p, &conformance.Verdict{Flow: f})
}

func findingText(x *conformance.Finding) string {
	return fmt.Sprintf("%v %s: expected %s, seen %s (%s)", x.Severity, x.Rule.Name, x.Expected, x.Seen, x.Rule.Clause)
}

func tagText(r *Row) string {
	tags := r.Tags()
	if len(tags) == 0 {
		return ""
	}
	return "  [" + strings.Join(tags, ", ") + "]"
}

// clock formats a time since the first packet, in seconds.
func clock(d time.Duration) string { return fmt.Sprintf("%11.6f", d.Seconds()) }

// terminalStyle returns the SGR sequences before and after a row that stands out.
func terminalStyle(r *Row) (begin, end string) {
	const reset = "\x1b[0m"
	switch {
	case r.Severity() == conformance.Violation || r.ICRC == conformance.ICRCBad:
		return "\x1b[31m", reset // red
	case r.Negative():
		return "\x1b[35m", reset // magenta
	case r.Severity() == conformance.Warning || len(r.Tags()) > 0:
		return "\x1b[33m", reset // yellow
	}
	return "", ""
}
