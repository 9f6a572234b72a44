package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/gorxe/gorxe/internal/pcap/report"
)

// pcapCmd groups the commands that work on capture files.
type pcapCmd struct {
	Check  pcapCheckCmd  `cmd:"" help:"Check whether captured traffic obeys the protocol."`
	Show   pcapShowCmd   `cmd:"" help:"Show packets as lines, with every field, or as ladder diagrams."`
	Export pcapExportCmd `cmd:"" help:"Write a capture as a trace for Perfetto."`
	Replay pcapReplayCmd `cmd:"" help:"Compare the engine with captured devices."`
}

// Help is the part of `gorxe pcap --help` above the flags.
func (pcapCmd) Help() string {
	return `Captures are pcap or pcapng files, plain or gzip, from tcpdump, Wireshark, a switch, 'gorxe demo' or 'gorxe run --pcap'. The traffic may come from any device.

Examples:
  gorxe pcap check run.pcapng
  gorxe pcap check --rules
  gorxe pcap show --html run.html run.pcapng
  gorxe pcap export --perfetto run.json run.pcapng
  gorxe pcap replay run.pcapng`
}

// of returns an error about a file with the file's name in it.
func of(name string, err error) error {
	var path *fs.PathError
	if errors.As(err, &path) {
		return err // it has the name
	}
	return fmt.Errorf("%s: %w", name, err)
}

// warnCut says that a file ends within a packet. That is not a failure: a capture that is still
// running, or was killed, ends so.
func warnCut(std streams, name string, at int64) {
	fmt.Fprintf(std.err, "gorxe: %s: %s\n", printable(name), report.CutText(at))
}

// writeTo has write fill the file of the given name.
func writeTo(name string, write func(io.Writer) error) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	return errors.Join(write(f), f.Close())
}
