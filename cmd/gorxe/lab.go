package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/cmd/internal/hosts"
	"github.com/gorxe/gorxe/cmd/internal/lab"
	"github.com/gorxe/gorxe/cmd/internal/labfile"
	"github.com/gorxe/gorxe/cmd/internal/verdict"
	"github.com/gorxe/gorxe/internal/service/keeper"
	"github.com/gorxe/gorxe/internal/service/proto"
	"github.com/gorxe/gorxe/internal/sys/memfd"
)

type labCmd struct {
	On           []string `placeholder:"HOST" sep:"," help:"The hosts that run the program of the command line (default: those to which the file gives none)."`
	verdictFlags `embed:""`
	PCAP         string        `name:"pcap" placeholder:"FILE" predictor:"file" help:"Capture the packets of all hosts to this pcapng file, in their order, with an interface for each link."`
	Timeout      time.Duration `default:"30s" help:"How long a program may take until it is ready, if another one waits for it (default: ${default})."`
	Labels       bool          `negatable:"" default:"true" help:"Begin each line of output with the name of the host (default)."`
	Like         proto.Like    `placeholder:"ADAPTER" predictor:"like" help:"The devices of all hosts look like this adapter, and are mlx5_0, mlx5_1 and so on: see gorxe help connectx."`
	LogLevel     string        `name:"log-level" enum:"debug,info,warn,error," default:"" placeholder:"LEVEL" predictor:"level" help:"debug, info, warn or error."`
	Inside       bool          `hidden:"" help:"This process is in the namespaces of the lab."`
	File         string        `arg:"" predictor:"file" help:"The file of the lab."`
	Program      []string      `arg:"" optional:"" predictor:"program" help:"A program and its arguments, after --."`
}

// Help is the part of `gorxe lab --help` above the flags.
func (labCmd) Help() string {
	return `Runs a program on each host of a lab: network namespaces of this machine, with links between them. It needs no containers, and no root if users may make user namespaces. A YAML file has the hosts, switches and links, with the words of containerlab's topology file as far as it has them:

  topology:
    nodes:
      server: {kind: linux, cmd: "rping -s -P -a {server}", background: true}
      client[1-2]: {kind: linux, cmd: "rping -c -a {server} -C 3 -v", wait-for: [server]}
      leaf: {kind: bridge}
    links:
      - endpoints: ["server:eth1", leaf]
        rate: 10gbit
        latency: 5us
      - endpoints: ["client[1-2]:eth1", leaf]

A node of kind linux is a host, and one of kind bridge a switch. Each interface of a host has a device: rxe0 is on the first one in the list of links. Names may have one range. The links of switches with each other are joined, so that their hosts are in one network.

Of a node: cmd is its program, a line for the shell or a list of words. {HOST} and {HOST:INTERFACE} stand for an address, and names of hosts are known to programs. env has variables. wait-for names hosts whose programs are ready before this one starts: they listen, or a line of their output matches ready-when. A program with background: true is ended when the others have ended. exec may give addresses, as in "ip addr add 10.0.0.1/24 dev eth1". Programs find their host in $GORXE_HOST, its number from 0 in $GORXE_RANK, all hosts in $GORXE_HOSTS, and their first address in $GORXE_ADDRESS.

Of a link: mtu, and rate, latency, queue, loss and ecn, which are those of the fault rule "packet shape", in each direction. They concern the packets of devices, and no TCP.

If a program fails, the others are ended. The exit code is the highest one of the programs that ended by themselves. It is 125 if a program did not start or was not ready in time, or if the capture could not be written, 130 if a signal ended the lab, and 2 if the command line or the file is wrong. All processes of a lab end with it. Fault rules and chaos are in $GORXE_FAULTS and $GORXE_CHAOS. They are for each program, and a rule that never fires on a host fails it.

Examples:
  gorxe lab incast.yml
  gorxe lab rails.yml -- ./all-to-all
  gorxe lab --on h1 rails.yml -- ibv_devices
  gorxe lab --verdict verdict --pcap lab.pcapng rails.yml -- ./my-test`
}

// Run runs the lab.
func (c labCmd) Run(ctx context.Context, std streams) error {
	l, text, err := c.read()
	if err != nil {
		return usageError{err}
	}
	if err := lab.Assign(l, c.Program, c.On); err != nil {
		return usageError{err}
	}
	if len(c.On) > 0 && len(c.Program) == 0 {
		return usageError{errors.New("--on chooses where a program runs: give one after --")}
	}
	if c.Timeout <= 0 {
		return usageError{errors.New("--timeout must be positive")}
	}
	if keeper.Nested() {
		return &keeper.ExitError{Code: keeper.ExitFailed, Err: errors.New("a lab within gorxe run would have no devices: start it outside")}
	}
	if !c.Inside {
		if err := lab.Adopt(); err != nil {
			return &keeper.ExitError{Code: keeper.ExitFailed, Err: err}
		}
		defer lab.ClearUp() // if the process inside was killed
		carried, err := carry(text)
		if err != nil {
			return &keeper.ExitError{Code: keeper.ExitFailed, Err: err}
		}
		defer carried.Close()
		code, err := hosts.Enter(ctx, "a lab", slices.Insert(slices.Clone(os.Args[1:]), 1, "--inside"), carried)
		if err == nil && code != 0 {
			err = errSaid
		}
		return exitCode(code, err)
	}
	ctx = holdSignals(ctx)
	if err := c.prepare(); err != nil {
		return &keeper.ExitError{Code: keeper.ExitFailed, Err: err}
	}
	return c.run(ctx, l, std)
}

// holdSignals keeps this process, inside the namespaces, alive until its programs have ended. A
// terminal sends a signal to all processes, and the process outside sends one as well. The first
// one ends the context of the command. The context that holdSignals returns also ends when nobody
// reads the output any more, for which SIGPIPE would end the process.
func holdSignals(ctx context.Context) context.Context {
	signal.Notify(make(chan os.Signal, 1), ending()...)
	ctx, end := context.WithCancel(ctx)
	pipes := make(chan os.Signal, 1)
	signal.Notify(pipes, unix.SIGPIPE)
	go func() {
		for range pipes { // one may come from a socket
			if unread(os.Stdout) || unread(os.Stderr) {
				end()
			}
		}
	}()
	return ctx
}

// unread reports whether f is a pipe or a socket whose other end is closed.
func unread(f *os.File) bool {
	at := []unix.PollFd{{Fd: int32(f.Fd())}}
	n, err := unix.Poll(at, 0)
	return err == nil && n > 0 && at[0].Revents&(unix.POLLERR|unix.POLLHUP) != 0
}

// carriedFD is the descriptor of the text of the lab in the process inside the namespaces. The file
// may be a pipe, which can be read once.
const carriedFD = 3

// carry returns a file with the text.
func carry(text []byte) (*os.File, error) {
	fd, err := memfd.Create("lab")
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), "lab")
	_, err = f.Write(text)
	if err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// read reads the file.
func (c *labCmd) read() (l *labfile.Lab, text []byte, err error) {
	var f *os.File
	if c.Inside {
		f = os.NewFile(carriedFD, c.File)
	} else if f, err = os.Open(c.File); err != nil {
		return nil, nil, err
	}
	defer f.Close()
	text, err = io.ReadAll(io.LimitReader(f, labfile.MaxBytes+1))
	if err != nil {
		return nil, nil, err
	}
	if l, err = labfile.Parse(text); err != nil {
		return nil, nil, fmt.Errorf("%s:%w", c.File, err)
	}
	return l, text, nil
}

// run runs the lab in the namespaces of this process.
func (c *labCmd) run(ctx context.Context, l *labfile.Lab, std streams) (err error) {
	started := time.Now()
	config := lab.Config{Lab: l, Timeout: c.Timeout, Labels: c.Labels, CM: listeners, CaptureMax: c.captureMax()}
	why := whyVerdict
	if c.dir() != "" {
		why = whyNone
	}
	config.Flags = []string{"--why=" + why}
	if c.Like != "" {
		config.Flags = append(config.Flags, "--like="+string(c.Like))
		l.NameDevices(c.Like.Name)
	}
	if c.LogLevel != "" {
		config.Flags = append(config.Flags, "--log-level", c.LogLevel)
	}
	if c.PCAP != "" {
		// that it cannot be written shall be known before the programs run
		f, err := os.OpenFile(c.PCAP, os.O_WRONLY|os.O_CREATE, 0o666)
		if err != nil {
			return c.failed(&keeper.ExitError{Code: keeper.ExitFailed, Err: fmt.Errorf("--pcap: %w", err)})
		}
		f.Close()
	}
	if c.PCAP != "" || c.dir() != "" {
		near := filepath.Dir(c.PCAP)
		if c.PCAP == "" {
			near = "" // no more than captureMax of each host
		}
		if config.Capture, err = os.MkdirTemp(near, ".gorxe-lab-"); err != nil {
			return c.failed(&keeper.ExitError{Code: keeper.ExitFailed, Err: err})
		}
		defer os.RemoveAll(config.Capture) //nolint:errcheck // files of this lab only
	}
	ends, err := lab.Run(ctx, config)
	if ends == nil {
		return c.failed(&keeper.ExitError{Code: keeper.ExitFailed, Err: err})
	}
	code := lab.Code(ends)
	switch {
	case errors.Is(err, context.Canceled):
		code, err = exitInterrupted, errors.New("a signal ended the lab")
	case err != nil:
		code = max(code, keeper.ExitFailed)
	case code != 0:
		err = errSaid // by the programs
	}
	if failure := c.writePCAP(l, ends); failure != nil {
		complain(std, failure)
		code, err = max(code, keeper.ExitFailed), cmp.Or(err, errSaid)
	}
	c.keep(l, ends, started, code, std)
	return exitCode(code, err)
}

// writePCAP writes the capture of --pcap, if it is wanted.
func (c *labCmd) writePCAP(l *labfile.Lab, ends []lab.End) error {
	if c.PCAP == "" {
		return nil
	}
	if _, err := merge(c.PCAP, os.O_CREATE|os.O_TRUNC, l, ends, 0); err != nil {
		return fmt.Errorf("--pcap: %w", err)
	}
	return nil
}

// exitInterrupted is the exit code of a lab that a signal ended: SIGINT's, as a shell shows it.
const exitInterrupted = 128 + 2

// keep writes the verdict, if one is wanted.
func (c *labCmd) keep(l *labfile.Lab, ends []lab.End, started time.Time, code int, std streams) {
	if c.dir() == "" {
		return
	}
	r := verdict.Join(slices.Concat([]string{"gorxe", "lab", c.File}, c.Program), started, code, lab.Verdicts(l, ends))
	if c.Verdict == "" && !r.Failed() {
		if err := verdict.Discard(c.dir()); err != nil {
			complain(std, fmt.Errorf("%s: %w", c.flag(), err))
		}
		return
	}
	leftOut, err := merge(verdict.CapturePath(c.dir()), 0, l, ends, verdict.CaptureMax)
	if err != nil {
		complain(std, fmt.Errorf("%s: %w", c.flag(), err))
	}
	if r.Report != nil {
		r.Report.CaptureLeftOut += leftOut
	}
	c.writeRun(r, std)
}

// merge joins the captures of the hosts.
func merge(path string, flags int, l *labfile.Lab, ends []lab.End, most uint64) (leftOut uint64, err error) {
	f, err := os.OpenFile(path, os.O_WRONLY|flags, 0o666)
	if err != nil {
		return 0, err
	}
	leftOut, err = lab.Merge(l, lab.Captures(l, ends), f, most)
	return leftOut, errors.Join(err, f.Close())
}
