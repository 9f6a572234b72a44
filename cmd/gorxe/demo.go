package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/gorxe/gorxe/cmd/internal/demo"
	"github.com/gorxe/gorxe/internal/sys/terminal"
)

type demoCmd struct {
	Addresses []netip.Addr  `default:"127.0.0.1,127.0.0.2" placeholder:"ADDRESS" help:"Two addresses of this host; each becomes a device (default: ${default})."`
	Duration  time.Duration `default:"500ms" help:"Length of each measurement (default: ${default})."`
	Size      []size        `default:"64KiB,1MiB" placeholder:"SIZE" help:"Message sizes whose bandwidth is measured (default: ${default})."`
	PCAP      string        `name:"pcap" placeholder:"FILE" xor:"capture" help:"Capture file to write (default: demo.pcapng)."`
	NoPCAP    bool          `name:"no-pcap" xor:"capture" help:"Write no capture."`
	UDPPort   uint16        `name:"udp-port" default:"4791" help:"UDP port of both devices (default: ${default}, RoCEv2's own)."`
}

// Help is the part of `gorxe demo --help` above the flags.
func (demoCmd) Help() string {
	return `Two devices exchange data over real UDP sockets: SEND, WRITE, READ and atomics, at sizes around the path MTU. The demo verifies every byte on both sides, and writes the packets to a capture file for Wireshark. Then it measures bandwidth and latency, without the capture. It needs no root and no privilege.

The exit code is 0 if all went well, 1 if an operation failed or data differed, 2 if the command line is wrong.

Examples:
  gorxe demo
  gorxe demo --duration 5s --size 4KiB,8MiB --no-pcap
  gorxe demo --addresses ::1,fd00::1 --pcap /tmp/v6.pcapng`
}

// Run runs the demo.
func (c demoCmd) Run(ctx context.Context, std streams) error {
	if len(c.Addresses) != 2 {
		return usageError{fmt.Errorf("--addresses takes two addresses, got %d", len(c.Addresses))}
	}
	cfg := demo.Config{
		Addresses: [2]netip.Addr(c.Addresses),
		UDPPort:   c.UDPPort,
		Duration:  c.Duration,
		Capture:   c.PCAP,
		Out:       std.out,
	}
	// This is not the flag's default, because a default would conflict with --no-pcap.
	if c.PCAP == "" && !c.NoPCAP {
		cfg.Capture = "demo.pcapng"
	}
	for _, s := range c.Size {
		cfg.Sizes = append(cfg.Sizes, int(s))
	}
	if terminal.Is(std.out) {
		cfg.Terminal = std.out
	}
	err := demo.Run(ctx, cfg)
	if errors.Is(err, demo.ErrConfig) {
		return usageError{err}
	}
	return err
}

// size is a number of bytes on the command line: "65536", "64KiB", "64K", "1M", "4G".
type size int

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *size) UnmarshalText(text []byte) error {
	digits := strings.TrimRight(string(text), "BbIiKkMmGg")
	var shift int
	switch unit := strings.ToLower(string(text[len(digits):])); unit {
	case "", "b":
	case "k", "kib":
		shift = 10
	case "m", "mib":
		shift = 20
	case "g", "gib":
		shift = 30
	default:
		return fmt.Errorf("%q: the unit must be B, KiB, MiB or GiB", text)
	}
	n, err := strconv.ParseUint(digits, 10, strconv.IntSize-1-shift)
	if err != nil {
		return fmt.Errorf("%q is not a size: give a number of bytes, or one with a unit, as 64KiB, 8MiB or 1GiB", text)
	}
	*s = size(n << shift)
	return nil
}
