package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/gorxe/gorxe/internal/explain/plural"
	"github.com/gorxe/gorxe/internal/service/proto"
	"github.com/gorxe/gorxe/internal/sys/terminal"
)

type topCmd struct {
	Socket   string        `placeholder:"PATH" predictor:"file" help:"Socket of the daemon (default: $$GORXE_SOCKET; else /run/gorxe.sock for root; else gorxe.sock in $$XDG_RUNTIME_DIR, /run/user/UID or /tmp/gorxe-UID, then /run/gorxe.sock)."`
	Interval time.Duration `default:"1s" help:"Time between two reports, over which the rates are (default: ${default})."`
	JSON     bool          `name:"json" help:"Print one JSON object for each report, on one line, instead of tables."`
	Sort     string        `enum:"packets,sent,received,lost,queued,process" default:"packets" help:"Sort by packets, sent, received, lost, queued or process (default: ${default}). In a terminal, keys change it."`
	Count    int           `placeholder:"N" help:"End after N reports (default: when interrupted)."`
}

// Help is the part of `gorxe top --help` above the flags.
func (topCmd) Help() string {
	return `Shows what each program does with its queue pairs, the busiest first. QUEUED are work requests in the send queue that are not completed. SENT and RCVD are payload in Mbit/s, PKTS/S packets in both directions, and LOST/S what was sent again or dropped. The label of a run, if it has one, stands before the name of its program. The first report has the rates since the queue pairs were made. The line "all" has the sums. In a terminal, each device has a line of its last rates, q ends, and p, s, r, l, u and n sort.

The exit code is 0, 1 if no daemon is reachable, 2 if the command line is wrong.

Examples:
  gorxe top
  gorxe top --interval 5s --count 2
  gorxe top --json --count 1`
}

var errTopDone = errors.New("the last report was printed")

// Run prints reports.
func (c topCmd) Run(newContext contexts, std streams) error {
	if err := checkRepeat(c.Interval, c.Count); err != nil {
		return err
	}
	if !c.JSON && terminal.Is(std.out) {
		return c.live(newContext, std)
	}
	var before *sample
	return repeatTimes(newContext, c.Interval, c.Count, func() error {
		st, err := askStatus(c.Socket)
		if err != nil {
			return err
		}
		now := newSample(st, time.Now())
		if !c.JSON && before != nil {
			fmt.Fprintln(std.out)
		}
		write := writeTop
		if c.JSON {
			write = writeTopJSON
		}
		if err := write(std.out, now, before, &topView{paint: paintOf(std.out), sort: c.Sort}); err != nil {
			return err
		}
		before = now
		return nil
	})
}

// A sample is a status and the time at which it was true.
type sample struct {
	at    time.Time
	st    *proto.Status
	since map[qpKey]map[string]uint64 // the counters of the queue pairs
}

// qpKey names a queue pair: a number may be another queue pair's later, of another process.
type qpKey struct {
	pid    int
	device string
	qpn    uint32
}

func newSample(st *proto.Status, at time.Time) *sample {
	s := &sample{at: at, st: st, since: make(map[qpKey]map[string]uint64)}
	for p, f := range files(st) {
		for _, q := range f.QPs {
			s.since[qpKey{p.PID, f.Device, q.QPN}] = q.Counters
		}
	}
	return s
}

// topRow is a queue pair, with rates in a second.
type topRow struct {
	key                          qpKey
	name, label, kind, state     string
	queued                       uint32
	sent, received, packets, bad float64
}

// rows returns the queue pairs, by what they are sorted by, the largest first.
func (s *sample) rows(before *sample, by string) (rows []topRow) {
	labels := make(map[*proto.ProcessStatus]string)
	for i := range s.st.Sessions {
		for j := range s.st.Sessions[i].Processes {
			labels[&s.st.Sessions[i].Processes[j]] = s.st.Sessions[i].Label
		}
	}
	for p, f := range files(s.st) {
		for _, q := range f.QPs {
			key := qpKey{p.PID, f.Device, q.QPN}
			from, seconds := map[string]uint64(nil), 0.0
			if before != nil {
				from, seconds = before.since[key], s.at.Sub(before.at).Seconds()
			} else {
				seconds = s.at.Sub(s.st.Started).Seconds()
			}
			rate := func(names ...string) (sum float64) {
				for _, n := range names {
					if q.Counters[n] > from[n] { // else another queue pair had the number
						sum += float64(q.Counters[n] - from[n])
					}
				}
				return sum / max(seconds, 1e-3)
			}
			rows = append(rows, topRow{
				key: key, name: p.Name, label: labels[p], kind: q.Type, state: q.State, queued: q.SendQueue,
				sent: rate("sent_bytes"), received: rate("rcvd_bytes"), packets: rate("sent_packets", "rcvd_packets"),
				bad: rate("retransmits", "dropped"),
			})
		}
	}
	slices.SortStableFunc(rows, func(a, b topRow) int {
		if by == "process" {
			return cmp.Compare(a.key.pid, b.key.pid)
		}
		return cmp.Compare(b.value(by), a.value(by))
	})
	return rows
}

// value is what a row is sorted by.
func (r *topRow) value(by string) float64 {
	switch by {
	case "sent":
		return r.sent
	case "received":
		return r.received
	case "lost":
		return r.bad
	case "queued":
		return float64(r.queued)
	}
	return r.packets
}

// writeTop prints a report.
func writeTop(w io.Writer, now, before *sample, v *topView) error {
	rows, height := now.rows(before, v.sort), v.height
	programs := make(map[int]struct{})
	for p := range files(now.st) {
		programs[p.PID] = struct{}{}
	}
	fmt.Fprintf(w, "%s, %s, %s; SENT and RCVD in Mbit/s\n", now.at.Format(time.TimeOnly), plural.Of(len(programs), "program"), plural.Of(len(rows), "queue pair"))
	for i, line := range wrap(v.devices(now, before), columns(w)) {
		if i == 0 || line != "" {
			fmt.Fprintln(w, line)
		}
	}
	left, all := 0, rows
	if room := max(height-8, 1); height > 0 && len(rows) > room {
		left = len(rows) - room
		rows = rows[:room]
	}
	name := 11 + max(0, min(columns(w)-80, 20)) // letters
	var text bytes.Buffer
	t := tabwriter.NewWriter(&text, 0, 0, 1, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "PROCESS\tPROGRAM\tDEVICE\tQPN\tTYPE\tSTATE\tQUEUED\tSENT\tRCVD\tPKTS/S\tLOST/S\t")
	for _, r := range rows {
		fmt.Fprintf(t, "%d\t%.*s\t%.6s\t0x%06x\t%s\t%s\t%d\t%s\t%s\t%s\t%s\t\n", r.key.pid, name, printable(strings.TrimSpace(r.label+" "+r.name)), r.key.device, r.key.qpn,
			r.kind, r.state, r.queued, megabits(r.sent*8/1e6), megabits(r.received*8/1e6), short(r.packets, 1000), short(r.bad, 1000))
	}
	if len(all) > 1 {
		writeTotals(t, all)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if err := v.rows(w, text.String(), rows); err != nil {
		return err
	}
	v.footer(w)
	if left > 0 {
		fmt.Fprintf(w, "and %s more\n", plural.Of(left, "queue pair"))
	}
	return nil
}

// writeTotals prints the sums of all queue pairs.
func writeTotals(t io.Writer, rows []topRow) {
	var all topRow
	queued := uint64(0)
	for i := range rows {
		r := &rows[i]
		queued += uint64(r.queued)
		all.sent, all.received, all.packets, all.bad = all.sent+r.sent, all.received+r.received, all.packets+r.packets, all.bad+r.bad
	}
	fmt.Fprintf(t, "all\t\t\t\t\t\t%d\t%s\t%s\t%s\t%s\t\n", queued, megabits(all.sent*8/1e6), megabits(all.received*8/1e6), short(all.packets, 1000), short(all.bad, 1000))
}

// rows prints the lines of the table: the head bold, queue pairs that lose something yellow, and
// those in ERR red.
func (v *topView) rows(w io.Writer, text string, rows []topRow) error {
	fmt.Fprintln(w)
	i := -1
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		switch {
		case i < 0 || i >= len(rows):
			line = v.as(bold, line)
		case rows[i].state == "ERR":
			line = v.as(red, line)
		case rows[i].bad > 0:
			line = v.as(yellow, line)
		}
		i++
		if _, err := fmt.Fprintln(w, line); err != nil {
			return err
		}
	}
	return nil
}

// devices says what each device does, also for queue pairs that are gone.
func (v *topView) devices(now, before *sample) string {
	var b strings.Builder
	for _, d := range now.devices(before) {
		fmt.Fprintf(&b, "%s: %s packets/s, %s dropped/s", d.Name, short(d.Packets, 1000), short(d.Dropped, 1000))
		if list := v.history[d.Name]; len(list) > 1 {
			b.WriteString(" " + spark(list))
		}
		b.WriteString("; ")
	}
	return strings.TrimSuffix(b.String(), "; ")
}

// megabits writes a rate in Mbit/s, as all tables do.
func megabits(n float64) string {
	switch {
	case n >= 0.05 && n < 9.95:
		return fmt.Sprintf("%.1f", n)
	case n >= 999_999.5:
		return short(n, 1000)
	}
	return fmt.Sprintf("%.0f", n)
}

// short writes a number with at most five characters: 999, 1.5k, 23M.
func short(n, step float64) string {
	i := 0
	for n >= 999.5 && i < len(unitLetters)-1 {
		n /= step
		i++
	}
	if i > 0 && n < 9.95 {
		return fmt.Sprintf("%.1f%s", n, unitLetters[i:i+1])
	}
	return strings.TrimSpace(fmt.Sprintf("%.0f%s", n, unitLetters[i:i+1]))
}

const unitLetters = " kMGT"
