package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/gorxe/gorxe/internal/explain/plural"
	"github.com/gorxe/gorxe/internal/pcap/ladder"
	"github.com/gorxe/gorxe/internal/pcap/plot"
	"github.com/gorxe/gorxe/internal/pcap/read"
	"github.com/gorxe/gorxe/internal/pcap/report"
	"github.com/gorxe/gorxe/internal/sys/terminal"
	"github.com/gorxe/gorxe/rocev2/capture"
	"github.com/gorxe/gorxe/rocev2/conformance"
)

type pcapShowCmd struct {
	File    string       `arg:"" predictor:"file" help:"Capture: pcap or pcapng, plain or gzip; - is standard input."`
	Quiet   bool         `short:"q" xor:"much" help:"Print no ordinary packet, as --notable."`
	Verbose bool         `short:"v" xor:"much" help:"Print every field."`
	Ladder  bool         `help:"Draw a ladder diagram for each flow."`
	HTML    string       `name:"html" placeholder:"FILE" predictor:"file" help:"Write the ladder diagrams as one HTML page; - is standard output."`
	QP      []queuePair  `placeholder:"QPN" help:"Only flows of these queue pairs."`
	Host    []netip.Addr `placeholder:"ADDRESS" help:"Only flows of these addresses."`
	Notable bool         `help:"Only packets that are retransmitted, refused, damaged or break a rule; with --ladder and --html also those around them."`
	Limit   int          `placeholder:"N" help:"Show at most this many packets (default: all lines, or 2000 packets of ladders)."`
	JSON    bool         `name:"json" help:"Print each packet as JSON, an object in each line. -v adds the fields of every header."`
	Color   string       `enum:"auto,always,never" default:"auto" help:"Color lines and ladders: auto, always or never (default: ${default})."`
}

// Help is the part of `gorxe pcap show --help` above the flags.
func (pcapShowCmd) Help() string {
	return `Prints one line for each packet: number, seconds since the first, addresses, and the transport headers. Flags follow the PSN: S for a solicited event, A for an acknowledge request, F for FECN, B for BECN and C for CE in the IP header. The findings of gorxe pcap check are printed below their packet.

A ladder shows the first packets of each flow and those around notable ones, up to --limit. It says how many are left out.

The exit code is 0. It is 1 if the file cannot be read, if it has no RDMA packet, or if it has none of the queue pairs and hosts chosen, and 2 if the command line is wrong. A file that ends within a packet is shown up to there, with a warning.

Examples:
  gorxe pcap show run.pcapng
  gorxe pcap show -v --qp 0x11 run.pcapng
  gorxe pcap show --ladder --notable run.pcapng
  gorxe pcap show --json run.pcapng | jq -r 'select(.syndrome) | .packet'
  gorxe pcap show --html run.html run.pcapng`
}

// queuePair is a queue pair number on the command line, in any base.
type queuePair uint32

// UnmarshalText implements encoding.TextUnmarshaler.
func (q *queuePair) UnmarshalText(text []byte) error {
	n, err := strconv.ParseUint(string(text), 0, 24)
	if err != nil {
		return fmt.Errorf("%q is not a queue pair number", text)
	}
	*q = queuePair(n)
	return nil
}

func (q queuePair) String() string { return fmt.Sprintf("0x%06x", uint32(q)) }

// Run shows the capture.
func (c pcapShowCmd) Run(std streams) error {
	if c.Limit < 0 {
		return usageError{fmt.Errorf("--limit %d: it must not be negative", c.Limit)}
	}
	if c.Verbose && (c.Ladder || c.HTML != "") {
		return usageError{errors.New("-v is for lines only: a ladder shows no fields, and the page shows them on click")}
	}
	if c.JSON && (c.Ladder || c.HTML != "") {
		return usageError{errors.New("--json prints packets: it goes with neither --ladder nor --html")}
	}
	file, err := read.Open(context.Background(), c.File, nil)
	if err != nil {
		return of(c.File, err)
	}
	defer file.Close()
	filter := ladder.Filter{Notable: c.Notable || c.Quiet}
	for _, q := range c.QP {
		filter.QPs = append(filter.QPs, uint32(q))
	}
	for _, h := range c.Host {
		filter.Hosts = append(filter.Hosts, h.Unmap())
	}
	color := c.Color == "always" || c.Color == "auto" && terminal.Colors(std.out)
	if !c.Ladder && c.HTML == "" {
		return c.lines(file, std, filter, color)
	}
	return c.draw(file, std, filter, color)
}

// show passes each packet of the file to visit. A file that ends within a packet is shown up to
// there.
func (c pcapShowCmd) show(file *read.File, std streams, visit func(*capture.Packet, *conformance.Verdict) error) (*conformance.Report, error) {
	r, err := file.Check(conformance.Options{}, visit)
	if r == nil {
		r = new(conformance.Report)
	}
	if r.Cut {
		warnCut(std, c.File, r.CutAt)
	}
	if err != nil {
		err = of(c.File, err)
	}
	return r, err
}

func (c pcapShowCmd) lines(file *read.File, std streams, filter ladder.Filter, color bool) error {
	out := bufio.NewWriter(std.out)
	l := ladder.Lines{Out: out, Filter: filter, Verbose: c.Verbose, Color: color, Limit: c.Limit, JSON: c.JSON}
	r, readErr := c.show(file, std, l.Add)
	err := l.Findings(r.AtEnd)
	err = errors.Join(err, out.Flush())
	if l.LeftOut > 0 {
		note := std.out
		if c.JSON {
			note = std.err
		}
		fmt.Fprintf(note, "left out because of --limit: %s\n", plural.Of(l.LeftOut, "packet"))
	}
	return errors.Join(readErr, err, c.none(std, r, readErr, l.Chosen, l.Printed()))
}

// none returns an error if no packet was chosen, and says so if none of them was notable.
func (c pcapShowCmd) none(std streams, r *conformance.Report, readErr error, chosen uint64, shown int) error {
	switch {
	case readErr != nil:
		return nil // which says enough
	case chosen == 0 && len(r.Flows)+r.Forgotten == 0:
		return of(c.File, report.ErrNoRDMA)
	case chosen == 0:
		return of(c.File, c.noMatch(r.Flows))
	case c.Notable && shown == 0:
		fmt.Fprintf(std.err, "gorxe: %s: no packet was sent again, refused or damaged, and none breaks a rule\n", printable(c.File))
	}
	return nil
}

// noMatch says which queue pairs and hosts there are.
func (c pcapShowCmd) noMatch(flows []*conformance.Flow) error {
	qps, hosts := make(map[string]bool), make(map[string]bool)
	for _, f := range flows {
		qps[queuePair(f.QPN).String()] = true
		if f.SourceQPN != 0 {
			qps[queuePair(f.SourceQPN).String()] = true
		}
		hosts[f.Src.Unmap().String()], hosts[f.Dst.Unmap().String()] = true, true
	}
	var wanted, there []string
	if len(c.QP) > 0 {
		wanted, there = append(wanted, joinedAny("queue pair", c.QP)), append(there, "the queue pairs "+some(qps))
	}
	if len(c.Host) > 0 {
		wanted, there = append(wanted, joinedAny("host", c.Host)), append(there, "the hosts "+some(hosts))
	}
	return fmt.Errorf("no packet of %s: the capture has %s", strings.Join(wanted, " and "), strings.Join(there, ", and "))
}

func joinedAny[T fmt.Stringer](noun string, list []T) string {
	names := make([]string, len(list))
	for i, x := range list {
		names[i] = x.String()
	}
	return noun + " " + strings.Join(names, " or ")
}

// some lists names in order, up to a number that can be read.
func some(names map[string]bool) string {
	const most = 20
	list := slices.Sorted(maps.Keys(names))
	if more := len(list) - most; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(list[:most], ", "), more)
	}
	return strings.Join(list, ", ")
}

func (c pcapShowCmd) draw(file *read.File, std streams, filter ladder.Filter, color bool) error {
	l := ladder.Collector{Filter: filter, MaxRows: c.Limit}
	if c.HTML != "" {
		l.Plot = new(plot.Collector)
	}
	r, readErr := c.show(file, std, func(p *capture.Packet, v *conformance.Verdict) error {
		l.Add(p, v)
		return nil
	})
	if readErr != nil && r.Packets == 0 {
		return readErr
	}
	l.Findings(r.AtEnd)
	shown, _ := l.LeftOut()
	if err := c.none(std, r, readErr, l.Chosen(), int(l.Chosen()-shown)); err != nil {
		return err
	}
	if c.Ladder {
		out := bufio.NewWriter(std.out)
		if err := errors.Join(l.WriteText(out, color), out.Flush()); err != nil {
			return err
		}
	}
	trouble := readErr
	if r.Cut {
		trouble = errors.New(report.CutText(r.CutAt))
	}
	if c.HTML != "" {
		page := func(w io.Writer) error { return l.WriteHTML(w, file.Title, r.Summary, trouble) }
		err := error(nil)
		if c.HTML == "-" {
			err = page(std.out)
		} else {
			err = writeTo(c.HTML, page)
		}
		if err != nil {
			return err
		}
	}
	return readErr
}
