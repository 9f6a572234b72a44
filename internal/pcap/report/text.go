package report

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/gorxe/gorxe/internal/plural"
	"github.com/gorxe/gorxe/rocev2/conformance"
)

// WriteSummary prints a table of the flows, and one of the rules with findings.
func (c *Capture) WriteSummary(w io.Writer) error {
	s := &c.Summary
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	if len(s.Flows) > 0 {
		fmt.Fprintln(t, "FLOW\tSERVICE\tFROM\tQP\tTO\tQP\tPEER\tMTU\tPACKETS\tREQUESTS\tRESPONSES\tMESSAGES\tBYTES\tRESENT\tDOUBLE\tGAPS\tMISSING\tNAK\tRNR\tCNP\tREADS\tVIOLATIONS\tWARNINGS\tNOTES")
	}
	for _, f := range s.Flows {
		i := flowOf(f)
		fmt.Fprintf(t, "%d\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\n",
			i.ID, i.Service, i.Source, orDash(i.SourceQP), i.Destination, i.DestinationQP, number(i.Peer), number(i.PathMTU),
			i.Packets, i.Requests, i.Responses, i.Messages, i.Bytes, i.Retransmissions, i.Duplicates, i.Gaps, i.Missing,
			i.NAKs, i.RNRs, i.CNPs, i.MaxReads, i.Violations, i.Warnings, i.Notes)
	}
	if s.Violations+s.Warnings+s.Notes > 0 {
		fmt.Fprintln(t, "\nRULE\tVIOLATIONS\tWARNINGS\tNOTES\tFIRST PACKET\tTEXT")
		for _, rule := range conformance.Rules() {
			if n := s.Of(rule.Name); n.Total() > 0 {
				fmt.Fprintf(t, "%s\t%d\t%d\t%d\t%d\t%s\n", rule.Name, n.Violations, n.Warnings, n.Notes, n.FirstPacket, rule.Text)
			}
		}
	}
	if len(s.Flows) > 0 {
		fmt.Fprintln(t)
	}
	return t.Flush()
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// number prints - for what is not known.
func number(n int) string {
	if n == 0 {
		return "-"
	}
	return fmt.Sprint(n)
}

// WriteVerdict prints one line that sums the capture up, first what went wrong and then whether
// rules were broken, and what limits the verdict. File is the name to be shown.
func (c *Capture) WriteVerdict(w io.Writer, file string) {
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
		happened += "; "
	}
	fmt.Fprintf(w, "%s: %s%s, %s: %s%s, %s, %s\n", file, plural.Of(s.Packets, "packet"), of, plural.Of(len(s.Flows), "flow"), happened,
		plural.Of(s.Violations, "violation"), plural.Of(s.Warnings, "warning"), plural.Of(s.Notes, "note"))
	if c.Drops > 0 {
		fmt.Fprintf(w, "%s: the file records %s as lost\n", file, plural.Of(c.Drops, "packet"))
	}
	if c.Cut {
		fmt.Fprintf(w, "%s: the file ends within a packet\n", file)
	}
	if s.Forgotten > 0 {
		fmt.Fprintf(w, "%s: %d flows were forgotten, to bound memory\n", file, s.Forgotten)
	}
}
