package verdict

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gorxe/gorxe/internal/explain/plural"
	"github.com/gorxe/gorxe/internal/fault"
	"github.com/gorxe/gorxe/internal/pcap/report"
)

// maxRows bounds each table of the page.
const maxRows = 20

// page writes the page of Markdown.
func (r *Run) page(w io.Writer, c *report.Capture) error {
	p := &page{w: w}
	p.line("# Verdict: %s", r.ending())
	p.line("\n`%s` ran for %s.", code(commandLine(r.Command)), r.Duration.Round(time.Millisecond))
	if r.Chaos != 0 {
		p.line("\nChaos was on: `--chaos %d` repeats it. A correct program passes with every seed.", r.Chaos)
	}
	r.hostsSection(p)
	p.line("\n## Who was at fault\n")
	for _, s := range r.blame(c) {
		p.line("- %s", s.text)
	}
	r.misuseSection(p)
	r.errorsSection(p)
	r.wireSection(p, c)
	protocolSection(p, c, r.Faults)
	r.objectsSection(p)
	r.faultsSection(p)
	p.line("\n## Files\n")
	for _, f := range [...][2]string{
		{CaptureFile, fmt.Sprintf("every packet, up to %d MiB", CaptureMax>>20)},
		{LadderFile, "all this as a page, with the packets of each connection"},
		{CheckFile, "what `gorxe pcap check` says of them; also as " + CheckJSON},
		{ErrorsFile, "the errors"}, {ObjectsFile, "the objects at the end"},
		{MisuseFile, "what the sanitizer found; also as " + SARIFFile},
		{FaultsFile, "the fault rules"}, {RunFile, "the command and its end"},
	} {
		if f[0] == MisuseFile && r.found() == nil {
			continue
		}
		if r.Report != nil || f[0] != ErrorsFile && f[0] != ObjectsFile {
			p.line("- `%s`: %s", f[0], f[1])
		}
	}
	return p.err
}

// page is a writer that remembers its first error.
type page struct {
	w   io.Writer
	err error
}

func (p *page) line(format string, args ...any) {
	if _, err := fmt.Fprintf(p.w, format+"\n", args...); p.err == nil {
		p.err = err
	}
}

// plain makes text one line without what a terminal might obey. A program chooses its name and its
// arguments.
func plain(s string) string {
	return strings.Map(func(c rune) rune {
		switch {
		case c == '\n', c == '\r', c == '\t':
			return ' '
		case !strconv.IsPrint(c):
			return '?'
		}
		return c
	}, s)
}

// commandLine is a command as a shell takes it.
func commandLine(args []string) string {
	words := make([]string, len(args))
	for i, arg := range args {
		if words[i] = arg; arg == "" || strings.ContainsAny(arg, " \t\n\"'`$\\;&|<>()*?[]{}~#!") {
			words[i] = "'" + strings.ReplaceAll(arg, "'", `'\''`) + "'"
		}
	}
	return strings.Join(words, " ")
}

// code makes text fit between backquotes.
func code(s string) string { return strings.ReplaceAll(plain(s), "`", "'") }

// codeCell makes text fit between backquotes in a table.
func codeCell(s string) string { return strings.ReplaceAll(code(s), "|", `\|`) }

// marks has what Markdown gives a meaning within a line.
var marks = strings.NewReplacer(`\`, `\\`, "|", `\|`, "<", "&lt;", "&", "&amp;", "*", `\*`, "[", `\[`, "`", "\\`")

// cell makes text fit into a table and into a line of Markdown.
func cell(s string) string { return marks.Replace(plain(s)) }

func (r *Run) errorsSection(p *page) {
	p.line("\n## What the device saw\n")
	if r.Report == nil {
		p.line("It is not known: %s.", cell(r.Trouble))
		return
	}
	e := &r.Report.Errors
	kept := r.kept()
	switch {
	case e.Total == 0:
		p.line("No verb was refused, and no work request failed.")
	case kept < e.Total:
		p.line("The last of %d errors:", e.Total)
	}
	for i, s := range r.happened() {
		if i == 0 && kept < e.Total || i == 0 && e.Total == 0 {
			p.line("")
		}
		p.line("%d. %s", i+1, s.text)
	}
}

func (r *Run) wireSection(p *page, c *report.Capture) {
	p.line("\n## What the wire saw\n")
	s := &c.Summary
	p.line("%s in %s.", plural.Of(s.RoCEv2, "packet"), plural.Of(uint64(len(s.Flows)), "flow"))
	if rep := r.Report; rep != nil && rep.CaptureLeftOut > 0 {
		p.line("The capture ends at its limit of %d MiB: %s came later, and %s judged.", CaptureMax>>20,
			plural.Of(rep.CaptureLeftOut, "packet"), map[bool]string{true: "is not", false: "are not"}[rep.CaptureLeftOut == 1])
	}
	if c.Err != nil && len(s.Flows) > 0 {
		p.line("It cannot be read to its end: %s.", cell(c.Err.Error()))
	}
	if len(s.Flows) == 0 {
		return
	}
	lost, line := "", ""
	if len(r.lost) > 0 {
		lost, line = " lost by a rule |", "---|"
	}
	p.line("\n| from | to | service | packets |%s sent again | not captured | NAK | RNR |", lost)
	p.line("|---|---|---|---|%s---|---|---|---|", line)
	for i, f := range s.Flows {
		if i == maxRows {
			p.line("\n%s more in `%s`.", plural.Of(uint64(len(s.Flows)-maxRows), "flow"), CheckFile)
			break
		}
		from := f.Src.String()
		if f.Peer != nil {
			from += fmt.Sprintf(" QP 0x%06x", uint32(f.Peer.QPN))
		}
		if lost != "" {
			lost = fmt.Sprintf(" %d |", r.lost[f])
		}
		p.line("| %s | %v QP 0x%06x | %v | %d |%s %d | %d | %d | %d |", from, f.Dst, uint32(f.QPN), f.Service,
			f.Stats.Packets, lost, f.Stats.Retransmissions, f.Stats.Missing, f.Stats.NAKs, f.Stats.RNRs)
	}
}

// protocolSection says of each sender whether it obeyed the protocol.
func protocolSection(p *page, c *report.Capture, faults []fault.Status) {
	p.line("\n## Whether each side obeyed the protocol\n")
	if len(c.Flows) == 0 {
		p.line("There was nothing to judge.")
		return
	}
	for _, s := range senders(c) {
		switch {
		case s.violations == 0 && s.warnings == 0:
			p.line("- %s obeyed it, in %s.", s.address, plural.Of(s.packets, "packet"))
		case s.violations == 0:
			p.line("- %s obeyed it, in %s, with %s.", s.address, plural.Of(s.packets, "packet"), plural.Of(s.warnings, "warning"))
		default:
			p.line("- **%s broke it**: %s in %s.", s.address, plural.Of(s.violations, "violation"), plural.Of(s.packets, "packet"))
		}
	}
	if c.Violations+c.Warnings > 0 {
		p.line("\n| packet | rule | clause | expected | seen |\n|---|---|---|---|---|")
		for i := range c.Findings[:min(len(c.Findings), maxRows)] {
			x := &c.Findings[i]
			p.line("| %d | %s | %s | %s | %s |", x.Packet, cell(x.Rule.Name), cell(x.Rule.Clause), cell(x.Expected), cell(x.Seen))
		}
	}
	if c.Violations > 0 && damaged(faults) != "" {
		p.line("\nThe fault rule `%s` damaged packets on purpose.", code(damaged(faults)))
	}
}

func (r *Run) objectsSection(p *page) {
	p.line("\n## Objects at the end\n")
	if r.Report == nil {
		p.line("They are not known.")
		return
	}
	rows := 0
	for _, proc := range slices.Concat(r.Report.Ended, r.Report.Session.Processes) {
		for i := range proc.Files {
			for _, q := range proc.Files[i].QPs {
				if rows == 0 {
					p.line("| process | device | queue pair | type | state | peer | work under way |\n|---|---|---|---|---|---|---|")
				}
				if rows++; rows > maxRows {
					continue
				}
				peer := "-"
				if q.Peer != nil {
					peer = fmt.Sprintf("0x%06x", q.Peer.QPN)
				}
				name := strings.ReplaceAll(nameOf(proc.Role, proc.Name, proc.PID), "|", `\|`)
				p.line("| %s | %s | 0x%06x | %s | %s | %s | %d |", name, cell(proc.Files[i].Device),
					q.QPN, q.Type, q.State, peer, q.SendQueue)
			}
		}
	}
	switch {
	case rows > maxRows:
		p.line("\n%s more in `%s`.", plural.Of(uint64(rows-maxRows), "queue pair"), ObjectsFile)
	case rows == 0:
		p.line("No process left a queue pair behind.")
	}
}

func (r *Run) faultsSection(p *page) {
	if len(r.Faults) == 0 {
		return
	}
	p.line("\n## Fault rules\n\n| rule | candidates | hit |\n|---|---|---|")
	for i := range r.Faults[:min(len(r.Faults), maxRows)] {
		f := &r.Faults[i]
		p.line("| `%s` | %d | %d |", codeCell(r.asTyped(f.Rule)), f.Candidates, f.Fired)
	}
	if len(r.Faults) > maxRows {
		p.line("\n%s more in `%s`.", plural.Of(uint64(len(r.Faults)-maxRows), "rule"), FaultsFile)
	}
}
