// Package pair starts the two ends of a test: the server, and the client as soon as the
// server listens.
package pair

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// Config says what to start.
type Config struct {
	Server, Client []string
	Flags          []string                  // of gorxe run, for both ends
	EndFlags       func(end string) []string // of gorxe run, for the "server" or the "client"; nil: none
	Timeout        time.Duration             // for the server to listen
	StopServer     bool                      // do not wait for the end of the server
	Hosts          bool                      // each end on a host of its own
	Labels         bool                      // each line of output begins with "server: " or "client: "
}

// Outcome has the exit codes of both ends.
type Outcome struct{ Server, Client int }

// Code returns the exit code of the client or, if that is 0, of the server: a server
// often fails because its client did.
func (o Outcome) Code() int {
	if o.Client != 0 {
		return o.Client
	}
	return o.Server
}

// failed is the exit code of an end that did not start. It is that of gorxe run.
const failed = 125

const (
	lookInterval = 10 * time.Millisecond
	stopGrace    = 5 * time.Second // after SIGTERM, before SIGKILL
)

// Run runs both ends, and waits for them.
func Run(ctx context.Context, c Config) (Outcome, error) {
	var l launcher = direct{c.Flags}
	if c.Hosts {
		hosts, err := newHosts(c.Flags)
		if err != nil {
			return Outcome{failed, failed}, err
		}
		defer hosts.close()
		l = hosts
	}
	server, err := start(l, "server", c, c.Server)
	if err != nil {
		return Outcome{failed, failed}, err
	}
	defer server.stop()
	if err := server.untilListens(ctx, c.Timeout); err != nil {
		server.stop()
		return Outcome{server.code(), failed}, err
	}
	client, err := start(l, "client", c, c.Client)
	if err != nil {
		server.stop()
		return Outcome{server.code(), failed}, err
	}
	defer client.stop()
	select {
	case <-client.done:
	case <-ctx.Done():
		client.stop()
		server.stop()
		return Outcome{server.code(), client.code()}, ctx.Err()
	}
	if c.StopServer || client.code() != 0 {
		ended := server.ended()
		server.stop()
		if !ended && c.StopServer {
			return Outcome{0, client.code()}, nil // this package has ended it
		}
	}
	select {
	case <-server.done:
	case <-ctx.Done():
		server.stop()
	}
	return Outcome{server.code(), client.code()}, ctx.Err()
}

// launcher starts a command as one end of the pair.
type launcher interface {
	start(end string, cmd *exec.Cmd) error
	flags(end string) []string
}

// direct starts both ends in the network namespace of this process.
type direct struct{ runFlags []string }

func (d direct) start(_ string, cmd *exec.Cmd) error { return cmd.Start() }
func (d direct) flags(string) []string               { return d.runFlags }

// end is a program under gorxe run.
type end struct {
	name    string
	cmd     *exec.Cmd
	done    chan struct{} // closed when the program has ended
	waitErr error         // valid then
}

func start(l launcher, name string, c Config, program []string) (*end, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	args := append([]string{"run"}, l.flags(name)...)
	if c.EndFlags != nil {
		args = append(args, c.EndFlags(name)...)
	}
	args = append(args, "--")
	e := &end{name: name, cmd: exec.Command(self, append(args, program...)...), done: make(chan struct{})}
	e.cmd.Stdout, e.cmd.Stderr = os.Stdout, os.Stderr
	started := func() (drained func()) { return func() {} }
	if c.Labels {
		if started, err = labeled(e.cmd, name+": ", os.Stdout, os.Stderr); err != nil {
			return nil, err
		}
	}
	err = l.start(name, e.cmd)
	drained := started()
	if err != nil {
		drained()
		return nil, fmt.Errorf("the %s: %w", name, err)
	}
	go func() {
		e.waitErr = e.cmd.Wait()
		drained()
		close(e.done)
	}()
	return e, nil
}

func (e *end) ended() bool {
	select {
	case <-e.done:
		return true
	default:
		return false
	}
}

// stop ends the program if it runs. gorxe run passes the signal on.
func (e *end) stop() {
	if e.ended() {
		return
	}
	e.cmd.Process.Signal(syscall.SIGTERM) //nolint:errcheck // it may have ended meanwhile
	select {
	case <-e.done:
		return
	case <-time.After(stopGrace):
	}
	e.cmd.Process.Kill() //nolint:errcheck // it may have ended
	<-e.done
}

// code returns the exit code of a program that has ended, as a shell shows it.
func (e *end) code() int {
	if e.waitErr == nil {
		return 0
	}
	var exit *exec.ExitError
	if !errors.As(e.waitErr, &exit) {
		return failed
	}
	if ws, ok := exit.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return 128 + int(ws.Signal())
	}
	return exit.ExitCode()
}

// untilListens returns when a process of the server listens on a TCP port.
func (e *end) untilListens(ctx context.Context, timeout time.Duration) error {
	look := time.NewTicker(lookInterval)
	defer look.Stop()
	late := time.After(timeout)
	for !listens(e.cmd.Process.Pid) {
		select {
		case <-e.done:
			return fmt.Errorf("the server ended before it listened on a TCP port, with exit code %d: the client was not started", e.code())
		case <-late:
			return fmt.Errorf("the server does not listen on a TCP port after %v: the client was not started (see --timeout)", timeout)
		case <-ctx.Done():
			return ctx.Err()
		case <-look.C:
		}
	}
	return nil
}
