package main

import (
	"bufio"
	"context"
	"errors"

	"github.com/gorxe/gorxe/internal/pcap/read"
	"github.com/gorxe/gorxe/internal/pcap/replay"
	"github.com/gorxe/gorxe/internal/pcap/report"
)

type pcapReplayCmd struct {
	Files   []string `arg:"" name:"file" predictor:"file" help:"Captures: pcap or pcapng, plain or gzip; - is standard input."`
	Quiet   bool     `short:"q" xor:"much" help:"Print one line for each file, and no session."`
	Verbose bool     `short:"v" xor:"much" help:"Print every session and every difference."`
	JSON    bool     `name:"json" help:"Print JSON."`
}

// Help is the part of `gorxe pcap replay --help` above the flags.
func (pcapReplayCmd) Help() string {
	return `Compares the engine of gorxe with captured devices. As responder it gets the captured requests, and as requester the captured responses. The packets that it sends are compared with those of the captured device. Nothing is sent over a network. The engine may coalesce acknowledgements differently, and time, credits and the first packet of a retry are free. All else is a difference, which is explained if the reason is known.

Of a capture that does not fit in memory, 384 MiB of packets or a million, the beginning is replayed, and a line says how much.

The exit code is 0 if all that was replayed is equal or explained. It is 1 if not, if a file cannot be read, or if no packet could be compared, and 2 if the command line is wrong. A file that ends within a packet is replayed up to there, with a warning.

Examples:
  gorxe pcap replay run.pcapng
  gorxe pcap replay -v captures/*.pcap`
}

var errNoComparison = errors.New("no packet could be compared")

// Run replays the captures.
func (c pcapReplayCmd) Run(std streams) error {
	out := bufio.NewWriter(std.out)
	var results []report.JSONReplay
	failed := false
	for _, name := range c.Files {
		r, err := replayFile(name)
		switch {
		case err != nil:
		case r.Empty:
			err = report.ErrNoRDMA
		case r.Compared() == 0:
			err = errNoComparison
		}
		if err != nil {
			complain(std, of(name, err))
		}
		failed = failed || err != nil || r.Unexplained() > 0
		if r != nil && r.Cut {
			warnCut(std, name, r.CutAt)
		}
		if c.JSON {
			results = append(results, report.NewJSONReplay(name, r, err))
		} else if r != nil && !r.Empty {
			report.WriteReplay(out, printable(name), r, report.Detail{Quiet: c.Quiet, Verbose: c.Verbose})
		}
	}
	err := out.Flush()
	if c.JSON {
		err = report.WriteJSON(std.out, results)
	}
	if err == nil && failed {
		return errSaid
	}
	return err
}

func replayFile(name string) (*replay.Report, error) {
	file, err := read.Open(context.Background(), name, nil)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return replay.Replay(file)
}
