package main

import (
	"errors"
	"io"
	"os"
)

// pcapCmd groups what works on capture files.
type pcapCmd struct {
	Check  pcapCheckCmd  `cmd:"" help:"Say whether captured traffic obeys the protocol."`
	Show   pcapShowCmd   `cmd:"" help:"Print packets: as lines, with every field, as ladder diagrams."`
	Replay pcapReplayCmd `cmd:"" help:"Hold the engine to what captured devices did."`
}

// Help is the part of `gorxe pcap --help` above the flags.
func (pcapCmd) Help() string {
	return `Captures are pcap or pcapng files, plain or gzip, from tcpdump, Wireshark, a switch, 'gorxe demo' or 'gorxe run --pcap'. The traffic may be any device's.

Examples:
  gorxe pcap check run.pcapng
  gorxe pcap check --rules
  gorxe pcap show --html run.html run.pcapng
  gorxe pcap replay run.pcapng`
}

// writeTo has write fill the file of the given name.
func writeTo(name string, write func(io.Writer) error) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	return errors.Join(write(f), f.Close())
}
