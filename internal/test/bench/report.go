package bench

import (
	"fmt"
	"io"
	"math"
	"os"
	"runtime"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

// Report is what was measured.
type Report struct {
	Machine     Machine    `json:"machine"`
	Repetitions int        `json:"repetitions"`
	Missing     string     `json:"missing,omitempty"` // why there are no rows of TwoDaemons
	Baselines   []Baseline `json:"baselines"`
	Rows        []*Result  `json:"rows"`
}

// Machine is where, and how busy that was with other things before and with the
// measurement after: the load average of one minute.
type Machine struct {
	CPUs       int     `json:"cpus"`
	Arch       string  `json:"arch"`
	Kernel     string  `json:"kernel"`
	LoadBefore float64 `json:"load_before"`
	LoadAfter  float64 `json:"load_after"`
}

// Series are the figures of all repetitions, in the order they were taken.
type Series struct {
	Samples []float64 `json:"samples"`
	Median  float64   `json:"median"`
	Low     float64   `json:"low"`
	High    float64   `json:"high"`
}

func (s *Series) add(v float64) {
	s.Samples = append(s.Samples, v)
	sorted := slices.Sorted(slices.Values(s.Samples))
	n := len(sorted)
	s.Median = (sorted[(n-1)/2] + sorted[n/2]) / 2
	s.Low, s.High = sorted[0], sorted[n-1]
}

// spread is the range of the figures, as a part of the median.
func (s *Series) spread() float64 { return (s.High - s.Low) / s.Median }

// Baseline is what rows are compared with.
type Baseline struct {
	Name string `json:"name"`
	Unit string `json:"unit"`
	Series
}

// Result is a row with its figures.
type Result struct {
	Name string `json:"name"`
	Row
	Iterations int    `json:"iterations"` // messages in each repetition
	Unit       string `json:"unit"`
	Failed     string `json:"failed,omitempty"`
	Series
	first sample // with which the number of iterations was found

	// OfUDP is the figure divided by that of plain UDP, in datagrams of the same size over
	// the same network. For a latency it says how many times as long a message takes.
	OfUDP float64 `json:"of_udp,omitempty"`
	// OfLibrary is the figure divided by that of the Go library, which needs no daemon.
	OfLibrary float64 `json:"of_library,omitempty"`
	// OfTwoRuns is the figure of a row of OneRun, divided by that of OneDaemon.
	OfTwoRuns float64 `json:"of_two_runs,omitempty"`
	// Processor is the processor time of the daemons for one message, µs.
	Processor Series `json:"processor_us"`
	// Least is what the system calls that move a message take, each measured by itself, µs. Of a
	// bandwidth it is their processor time, as in Processor, and of a latency their time.
	Least float64 `json:"least_us,omitempty"`
	// Calls is the time of one message, as a multiple of the time of a trapped call.
	Calls float64 `json:"trapped_calls,omitempty"`
}

// fill takes over what was measured.
func (rep *Report) fill(r *run) {
	for _, b := range r.baselines {
		rep.Baselines = append(rep.Baselines, Baseline{b.name(), b.kind.Unit(), *r.udp[b]})
	}
	rep.Rows = r.rows
	for _, res := range r.rows {
		res.Unit = res.Kind.Unit()
		udp, call := r.udp[res.udp()], r.udp[trapped]
		if len(res.Samples) == 0 || udp == nil || call == nil {
			continue
		}
		res.OfUDP = res.Median / udp.Median
		if lib := r.udp[res.library()]; lib != nil {
			res.OfLibrary = res.Median / lib.Median
		}
		res.fillLeast(r)
		if two := r.inTwoRuns(res.Row); two != nil {
			res.OfTwoRuns = res.Median / two.Median
		}
		res.Calls = float64(res.each(res.Median).Nanoseconds()) / 1e3 / call.Median
	}
}

// fillLeast fills Least.
func (r *Result) fillLeast(measured *run) {
	for _, p := range r.leasts() {
		if s := measured.udp[p.of]; s != nil {
			r.Least += s.Median * p.times
		}
	}
}

// inTwoRuns is the result of the row of OneDaemon that a row of OneRun is compared with,
// nil if there is none.
func (r *run) inTwoRuns(row Row) *Result {
	for _, res := range r.rows {
		if row.Place == OneRun && res.Place == OneDaemon && res.what() == row.what() && len(res.Samples) > 0 {
			return res
		}
	}
	return nil
}

// Print writes the report as one table.
func (rep *Report) Print(w io.Writer) {
	m := rep.Machine
	fmt.Fprintf(w, "perftest under gorxe run: %d cores, %s, Linux %s, load %.1f before and %.1f after; median of %d, ± half the range\n\n",
		m.CPUs, m.Arch, m.Kernel, m.LoadBefore, m.LoadAfter, rep.Repetitions)
	for _, b := range rep.Baselines {
		fmt.Fprintf(w, "%s %s\n", pad(b.Name, 30), b.cell(kindOf(b.Unit)))
	}
	const what = 34
	column := func(title string) string { return pad(title, 24) + " of UDP  of lib  calls     CPU  least  s/GiB" }
	fmt.Fprintf(w, "\n%s %s   %s of two runs  of lib     CPU   %s\n", pad("", what),
		column("one daemon, two runs"), pad("one run", 24), column("two daemons, veth"))
	for _, line := range rep.lines() {
		fmt.Fprintf(w, "%s %s   %s   %s\n", pad(line.what, what), line.cell(OneDaemon), line.together(), line.cell(TwoDaemons))
	}
	fmt.Fprint(w, "\nof UDP: of what plain UDP does with GSO and GRO, in datagrams of the same size, on loopback and on the veth\n"+
		"of lib: of what the Go library does in one process; beside two daemons with two devices on loopback\n"+
		"processors apart: the time that a cache line takes from one processor to another one, and back\n"+
		"calls: the time of one message over that of one trapped call\n"+
		"CPU: processor time of the daemons for one message, µs; for ib_read_lat and ib_atomic_lat a round trip\n"+
		"least: what the system calls that move a message take, each by itself, µs: processor time, or of a latency its time\n"+
		"s/GiB: processor time of the daemons for 1 GiB, s\n"+
		"of two runs: what two programs do under one gorxe run, of what they do under one each\n")
	if rep.Missing != "" {
		fmt.Fprintf(w, "%s\n", rep.Missing)
	}
}

// line is one line of the table: the same in both places.
type line struct {
	what    string
	results map[string]*Result
}

func (rep *Report) lines() (lines []*line) {
	for _, res := range rep.Rows {
		what := res.what()
		i := slices.IndexFunc(lines, func(l *line) bool { return l.what == what })
		if i < 0 {
			i = len(lines)
			lines = append(lines, &line{what, map[string]*Result{}})
		}
		lines[i].results[res.Place] = res
	}
	return lines
}

func (l *line) cell(place string) string {
	res := l.results[place]
	if text := res.without(); text != "" {
		return pad(text, 68)
	}
	calls := fmt.Sprintf("%.2f", res.Calls)
	if res.Calls == 0 { // not compared
		calls = ""
	}
	return fmt.Sprintf("%s %7s %7s %6s %7s %6s %6s", pad(res.cell(res.Kind), 24),
		res.ratio(res.OfUDP), res.ratio(res.OfLibrary), calls, res.processor(), res.least(), res.perGiB())
}

// together is the cell of one run, compared with two.
func (l *line) together() string {
	res := l.results[OneRun]
	if text := res.without(); text != "" {
		return pad(text, 52)
	}
	ratio := fmt.Sprintf("%.0f %%", 100*res.OfTwoRuns)
	switch {
	case res.OfTwoRuns == 0: // not compared
		ratio = ""
	case res.Kind == Latency:
		ratio = fmt.Sprintf("x %.2f", res.OfTwoRuns)
	}
	return fmt.Sprintf("%s %11s %7s %7s", pad(res.cell(res.Kind), 24), ratio, res.ratio(res.OfLibrary), res.processor())
}

// ratio is a figure divided by that of a baseline, as the table has it; empty if it is 0.
func (r *Result) ratio(v float64) string {
	switch {
	case v == 0:
		return ""
	case r.Kind == Latency:
		return fmt.Sprintf("x %.1f", v)
	default:
		return fmt.Sprintf("%.2g %%", 100*v)
	}
}

// perGiB is the median of Processor for 1 GiB of a bandwidth, in seconds.
func (r *Result) perGiB() string {
	if r.Kind != Bandwidth || len(r.Processor.Samples) == 0 {
		return ""
	}
	return fmt.Sprintf("%.2f", r.Processor.Median/1e6*(1<<30)/float64(r.Size))
}

// processor is the median of Processor, empty if it was not measured.
func (r *Result) processor() string {
	if len(r.Processor.Samples) == 0 {
		return ""
	}
	return fmt.Sprintf("%.3g", r.Processor.Median)
}

// least is Least, empty if it was not measured.
func (r *Result) least() string {
	if r.Least == 0 {
		return ""
	}
	return fmt.Sprintf("%.3g", r.Least)
}

// without is what stands in the place of figures, empty if there are some.
func (r *Result) without() string {
	switch {
	case r == nil, r.Failed == "" && len(r.Samples) == 0:
		return "-"
	case r.Failed != "":
		return "failed"
	default:
		return ""
	}
}

func (s *Series) cell(k Kind) string {
	if len(s.Samples) == 0 {
		return "-"
	}
	return fmt.Sprintf("%9s %-10s ±%.0f %%", number(k, s.Median), k.Unit(), 50*s.spread())
}

// number prints a figure with as many digits as it deserves.
func number(k Kind, v float64) string {
	switch k {
	case Messages:
		digits := math.Pow(10, max(0, math.Floor(math.Log10(v))-2))
		return grouped(int(math.Round(v/digits) * digits))
	case Bandwidth:
		return fmt.Sprintf("%.2f", v)
	default:
		return fmt.Sprintf("%.1f", v)
	}
}

// grouped is 1234567 as 1,234,567.
func grouped(n int) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

func pad(s string, n int) string {
	return s + strings.Repeat(" ", max(0, n-utf8.RuneCountInString(s)))
}

func kindOf(unit string) Kind {
	for _, k := range []Kind{Bandwidth, Messages, Distance} {
		if k.Unit() == unit {
			return k
		}
	}
	return Latency
}

func thisMachine() Machine {
	m := Machine{CPUs: runtime.NumCPU(), Arch: runtime.GOARCH, LoadBefore: load()}
	var u unix.Utsname
	if unix.Uname(&u) == nil {
		m.Kernel = unix.ByteSliceToString(u.Release[:])
	}
	return m
}

// load is the load average of the last minute.
func load() (v float64) {
	text, err := os.ReadFile("/proc/loadavg")
	if err == nil {
		fmt.Sscan(string(text), &v) //nolint:errcheck // 0 then
	}
	return v
}
