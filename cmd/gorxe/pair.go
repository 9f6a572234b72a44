package main

import (
	"context"
	"errors"
	"os"
	"slices"
	"time"

	"github.com/gorxe/gorxe/internal/pair"
	"github.com/gorxe/gorxe/internal/service/keeper"
)

type pairCmd struct {
	deviceFlags `embed:""`
	Hosts       bool          `help:"Two network namespaces with a link between them, for the server (192.0.2.1) and the client (192.0.2.2). Each has a device rxe0."`
	Timeout     time.Duration `default:"30s" help:"How long the server may take until it listens (default: ${default})."`
	StopServer  bool          `name:"stop-server" help:"End the server when the client has ended. Without this flag, gorxe waits for it."`
	Inside      bool          `hidden:"" help:"This process is in the namespaces of --hosts."`
	Programs    []string      `arg:"" passthrough:"" name:"server -- client" predictor:"program" help:"The server's command, the word --, and the client's command."`
}

// Help is the part of `gorxe pair --help` above the flags.
func (pairCmd) Help() string {
	return `Starts the server under gorxe run, waits until it listens on a TCP port, and then starts the client under gorxe run. It replaces a sleep between the two. If the client fails, the server is ended too.

Without --hosts both use the same devices, as two gorxe run would. With --hosts, --pcap captures the packets of the server's device, and no flag chooses devices.

The exit code is that of the client, or that of the server if the client succeeded. It is 125 if the server did not listen, so that the client was not started, and 2 if the command line is wrong.

Examples:
  gorxe pair ibv_rc_pingpong -g 1 -- ibv_rc_pingpong -g 1 127.0.0.1
  gorxe pair --hosts ib_write_bw -d rxe0 -x 1 -- ib_write_bw -d rxe0 -x 1 192.0.2.1
  gorxe pair --device rxe0=lo --pcap rdma.pcapng ./server -- ./client localhost`
}

// Run runs the pair.
func (c pairCmd) Run(ctx context.Context) error {
	at := slices.Index(c.Programs, "--")
	if at == 0 { // gorxe pair [flags] -- SERVER -- CLIENT
		c.Programs = c.Programs[1:]
		at = slices.Index(c.Programs, "--")
	}
	if at <= 0 || at == len(c.Programs)-1 {
		return usageError{errors.New("pair needs two commands with -- between them: gorxe pair SERVER... -- CLIENT... (see --help)")}
	}
	if _, err := c.specs(); err != nil {
		return err
	}
	if c.Timeout <= 0 {
		return usageError{errors.New("--timeout must be positive")}
	}
	if c.Hosts && (c.chosen() || c.Socket != "") {
		return usageError{errors.New("--hosts has one device, rxe0, on each host: --device, --devices, --speed and --socket do not go with it")}
	}
	if c.Hosts && !c.Inside {
		code, err := pair.InNamespaces(slices.Insert(slices.Clone(os.Args[1:]), 1, "--inside"))
		if err == nil && code != 0 {
			err = errSaid
		}
		return exitCode(code, err)
	}
	outcome, err := pair.Run(ctx, pair.Config{
		Server: c.Programs[:at], Client: c.Programs[at+1:], Flags: c.runFlags(),
		Timeout: c.Timeout, StopServer: c.StopServer, Hosts: c.Hosts,
	})
	if err == nil && outcome.Code() != 0 {
		err = errSaid // by the programs
	}
	return exitCode(outcome.Code(), err)
}

// exitCode joins an exit code to an error, if there is one.
func exitCode(code int, err error) error {
	if err == nil {
		return nil
	}
	return &keeper.ExitError{Code: code, Err: err}
}

// runFlags are the flags for gorxe run.
func (f *deviceFlags) runFlags() (flags []string) {
	add := func(name, value string) {
		if value != "" {
			flags = append(flags, "--"+name+"="+value)
		}
	}
	for _, d := range f.Device {
		add("device", d)
	}
	add("devices", f.Devices)
	if f.Speed != 0 {
		add("speed", f.Speed.String())
	}
	add("socket", f.Socket)
	add("pcap", f.PCAP)
	if f.Doorbells != 0 {
		add("doorbells", f.Doorbells.String())
	}
	add("ecn", string(f.ECN))
	add("log-level", f.LogLevel)
	return flags
}
