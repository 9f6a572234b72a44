package report

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/gorxe/gorxe/internal/explain/plural"
	"github.com/gorxe/gorxe/rocev2/conformance"
)

// WriteSummary prints a table of the flows, and one of the rules with findings.
func (c *Capture) WriteSummary(w io.Writer, form Form) {
	s := &c.Summary
	if len(s.Flows) > 0 {
		writeTable(w, flowColumns(s.Flows), form)
		fmt.Fprintln(w)
	}
	if s.Violations+s.Warnings+s.Notes > 0 {
		writeTable(w, c.ruleColumns(), form)
		fmt.Fprintln(w)
	}
}

func flowColumns(flows []*conformance.Flow) []column {
	columns := []column{
		{head: "FLOW"}, {head: "SERVICE", left: true}, {head: "FROM", left: true}, {head: "QP", left: true},
		{head: "TO", left: true}, {head: "QP", left: true}, {head: "PEER"}, {head: "MTU"}, {head: "PACKETS"}, {head: "REQUESTS"},
		{head: "RESPONSES"}, {head: "MESSAGES"}, {head: "BYTES"}, {head: "RESENT"}, {head: "TIMEOUTS"}, {head: "GAVE UP"}, {head: "DOUBLE"},
		{head: "GAPS"}, {head: "MISSING"}, {head: "NAK"}, {head: "RNR"}, {head: "REJ"}, {head: "CNP"}, {head: "READS"},
		{head: "VIOLATIONS"}, {head: "WARNINGS"}, {head: "NOTES"},
	}
	for _, f := range flows {
		i := flowOf(f)
		row := []string{fmt.Sprint(i.ID), i.Service, i.Source, i.SourceQP, i.Destination, i.DestinationQP, number(i.Peer), number(i.PathMTU)}
		for _, n := range []uint64{i.Packets, i.Requests, i.Responses, i.Messages, i.Bytes, i.Retransmissions, i.Timeouts, i.GaveUp,
			i.Duplicates, i.Gaps, i.Missing, i.NAKs, i.RNRs, i.Rejects, i.CNPs, uint64(i.MaxReads), i.Violations, i.Warnings, i.Notes} {
			row = append(row, fmt.Sprint(n))
		}
		for k := range columns {
			columns[k].cells = append(columns[k].cells, row[k])
		}
	}
	return columns
}

func (c *Capture) ruleColumns() []column {
	columns := []column{
		{head: "RULE", left: true}, {head: "VIOLATIONS"}, {head: "WARNINGS"}, {head: "NOTES"}, {head: "FIRST PACKET"},
		{head: "TEXT", left: true, text: true},
	}
	for _, rule := range conformance.Rules() {
		n := c.Of(rule.Name)
		if n.Total() == 0 {
			continue
		}
		row := []string{rule.Name, fmt.Sprint(n.Violations), fmt.Sprint(n.Warnings), fmt.Sprint(n.Notes), fmt.Sprint(n.FirstPacket), rule.Text}
		for k := range columns {
			columns[k].cells = append(columns[k].cells, row[k])
		}
	}
	return columns
}

// number is empty for what is not known.
func number(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprint(n)
}

// WriteVerdict prints one line that sums the capture up, first what went wrong and then whether
// rules were broken, and what limits the verdict. File is the name to be shown.
func (c *Capture) WriteVerdict(w io.Writer, file string, color Paint) {
	s := &c.Summary
	var also []string
	for _, n := range []struct {
		n    uint64
		what string
	}{
		{s.RoCEv1, "RoCEv1"}, {s.InfiniBand, "InfiniBand"}, {s.Truncated, "cut"}, {s.Other, "of other protocols"},
	} {
		if n.n > 0 {
			also = append(also, fmt.Sprintf("%d %s", n.n, n.what))
		}
	}
	of := ""
	if len(also) > 0 {
		of = " (" + strings.Join(also, ", ") + ")"
	}
	happened := s.Happened()
	if happened != "" {
		happened = color.of(conformance.Warning, happened) + "; "
	}
	fmt.Fprintf(w, "%s: %s%s, %s: %s%s, %s, %s\n", file, plural.Of(s.Packets, "packet"), of, plural.Of(len(s.Flows), "flow"), happened,
		color.count(conformance.Violation, s.Violations, plural.Of(s.Violations, "violation")),
		color.count(conformance.Warning, s.Warnings, plural.Of(s.Warnings, "warning")), plural.Of(s.Notes, "note"))
	if c.Drops > 0 {
		fmt.Fprintf(w, "%s: the file records %s as lost\n", file, plural.Of(c.Drops, "packet"))
	}
	if s.ClockSteps > 0 {
		fmt.Fprintf(w, "%s: the clock goes back %s, by up to %v: what rests on times is doubtful\n", file, plural.Of(s.ClockSteps, "time"), s.ClockBack.Round(time.Millisecond))
	}
	if s.Forgotten > 0 {
		fmt.Fprintf(w, "%s: forgotten, to bound memory: %s\n", file, plural.Of(s.Forgotten, "flow"))
	}
}
