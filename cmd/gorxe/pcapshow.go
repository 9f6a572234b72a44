package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"strconv"

	"github.com/gorxe/gorxe/internal/pcap/ladder"
	"github.com/gorxe/gorxe/internal/pcap/read"
	"github.com/gorxe/gorxe/rocev2/capture"
	"github.com/gorxe/gorxe/rocev2/conformance"
)

type pcapShowCmd struct {
	File    string       `arg:"" predictor:"file" help:"Capture: pcap or pcapng, plain or gzip; - is standard input."`
	Verbose bool         `short:"v" help:"Print every field."`
	Ladder  bool         `help:"Draw a ladder diagram for each flow."`
	HTML    string       `name:"html" placeholder:"FILE" predictor:"file" help:"Write the ladder diagrams as one HTML page; - is standard output."`
	QP      []queuePair  `placeholder:"QPN" help:"Only flows of these queue pairs."`
	Host    []netip.Addr `placeholder:"ADDRESS" help:"Only flows of these addresses."`
	Notable bool         `help:"Only packets that are retransmitted, refused, damaged or break a rule; with --ladder and --html also those around them."`
	Limit   int          `placeholder:"N" help:"Show at most this many packets (default: all lines, or 2000 packets of ladders)."`
	Color   string       `enum:"auto,always,never" default:"auto" help:"Color lines and ladders: auto, always or never (default: ${default})."`
}

// Help is the part of `gorxe pcap show --help` above the flags.
func (pcapShowCmd) Help() string {
	return `Prints one line for each packet: number, seconds since the first, addresses, and the transport headers. Flags follow the PSN: S for a solicited event, A for an acknowledge request, F for FECN, B for BECN and C for CE in the IP header. The findings of gorxe pcap check are printed below their packet.

A ladder shows the first packets of each flow and those around notable ones, up to --limit. It says how many are left out.

The exit code is 0. It is 1 if the file cannot be read to its end, and 2 if the command line is wrong.

Examples:
  gorxe pcap show run.pcapng
  gorxe pcap show -v --qp 0x11 run.pcapng
  gorxe pcap show --ladder --notable run.pcapng
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

// Run shows the capture.
func (c pcapShowCmd) Run(std streams) error {
	if c.Limit < 0 {
		return usageError{fmt.Errorf("--limit %d: it must not be negative", c.Limit)}
	}
	if c.Verbose && (c.Ladder || c.HTML != "") {
		return usageError{errors.New("-v is for lines only: a ladder shows no fields, and the page shows them on click")}
	}
	file, err := read.Open(context.Background(), c.File, nil)
	if err != nil {
		return err
	}
	defer file.Close()
	filter := ladder.Filter{Notable: c.Notable}
	for _, q := range c.QP {
		filter.QPs = append(filter.QPs, uint32(q))
	}
	for _, h := range c.Host {
		filter.Hosts = append(filter.Hosts, h.Unmap())
	}
	color := c.Color == "always" || c.Color == "auto" && isTerminal(std.out) && os.Getenv("NO_COLOR") == ""
	if !c.Ladder && c.HTML == "" {
		return c.lines(file, std, filter, color)
	}
	return c.draw(file, std, filter, color)
}

// show passes each packet of the file to visit. A file that ends within a packet was
// not read to its end.
func show(file *read.File, visit func(*capture.Packet, *conformance.Verdict) error) (*conformance.Report, error) {
	r, err := file.Check(conformance.Options{}, visit)
	switch {
	case r == nil:
		r = new(conformance.Report)
	case r.Cut:
		err = capture.ErrCut
	}
	return r, err
}

func (c pcapShowCmd) lines(file *read.File, std streams, filter ladder.Filter, color bool) error {
	out := bufio.NewWriter(std.out)
	l := ladder.Lines{Out: out, Filter: filter, Verbose: c.Verbose, Color: color, Limit: c.Limit}
	r, readErr := show(file, l.Add)
	err := l.Findings(r.AtEnd)
	if l.LeftOut > 0 {
		fmt.Fprintf(out, "%d packets are left out because of --limit.\n", l.LeftOut)
	}
	return errors.Join(readErr, err, out.Flush())
}

func (c pcapShowCmd) draw(file *read.File, std streams, filter ladder.Filter, color bool) error {
	l := ladder.Collector{Filter: filter, MaxRows: c.Limit}
	r, readErr := show(file, func(p *capture.Packet, v *conformance.Verdict) error {
		l.Add(p, v)
		return nil
	})
	if readErr != nil && r.Packets == 0 {
		return readErr
	}
	l.Findings(r.AtEnd)
	if c.Ladder {
		out := bufio.NewWriter(std.out)
		if err := errors.Join(l.WriteText(out, color), out.Flush()); err != nil {
			return err
		}
	}
	if c.HTML != "" {
		page := func(w io.Writer) error { return l.WriteHTML(w, file.Title, r.Summary, readErr) }
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
