package demo

import (
	"fmt"
	"io"
	"text/tabwriter"
)

// reporter writes the report, and a progress line where there is a terminal.
// Errors of writing are not looked at: the demo's result does not depend on them.
type reporter struct {
	out      io.Writer
	terminal io.Writer // nil: none
}

func (r *reporter) printf(format string, args ...any) {
	r.clearProgress()
	fmt.Fprintf(r.out, format, args...)
}

// progress says what is being done. On a terminal it replaces the last such
// line; elsewhere the results say enough.
func (r *reporter) progress(format string, args ...any) {
	if r.terminal != nil {
		fmt.Fprintf(r.terminal, "\r\x1b[K"+format+" ...", args...)
	}
}

func (r *reporter) clearProgress() {
	if r.terminal != nil {
		fmt.Fprint(r.terminal, "\r\x1b[K")
	}
}

func (r *reporter) verified(operation, how string) {
	r.printf("verified  %-26s %s\n", operation, how)
}

// tables prints the measurements.
func (r *reporter) tables(speeds []bandwidth, delays []latency) {
	r.printf("\n")
	t := tabwriter.NewWriter(r.out, 0, 0, 2, ' ', tabwriter.AlignRight)
	if len(speeds) > 0 {
		fmt.Fprintln(t, "bandwidth\tsize\tMiB/s\tmessages/s\t")
		for _, b := range speeds {
			perSecond := float64(b.messages) / b.elapsed.Seconds()
			fmt.Fprintf(t, "%s\t%s\t%.0f\t%.0f\t\n", b.name, sizeString(b.size),
				perSecond*float64(b.size)/(1<<20), perSecond)
		}
		_ = t.Flush()
		r.printf("\n")
	}
	fmt.Fprintln(t, "latency\tsize\tmedian µs\t99 % µs\tsamples\t")
	for _, l := range delays {
		fmt.Fprintf(t, "%s\t%s\t%.1f\t%.1f\t%d\t\n", l.name, sizeString(l.size),
			float64(l.median.Nanoseconds())/1e3, float64(l.p99.Nanoseconds())/1e3, l.samples)
	}
	_ = t.Flush()
}

// sizeString is a number of bytes in the largest binary unit that divides it.
func sizeString(n int) string {
	switch {
	case n >= 1<<20 && n%(1<<20) == 0:
		return fmt.Sprintf("%d MiB", n>>20)
	case n >= 1<<10 && n%(1<<10) == 0:
		return fmt.Sprintf("%d KiB", n>>10)
	default:
		return fmt.Sprintf("%d B", n)
	}
}
