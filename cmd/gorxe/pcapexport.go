package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/gorxe/gorxe/internal/explain/plural"
	"github.com/gorxe/gorxe/internal/pcap/ladder"
	"github.com/gorxe/gorxe/internal/pcap/plot"
	"github.com/gorxe/gorxe/internal/pcap/read"
	"github.com/gorxe/gorxe/internal/pcap/report"
	"github.com/gorxe/gorxe/rocev2/capture"
	"github.com/gorxe/gorxe/rocev2/conformance"
)

type pcapExportCmd struct {
	File     string `arg:"" predictor:"file" help:"Capture: pcap or pcapng, plain or gzip; - is standard input."`
	Perfetto string `required:"" placeholder:"FILE" predictor:"file" help:"Write the trace to this file; - is standard output."`
}

// Help is the part of `gorxe pcap export --help` above the flags.
func (pcapExportCmd) Help() string {
	return `Writes a capture as a trace in the trace event format, which ui.perfetto.dev opens without sending it anywhere. A host is a process of the trace, and a queue pair a thread. A message lasts from its first packet to its acknowledgement. Packets that were sent again, refused or lost, and CNPs are instants. Throughput and messages under way are counters.

The exit code is 0. It is 1 if the file cannot be read or has no RDMA packet, and 2 if the command line is wrong.

Examples:
  gorxe pcap export --perfetto run.json run.pcapng`
}

// Run writes the trace.
func (c pcapExportCmd) Run(std streams) error {
	file, err := read.Open(context.Background(), c.File, nil)
	if err != nil {
		return of(c.File, err)
	}
	defer file.Close()
	if c.Perfetto == "-" {
		return c.write(file, std.out, std)
	}
	return writeTo(c.Perfetto, func(w io.Writer) error { return c.write(file, w, std) })
}

func (c pcapExportCmd) write(file *read.File, w io.Writer, std streams) error {
	t := plot.NewTrace(w)
	t.Management = ladder.Management
	r, err := file.Check(conformance.Options{}, func(p *capture.Packet, v *conformance.Verdict) error {
		t.Add(p, v, ladder.Fault(p.Comment), ladder.Lost(p.Comment))
		return nil
	})
	if r == nil {
		r = new(conformance.Report)
	}
	if err != nil && r.Packets == 0 {
		return of(c.File, err)
	}
	if r.Cut {
		warnCut(std, c.File, r.CutAt)
	}
	if err != nil {
		err = of(c.File, err)
	} else if len(r.Flows)+r.Forgotten == 0 {
		err = of(c.File, report.ErrNoRDMA)
	}
	if messages, flows := t.LeftOut(); messages > 0 || flows > 0 {
		fmt.Fprintf(std.err, "gorxe: left out of the trace: %s that overlap too many others, %s\n", plural.Of(messages, "message"), plural.Of(flows, "flow"))
	}
	return errors.Join(err, t.Close())
}
