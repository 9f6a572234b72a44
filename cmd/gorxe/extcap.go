package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/service/proto"
)

// extcapName is the name by which Wireshark finds this program in its directory of extcaps. Called
// by it, the program is gorxe extcap.
const extcapName = "gorxe-extcap"

type extcapCmd struct {
	Interfaces bool   `name:"extcap-interfaces" help:"List the interfaces."`
	Version    string `name:"extcap-version" placeholder:"VERSION" help:"The version of Wireshark, which asks."`
	Interface  string `name:"extcap-interface" placeholder:"NAME" help:"The interface: gorxe."`
	DLTs       bool   `name:"extcap-dlts" help:"List the interface's types of packets."`
	Config     bool   `name:"extcap-config" help:"List the interface's options."`
	Reload     string `name:"extcap-reload-option" hidden:"" help:"Not used."`
	Filter     string `name:"extcap-capture-filter" placeholder:"FILTER" help:"A capture filter; there are none but the empty one. Wireshark's display filters are what helps."`
	Capture    bool   `help:"Capture into --fifo."`
	FIFO       string `name:"fifo" placeholder:"PATH" predictor:"file" help:"The pipe, or the file, for the packets."`
	Socket     string `placeholder:"PATH" predictor:"file" help:"Socket of the daemon, as of gorxe status."`
	Wait       bool   `help:"If no daemon is reachable, wait for one."`
	LogLevel   string `name:"log-level" hidden:"" help:"Not used; Wireshark may give it."`
	LogFile    string `name:"log-file" hidden:"" help:"Not used; Wireshark may give it."`
}

// Help is the part of `gorxe extcap --help` above the flags.
func (extcapCmd) Help() string {
	return `Wireshark and tshark call this command, to capture what the devices of a daemon send and receive while programs run. The packets between programs of this host are there, too, and a comment names the work request of each. The packages install it for Wireshark as ` + extcapName + `. Otherwise link that name to gorxe, in the directory "Personal Extcap path" or "Extcap path" of Wireshark's "About".

Only root and the user of the daemon may capture. Packets that a slow reader leaves no room for are left out, and counted. The packets that no queue pair takes are not seen, unless the daemon has --pcap.

The exit code is 0 when the daemon or the reader has ended, 1 if no daemon is reachable, and 2 if the command line is wrong.

Examples:
  tshark -i gorxe
  gorxe extcap --capture --extcap-interface gorxe --fifo live.pcapng`
}

// extcapInterface is the only one: all devices of the daemon.
const extcapInterface = "gorxe"

// Run answers Wireshark, as its developer's guide says (ChCaptureExtcap).
func (c extcapCmd) Run(newContext contexts, std streams) error {
	if c.Interfaces {
		fmt.Fprintf(std.out, "extcap {version=1}{help=https://github.com/gorxe/gorxe/blob/main/docs/pcap.md}{display=gorxe}\n"+
			"interface {value=%s}{display=RDMA devices of gorxe}\n", extcapInterface)
		return nil
	}
	if c.Interface != extcapInterface {
		return usageError{fmt.Errorf("give --extcap-interfaces, or --extcap-interface %s with --extcap-dlts, --extcap-config or --capture", extcapInterface)}
	}
	switch {
	case c.DLTs:
		fmt.Fprint(std.out, "dlt {number=101}{name=RAW}{display=Raw IP}\n")
		return nil
	case c.Config:
		fmt.Fprint(std.out, "arg {number=0}{call=--socket}{display=Socket}{tooltip=Socket of the daemon; empty: where gorxe status finds it}{type=string}\n"+
			"arg {number=1}{call=--wait}{display=Wait}{tooltip=Wait until there is a daemon}{type=boolflag}{default=false}\n")
		return nil
	case c.Filter != "":
		err := errors.New("gorxe has no capture filters: use a display filter")
		if c.Capture {
			return usageError{err}
		}
		fmt.Fprintln(std.out, err) // which is how Wireshark learns of it
		return nil
	case !c.Capture:
		return nil // an empty filter is fine
	case c.FIFO == "":
		return usageError{errors.New("--capture needs --fifo")}
	}
	ctx, err := newContext()
	if err != nil {
		return err
	}
	return c.capture(ctx)
}

// capture copies packets until the daemon, the reader or the context ends.
func (c extcapCmd) capture(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	fifo, err := c.openFIFO(ctx)
	if err != nil {
		return err
	}
	defer fifo.Close()
	defer context.AfterFunc(ctx, func() { fifo.SetWriteDeadline(time.Unix(1, 0)) })() //nolint:errcheck // a file has none, and needs none
	left := make(chan struct{})
	go func() { // of a pipe; a file has a reader always
		defer close(left)
		if awaitUnread(ctx, fifo) {
			cancel()
		}
	}()
	defer func() {
		cancel()
		<-left
	}()
	live, err := c.dial(ctx)
	if err != nil {
		return err
	}
	defer live.Close()
	defer context.AfterFunc(ctx, live.Close)()
	err = live.CopyTo(fifo)
	if ctx.Err() != nil || errors.Is(err, unix.EPIPE) {
		return nil // the reader has what it wanted
	}
	return err
}

// openFIFO opens the pipe when it has a reader.
func (c extcapCmd) openFIFO(ctx context.Context) (*os.File, error) {
	for {
		f, err := os.OpenFile(c.FIFO, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|unix.O_NONBLOCK, 0o600)
		if err == nil {
			return f, nil
		}
		if !errors.Is(err, unix.ENXIO) {
			return nil, fmt.Errorf("--fifo: %w", err)
		}
		if err := pause(ctx, readerPause); err != nil {
			return nil, err
		}
	}
}

// pause waits, and returns an error if ctx ends.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

const (
	// dialPause is how long a capture that waits for a daemon waits before it tries again.
	dialPause = 200 * time.Millisecond
	// readerPause is how often a capture looks whether its reader is gone.
	readerPause = 250 * time.Millisecond
)

// dial begins a capture, or waits for a daemon that has one.
func (c extcapCmd) dial(ctx context.Context) (*proto.Live, error) {
	paths, err := proto.Sockets(c.Socket)
	if err != nil {
		return nil, err
	}
	for {
		live, err := proto.DialLive(paths)
		if err == nil || !c.Wait || !errors.Is(err, proto.ErrNoDaemon) && !errors.Is(err, proto.ErrEnding) {
			return live, err
		}
		if err := pause(ctx, dialPause); err != nil {
			return nil, err
		}
	}
}

// awaitUnread returns true when no process has the other end of a pipe open any more, and false at
// the end of ctx.
func awaitUnread(ctx context.Context, f *os.File) (unread bool) {
	raw, err := f.SyscallConn()
	if err != nil {
		return false
	}
	for {
		err := raw.Control(func(fd uintptr) {
			fds := []unix.PollFd{{Fd: int32(fd)}}
			if n, err := unix.Poll(fds, 0); err == nil && n > 0 {
				unread = fds[0].Revents&unix.POLLERR != 0
			}
		})
		if unread || err != nil {
			return unread
		}
		if pause(ctx, readerPause) != nil {
			return false
		}
	}
}
