package report

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/gorxe/gorxe/rocev2/conformance"
)

// Capture is the verdict on one capture file.
type Capture struct {
	File    string
	Err     error // why the file could not be read to its end, or ErrNothing
	Elapsed time.Duration
	conformance.Report
}

// ErrNothing fails a capture without RDMA traffic. A check that judged nothing,
// because the interface or the filter was wrong, must not look like a clean one.
var ErrNothing = fmt.Errorf("nothing to judge: %w (--allow-empty passes that)", ErrNoRDMA)

// ErrNoRDMA says that a capture has no RDMA traffic.
var ErrNoRDMA = errors.New("no packet to UDP port 4791, of RoCEv1 or of InfiniBand, of which the BTH was captured")

// CutText says that a file ends within the packet that begins at a byte.
func CutText(at int64) string {
	return fmt.Sprintf("the file ends within a packet, which begins at byte %d: the packets before it were read", at)
}

// Empty reports whether no packet could be judged.
func (c *Capture) Empty() bool {
	return len(c.Flows)+c.Forgotten == 0 && c.Violations == 0
}

// Failed reports whether the capture fails the check. If strict, warnings fail it too, and so does
// a file that ends within a packet.
func (c *Capture) Failed(strict bool) bool {
	return c.Err != nil || c.Violations > 0 || strict && (c.Warnings > 0 || c.Cut)
}

// Findings prints findings as the checker makes them, and counts them.
type Findings struct {
	out    io.Writer
	limit  int
	counts map[*conformance.Rule]int

	Paint Paint // nil: no colors
}

// NewFindings returns a printer of up to limit findings of each rule; 0 means all.
func NewFindings(out io.Writer, limit int) *Findings {
	return &Findings{out: out, limit: limit, counts: make(map[*conformance.Rule]int)}
}

// Count counts a finding and reports whether it is within the limit.
func (f *Findings) Count(x *conformance.Finding) bool {
	f.counts[x.Rule]++
	return f.limit == 0 || f.counts[x.Rule] <= f.limit
}

// Print prints a finding.
func (f *Findings) Print(file string, x *conformance.Finding) {
	fmt.Fprintf(f.out, "%s: packet %d, %s: %s: %s (%s)\n", file, x.Packet, clock(x.Time), f.Paint.of(x.Severity, x.Severity.String()), x.Rule.Name, x.Rule.Clause)
	if x.Flow != nil {
		fmt.Fprintf(f.out, "    flow      %s\n", x.Flow)
	}
	fmt.Fprintf(f.out, "    expected  %s\n    seen      %s\n", x.Expected, x.Seen)
}

// Rest prints how many findings of each rule the limit left out.
func (f *Findings) Rest() {
	for _, r := range conformance.Rules() {
		if n := f.counts[r] - f.limit; f.limit > 0 && n > 0 {
			fmt.Fprintf(f.out, "%s: %d more; --max 0 prints all\n", r.Name, n)
		}
	}
	if len(f.counts) > 0 {
		fmt.Fprintln(f.out)
	}
}

func clock(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05.000000") }
