package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/gorxe/gorxe/cmd/internal/hosts"
	"github.com/gorxe/gorxe/cmd/internal/pair"
	"github.com/gorxe/gorxe/internal/service/keeper"
	"github.com/gorxe/gorxe/internal/service/proto"
)

type pairCmd struct {
	deviceFlags  `embed:""`
	privateFlag  `embed:""`
	verdictFlags `embed:""`
	trialFlags   `embed:""`
	Hosts        bool          `help:"Two network namespaces with a link between them, for the server (192.0.2.1) and the client (192.0.2.2). Each has a device rxe0, or with --like mlx5_0."`
	Timeout      time.Duration `default:"30s" help:"How long the server may take until it listens (default: ${default})."`
	ReadyWhen    readyWhen     `name:"ready-when" placeholder:"TEXT" help:"The server is ready when a line of its output matches this text, a regular expression. Without this flag, it is ready when it listens on a TCP port, on a Unix socket or by RDMA CM."`
	StopServer   bool          `name:"stop-server" help:"End the server when the client has ended. Without this flag, gorxe waits for it."`
	Labels       bool          `negatable:"" default:"true" help:"Begin each line of output with server: or client: (default). With --no-labels both write to standard output and error directly, which may be a terminal."`
	Inside       bool          `hidden:"" help:"This process is in the namespaces of --hosts."`
	Programs     []string      `arg:"" passthrough:"" name:"server -- client" predictor:"program" help:"The server's command, the word --, and the client's command."`
}

// Help is the part of `gorxe pair --help` above the flags.
func (pairCmd) Help() string {
	return `Starts the server under gorxe run, waits until it listens on a TCP port, on a Unix socket or by RDMA CM (rdma_listen), and then starts the client under gorxe run. It replaces a sleep between the two. A server that does none of these can write a line: --ready-when. If the client fails, the server is ended too.

Without --hosts both use the same devices, as two gorxe run would. With --hosts, --pcap captures the packets of the server's device, and no flag chooses devices.

In both commands, the argument {address} stands for the address of the server's first device. It may have an option's name and = before it, and : and a port behind it. Shell commands find the address of their own device in $GORXE_ADDRESS. With --private, no other run has that address, so that many pairs can run at once. Servers that listen at every address, as ibv_rc_pingpong, need --hosts or different ports for that.

With --verdict, one verdict is about both ends. With --hosts as well, each end has one, in DIR/server and DIR/client. Fault rules (--fault) and --chaos are for both ends, too.

The exit code is that of the client, or that of the server if the client succeeded. It is 125 if the server did not listen, so that the client was not started, and 2 if the command line is wrong.

Examples:
  gorxe pair ibv_rc_pingpong -g 1 -- ibv_rc_pingpong -g 1 127.0.0.1
  gorxe pair --hosts ib_write_bw -d rxe0 -x 1 -- ib_write_bw -d rxe0 -x 1 192.0.2.1
  gorxe pair rping -s -a 127.0.0.1 -C 2 -- rping -c -a 127.0.0.1 -C 2
  gorxe pair --ready-when 'waiting for' ./server -- ./client
  gorxe pair --private ibv_rc_pingpong -g 1 -- ibv_rc_pingpong -g 1 {address}
  gorxe pair --verdict-on-failure verdict ./server -- ./client localhost
  gorxe pair --fault 'packet drop,p=1%' --explain ./server -- ./client localhost
  gorxe pair --no-labels ./server -- ./client localhost >output
  gorxe pair --device rxe0=lo --pcap rdma.pcapng ./server -- ./client localhost`
}

// Run runs the pair.
func (c pairCmd) Run(ctx context.Context, std streams) error {
	at, err := c.split()
	if err != nil {
		return err
	}
	if _, err := c.specs(); err != nil {
		return err
	}
	if c.Timeout <= 0 {
		return usageError{errors.New("--timeout must be positive")}
	}
	if c.Hosts && (len(c.Device) > 0 || c.devices() != "" || c.Speed != 0 || c.Socket != "" || c.Segment != "") {
		return usageError{errors.New("--hosts has one device, rxe0 or with --like mlx5_0, on each host: --device, --devices, --speed, --segment and --socket do not go with it")}
	}
	if c.Hosts && !c.Inside {
		code, err := hosts.Enter(ctx, "--hosts", slices.Insert(slices.Clone(os.Args[1:]), 1, "--inside"))
		if err == nil && code != 0 {
			err = errSaid
		}
		return exitCode(code, err)
	}
	if c.Inside {
		ctx = holdSignals(ctx)
	}
	if _, err := c.capture(c.PCAP); err != nil {
		return err
	}
	if !c.Hosts { // else the ends take the checks of the environment
		if err := c.chooseChecks(); err != nil {
			return err
		}
	}
	if c.Hosts && c.wanted() {
		return usageError{errors.New("--fault, --faults, --fault-report, --explain, --chaos and --sanitize do not go with --hosts: $GORXE_FAULTS, $GORXE_CHAOS and $GORXE_SANITIZE are for both ends")}
	}
	if (c.dir() != "" || c.wanted()) && !c.Hosts {
		return c.asOneRun(std)
	}
	flags, programs, err := c.place()
	if err != nil {
		return err
	}
	outcome, err := pair.Run(ctx, pair.Config{
		Server: programs[:at], Client: programs[at+1:], Flags: flags, EndFlags: c.endFlags,
		Sockets: c.sockets(), Timeout: c.Timeout, ReadyWhen: c.ReadyWhen.Regexp, CM: listeners, StopServer: c.StopServer, Stopping: stopping, Hosts: c.Hosts, Device: c.Like.Name(0), Alone: c.Private, Labels: c.Labels,
		Say: func(text string) { fmt.Fprintln(std.err, "gorxe: "+text) },
	})
	if err == nil && outcome.Code() != 0 {
		err = errSaid // by the programs
	}
	return exitCode(outcome.Code(), err)
}

// split returns where the words of the client follow in Programs.
func (c *pairCmd) split() (at int, err error) {
	taken := taken(c.deviceFlags.taking(), c.verdictFlags.taking(), c.trialFlags.taking())
	if err := misplaced("pair", c.Programs, taken); err != nil {
		return 0, err
	}
	if err := unquoted(c.Fault, c.Programs); err != nil {
		return 0, err
	}
	at = slices.Index(c.Programs, "--")
	if at == 0 { // gorxe pair [flags] -- SERVER -- CLIENT
		c.Programs = c.Programs[1:]
		at = slices.Index(c.Programs, "--")
	}
	if at <= 0 || at == len(c.Programs)-1 {
		says := "pair needs two commands with -- between them: gorxe pair SERVER... -- CLIENT... (see --help)"
		if taken != "" {
			says += "; " + taken
		}
		return 0, usageError{errors.New(says)}
	}
	if client := c.Programs[at+1]; strings.HasPrefix(client, "-") {
		return 0, usageError{fmt.Errorf("the client's command begins with %s: flags of gorxe go directly after gorxe pair", client)}
	}
	return at, nil
}

// place returns the flags of gorxe run for both ends, and the programs. With --private the ends
// have a socket of their own.
func (c *pairCmd) place() (flags, programs []string, err error) {
	if c.Hosts {
		both := c.deviceFlags
		both.PCAP = "" // endFlags has it for the server
		return append(both.runFlags(), "--why="+whyVerdict), keeper.FillIn(c.Programs, pair.ServerAddress.Addr().String()), nil
	}
	if err := c.alone(&c.deviceFlags); err != nil {
		return nil, nil, err
	}
	if c.Private {
		if c.Socket, err = proto.PrivateSocket(); err != nil {
			return nil, nil, &keeper.ExitError{Code: keeper.ExitFailed, Err: err}
		}
	}
	return append(c.runFlags(), "--fill-in"), c.Programs, nil
}

// asOneRun runs gorxe pair as the program of one gorxe run, which has the fault rules and makes the
// verdict: the two ends are then programs of one session.
func (c *pairCmd) asOneRun(std streams) error {
	self, err := os.Executable()
	if err != nil {
		return &keeper.ExitError{Code: keeper.ExitFailed, Err: err}
	}
	program := []string{"--", self, "pair", "--timeout", c.Timeout.String()}
	if c.StopServer {
		program = append(program, "--stop-server")
	}
	if c.ReadyWhen.Regexp != nil {
		program = append(program, "--ready-when="+c.ReadyWhen.String())
	}
	if !c.Labels {
		program = append(program, "--no-labels")
	}
	return runCmd{deviceFlags: c.deviceFlags, privateFlag: c.privateFlag, verdictFlags: c.verdictFlags, trialFlags: c.trialFlags, Program: append(program, c.Programs...), shown: os.Args}.Run(std)
}

// readyWhen is a regular expression on the command line.
type readyWhen struct{ *regexp.Regexp }

// UnmarshalText implements encoding.TextUnmarshaler.
func (r *readyWhen) UnmarshalText(text []byte) (err error) {
	if r.Regexp, err = regexp.Compile(string(text)); err != nil {
		return fmt.Errorf("%q is not a regular expression: %w", text, err)
	}
	return nil
}

// sockets returns where the daemon of both ends may be.
func (c *pairCmd) sockets() []string {
	paths, err := proto.Sockets(c.Socket)
	if err != nil {
		return nil // the end says so
	}
	if more, err := proto.NetworkSocket(); err == nil {
		paths = append(paths, more)
	}
	return paths
}

// listeners returns the processes that listen by RDMA CM with the daemons at these sockets.
func listeners(sockets []string) (pids []int) {
	for _, path := range sockets {
		client, err := proto.Dial([]string{path})
		if err != nil {
			continue // there is none
		}
		st, err := client.Status()
		client.Close()
		if err != nil {
			continue // it ends
		}
		for i := range st.Sessions {
			for _, id := range st.Sessions[i].CMIDs {
				if id.State == "LISTEN" {
					pids = append(pids, id.PID)
				}
			}
		}
	}
	return pids
}

// endFlags are the flags for the gorxe run of one end: its role, and where its verdict goes. On
// hosts of their own each end has a daemon, and only the server's writes the capture.
func (c *pairCmd) endFlags(end string) []string {
	flags := []string{"--role=" + end}
	if c.Hosts && c.PCAP != "" && end == "server" {
		flags = append(flags, "--pcap="+c.PCAP)
	}
	if c.dir() != "" {
		flags = append(flags, c.flag()+"="+filepath.Join(c.dir(), end))
	}
	return flags
}

// stopping tells the daemon of the run around this one that an end does not fail by itself.
func stopping(end string) { keeper.TellRole(proto.Role{Name: end, Stopped: true}) }

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
	add("devices", f.devices())
	if f.Speed != 0 {
		add("speed", f.Speed.String())
	}
	add("like", string(f.Like))
	add("socket", f.Socket)
	add("pcap", f.PCAP)
	if f.Doorbells != 0 {
		add("doorbells", f.Doorbells.String())
	}
	add("ecn", string(f.ECN))
	add("segment", f.Segment)
	add("log-level", f.LogLevel)
	return flags
}
