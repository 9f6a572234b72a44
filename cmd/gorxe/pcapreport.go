package main

import (
	"encoding/xml"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/gorxe/gorxe/rocev2/conformance"
)

// findingPrinter prints findings as they come, up to a number of each rule.
type findingPrinter struct {
	w     io.Writer
	limit int
	count map[*conformance.Rule]int
}

func newFindingPrinter(w io.Writer, limit int) *findingPrinter {
	return &findingPrinter{w: w, limit: limit, count: map[*conformance.Rule]int{}}
}

// wants counts a finding and tells whether it is to be shown.
func (f *findingPrinter) wants(x *conformance.Finding) bool {
	f.count[x.Rule]++
	return f.limit == 0 || f.count[x.Rule] <= f.limit
}

func (f *findingPrinter) print(file string, x *conformance.Finding) {
	fmt.Fprintf(f.w, "%s: packet %d, %s: %s: %s (%s)\n", file, x.Packet, clock(x.Time), x.Severity, x.Rule.Name, x.Rule.Clause)
	if x.Flow != nil {
		fmt.Fprintf(f.w, "    flow      %s\n", x.Flow)
	}
	fmt.Fprintf(f.w, "    expected  %s\n    seen      %s\n", x.Expected, x.Seen)
}

// rest says how much was not printed.
func (f *findingPrinter) rest() {
	for _, r := range conformance.Rules() {
		if n := f.count[r] - f.limit; f.limit > 0 && n > 0 {
			fmt.Fprintf(f.w, "%s: %d more; --max 0 prints all\n", r.Name, n)
		}
	}
	if len(f.count) > 0 {
		fmt.Fprintln(f.w)
	}
}

func clock(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05.000000") }

// writeSummary prints a table of flows, and one of the rules that were broken.
func writeSummary(w io.Writer, r *captureReport) error {
	s := &r.summary
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	if len(s.Flows) > 0 {
		fmt.Fprintln(t, "FLOW\tSERVICE\tFROM\tQP\tTO\tQP\tPEER\tMTU\tPACKETS\tREQUESTS\tRESPONSES\tMESSAGES\tBYTES\tRESENT\tDOUBLE\tGAPS\tMISSING\tNAK\tRNR\tCNP\tREADS\tVIOLATIONS\tWARNINGS\tNOTES")
	}
	for _, f := range s.Flows {
		i := flowInfoOf(f)
		fmt.Fprintf(t, "%d\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\n",
			i.ID, i.Service, i.Source, orDash(i.SourceQP), i.Destination, i.DestinationQP, number(i.Peer), number(i.PathMTU),
			i.Packets, i.Requests, i.Responses, i.Messages, i.Bytes, i.Retransmissions, i.Duplicates, i.Gaps, i.Missing,
			i.NAKs, i.RNRs, i.CNPs, i.MaxReads, i.Violations, i.Warnings, i.Notes)
	}
	if s.Violations+s.Warnings+s.Notes > 0 {
		fmt.Fprintln(t, "\nRULE\tVIOLATIONS\tWARNINGS\tNOTES\tFIRST PACKET\tTEXT")
		for i, rule := range conformance.Rules() {
			if n := &s.PerRule[i]; n.Total() > 0 {
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

// number is empty for what is not known.
func number(n int) string {
	if n == 0 {
		return "-"
	}
	return fmt.Sprint(n)
}

// writeVerdict prints the line that sums a file up.
func writeVerdict(w io.Writer, r *captureReport) {
	s := &r.summary
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
	fmt.Fprintf(w, "%s: %s%s, %s: %s, %s, %s\n", r.file, plural(s.Packets, "packet"), of, plural(uint64(len(s.Flows)), "flow"),
		plural(s.Violations, "violation"), plural(s.Warnings, "warning"), plural(s.Notes, "note"))
	if r.drops > 0 {
		fmt.Fprintf(w, "%s: by its own account the file lacks %s\n", r.file, plural(r.drops, "packet"))
	}
	if r.cut {
		fmt.Fprintf(w, "%s: the file ends within a packet\n", r.file)
	}
	if s.Forgotten > 0 {
		fmt.Fprintf(w, "%s: %d flows were forgotten, for lack of memory\n", r.file, s.Forgotten)
	}
}

func plural(n uint64, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// captureInfo is one file as --json prints it.
type captureInfo struct {
	File       string        `json:"file"`
	Error      string        `json:"error,omitempty"`
	Cut        bool          `json:"cut,omitempty"`
	Drops      uint64        `json:"drops,omitempty"`
	Packets    uint64        `json:"packets"`
	RoCEv2     uint64        `json:"rocev2"`
	RoCEv1     uint64        `json:"rocev1"`
	InfiniBand uint64        `json:"infiniband"`
	Other      uint64        `json:"other"`
	Truncated  uint64        `json:"truncated"`
	Violations uint64        `json:"violations"`
	Warnings   uint64        `json:"warnings"`
	Notes      uint64        `json:"notes"`
	Rules      []ruleTally   `json:"rules"`
	Flows      []flowInfo    `json:"flows"`
	Findings   []findingInfo `json:"findings"`
}

type ruleTally struct {
	Name        string `json:"name"`
	Violations  uint64 `json:"violations"`
	Warnings    uint64 `json:"warnings"`
	Notes       uint64 `json:"notes"`
	FirstPacket int    `json:"first_packet"`
}

type flowInfo struct {
	ID              int     `json:"id"`
	Kind            string  `json:"kind"`
	Service         string  `json:"service"`
	Source          string  `json:"source"`
	SourceQP        string  `json:"source_qp,omitempty"`
	Destination     string  `json:"destination"`
	DestinationQP   string  `json:"destination_qp"`
	Peer            int     `json:"peer,omitempty"`
	PathMTU         int     `json:"path_mtu,omitempty"`
	PKey            string  `json:"p_key"`
	QKey            string  `json:"q_key,omitempty"`
	FirstPacket     int     `json:"first_packet"`
	Packets         uint64  `json:"packets"`
	Requests        uint64  `json:"requests"`
	Responses       uint64  `json:"responses"`
	Messages        uint64  `json:"messages"`
	Bytes           uint64  `json:"bytes"`
	Retransmissions uint64  `json:"retransmissions"`
	Duplicates      uint64  `json:"duplicates"`
	Late            uint64  `json:"late"`
	Gaps            uint64  `json:"gaps"`
	Missing         uint64  `json:"missing"`
	ACKs            uint64  `json:"acks"`
	NAKs            uint64  `json:"naks"`
	RNRs            uint64  `json:"rnrs"`
	CNPs            uint64  `json:"cnps"`
	CNPGap          float64 `json:"shortest_cnp_gap_seconds,omitempty"`
	Marked          uint64  `json:"ce_marked"`
	MaxReads        int     `json:"max_outstanding_reads"`
	Violations      uint64  `json:"violations"`
	Warnings        uint64  `json:"warnings"`
	Notes           uint64  `json:"notes"`
}

type findingInfo struct {
	Packet   int       `json:"packet"`
	Time     time.Time `json:"time"`
	Flow     int       `json:"flow,omitempty"`
	Rule     string    `json:"rule"`
	Severity string    `json:"severity"`
	Clause   string    `json:"clause"`
	Expected string    `json:"expected"`
	Seen     string    `json:"seen"`
}

func flowInfoOf(f *conformance.Flow) flowInfo {
	s := &f.Stats
	i := flowInfo{
		ID: f.ID, Kind: f.Kind.String(), Service: f.Service.String(),
		Source: f.Src.String(), Destination: f.Dst.String(), DestinationQP: fmt.Sprintf("%#06x", uint32(f.QPN)),
		PathMTU: s.PathMTU, PKey: fmt.Sprintf("%#04x", uint16(s.PKey)), FirstPacket: s.FirstPacket,
		Packets: s.Packets, Requests: s.Requests, Responses: s.Responses, Messages: s.Messages, Bytes: s.Bytes,
		Retransmissions: s.Retransmissions, Duplicates: s.Duplicates, Late: s.Late, Gaps: s.Gaps, Missing: s.Missing,
		ACKs: s.ACKs, NAKs: s.NAKs, RNRs: s.RNRs, CNPs: s.CNPs, CNPGap: s.CNPGap.Seconds(), Marked: s.Marked, MaxReads: s.MaxReads,
		Violations: s.Violations, Warnings: s.Warnings, Notes: s.Notes,
	}
	if f.Peer != nil {
		i.Peer, i.SourceQP = f.Peer.ID, fmt.Sprintf("%#06x", uint32(f.Peer.QPN))
	}
	if f.SourceQPN != 0 {
		i.SourceQP, i.QKey = fmt.Sprintf("%#06x", uint32(f.SourceQPN)), fmt.Sprintf("%#x", s.QKey)
	}
	return i
}

func jsonReports(reports []*captureReport) []captureInfo {
	all := make([]captureInfo, 0, len(reports))
	for _, r := range reports {
		s := &r.summary
		c := captureInfo{
			File: r.file, Cut: r.cut, Drops: r.drops, Packets: s.Packets, RoCEv2: s.RoCEv2, RoCEv1: s.RoCEv1,
			InfiniBand: s.InfiniBand, Other: s.Other, Truncated: s.Truncated,
			Violations: s.Violations, Warnings: s.Warnings, Notes: s.Notes,
			Rules: []ruleTally{}, Flows: []flowInfo{}, Findings: []findingInfo{},
		}
		if r.err != nil {
			c.Error = r.err.Error()
		}
		for i, rule := range conformance.Rules() {
			if n := &s.PerRule[i]; n.Total() > 0 {
				c.Rules = append(c.Rules, ruleTally{rule.Name, n.Violations, n.Warnings, n.Notes, n.FirstPacket})
			}
		}
		for _, f := range s.Flows {
			c.Flows = append(c.Flows, flowInfoOf(f))
		}
		for i := range r.findings {
			x := &r.findings[i]
			f := findingInfo{
				Packet: x.Packet, Time: x.Time.UTC(), Rule: x.Rule.Name, Severity: x.Severity.String(), Clause: x.Rule.Clause,
				Expected: x.Expected, Seen: x.Seen,
			}
			if x.Flow != nil {
				f.Flow = x.Flow.ID
			}
			c.Findings = append(c.Findings, f)
		}
		all = append(all, c)
	}
	return all
}

// The JUnit XML that CI systems read: a suite for each file, a case for each rule.
type junitSuites struct {
	XMLName xml.Name     `xml:"testsuites"`
	Suites  []junitSuite `xml:"testsuite"`
}

type junitSuite struct {
	Name     string      `xml:"name,attr"`
	Tests    int         `xml:"tests,attr"`
	Failures int         `xml:"failures,attr"`
	Errors   int         `xml:"errors,attr"`
	Skipped  int         `xml:"skipped,attr"`
	Time     string      `xml:"time,attr"`
	Cases    []junitCase `xml:"testcase"`
}

type junitCase struct {
	Class   string     `xml:"classname,attr"`
	Name    string     `xml:"name,attr"`
	Failure *junitText `xml:"failure,omitempty"`
	Error   *junitText `xml:"error,omitempty"`
	Skipped *struct{}  `xml:"skipped,omitempty"`
	Output  string     `xml:"system-out,omitempty"`
}

type junitText struct {
	Message string `xml:"message,attr"`
	Text    string `xml:",chardata"`
}

func writeJUnit(path string, reports []*captureReport, ignored []string, strict bool) error {
	var all junitSuites
	for _, r := range reports {
		all.Suites = append(all.Suites, junitOf(r, ignored, strict))
	}
	text, err := xml.MarshalIndent(all, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append([]byte(xml.Header), append(text, '\n')...), 0o666)
}

func junitOf(r *captureReport, ignored []string, strict bool) junitSuite {
	s := junitSuite{Name: r.file, Time: fmt.Sprintf("%.3f", r.elapsed.Seconds())}
	if r.err != nil {
		s.Errors++
		s.Cases = append(s.Cases, junitCase{Class: r.file, Name: "read", Error: &junitText{Message: r.err.Error()}})
	}
	for i, rule := range conformance.Rules() {
		n := &r.summary.PerRule[i]
		c := junitCase{Class: r.file, Name: rule.Name}
		var lines strings.Builder
		for j := range r.findings {
			if x := &r.findings[j]; x.Rule == rule {
				fmt.Fprintln(&lines, x)
			}
		}
		switch {
		case slices.Contains(ignored, rule.Name):
			s.Skipped++
			c.Skipped = &struct{}{}
		case n.Violations > 0 || strict && n.Warnings > 0:
			s.Failures++
			c.Failure = &junitText{
				Message: fmt.Sprintf("%s, %s: %s", plural(n.Violations, "violation"), plural(n.Warnings, "warning"), rule.Text),
				Text:    lines.String(),
			}
		default:
			c.Output = lines.String()
		}
		s.Cases = append(s.Cases, c)
	}
	s.Tests = len(s.Cases)
	return s
}
