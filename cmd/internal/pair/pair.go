// Package pair starts the two ends of a test: the server, and the client as soon as the
// server listens.
package pair

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"syscall"
	"time"
)

// Config says what to start.
type Config struct {
	Server, Client []string
	Flags          []string // of gorxe run, for both ends
	// of gorxe run, for the "server" or the "client"; nil: none
	EndFlags func(end string) []string
	// Stopping, if not nil, is called before an end is ended.
	Stopping func(end string)
	// where the daemon of both ends may be, if they are not on hosts of their own
	Sockets []string
	Timeout time.Duration // for the server to listen
	// a line of the server's output that says that it is ready; nil: it is when it listens
	ReadyWhen *regexp.Regexp
	// CM returns the processes that listen by RDMA CM with the daemons at these sockets. It may be
	// nil.
	CM         func(sockets []string) []int
	StopServer bool // do not wait for the end of the server
	Hosts      bool // each end on a host of its own
	Alone      bool // the pair has an address of its own
	Labels     bool // each line of output begins with "server: " or "client: "
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
	lookRDMACM   = 5               // lookIntervals
	stopGrace    = 5 * time.Second // after SIGTERM, before SIGKILL
)

// Run runs both ends, and waits for them.
func Run(ctx context.Context, c Config) (Outcome, error) {
	var l launcher = direct{c.Flags, c.Sockets}
	if c.Hosts {
		hosts, err := newHosts(c.Flags)
		if err != nil {
			return Outcome{failed, failed}, err
		}
		defer hosts.close()
		l = hosts
	}
	ready := newLines(c.ReadyWhen)
	server, err := start(l, "server", c, c.Server, ready)
	if err != nil {
		return Outcome{failed, failed}, err
	}
	defer server.stop()
	if err := c.untilReady(ctx, server, l.sockets("server"), ready); err != nil {
		server.stop()
		return Outcome{server.code(), failed}, err
	}
	ports := listeners(family(server.cmd.Process.Pid), l.sockets("server"))
	client, err := start(l, "client", c, c.Client, nil)
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
	if err := cmp.Or(ctx.Err(), c.sameCommand(client.code())); err != nil || client.code() == 0 {
		return Outcome{server.code(), client.code()}, err
	}
	return Outcome{server.code(), client.code()}, elsewhere(client.unmet, ports)
}

// sameCommand says why a client may have failed that was started as the server was: it became a
// second server.
func (c *Config) sameCommand(code int) error {
	if code == 0 || !slices.Equal(c.Server, c.Client) {
		return nil
	}
	return errors.New("the client failed, and its command is the server's: is the server's address missing in it?")
}

// launcher starts a command as one end of the pair.
type launcher interface {
	start(end string, cmd *exec.Cmd) error
	flags(end string) []string
	sockets(end string) []string // where its daemon may be
}

// direct starts both ends in the network namespace of this process.
type direct struct {
	runFlags []string
	at       []string
}

func (d direct) start(_ string, cmd *exec.Cmd) error { return cmd.Start() }
func (d direct) flags(string) []string               { return d.runFlags }
func (d direct) sockets(string) []string             { return d.at }

// end is a program under gorxe run.
type end struct {
	name    string
	ends    func(end string) // before it is stopped; nil: nothing
	cmd     *exec.Cmd
	done    chan struct{} // closed when the program has ended
	waitErr error         // valid then
	// lines of its output, which are looked for if this process has the output; nil: it has not
	taken, unmet *lines
}

func start(l launcher, name string, c Config, program []string, ready *lines) (*end, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	args := append([]string{"run"}, l.flags(name)...)
	if c.EndFlags != nil {
		args = append(args, c.EndFlags(name)...)
	}
	args = append(args, "--")
	e := &end{name: name, ends: c.Stopping, cmd: exec.Command(self, append(args, program...)...), done: make(chan struct{})}
	if c.Labels {
		e.taken, e.unmet = newLines(portTaken), newLines(unmet)
	}
	out, err := c.output(name, e.cmd, ready, e.taken, e.unmet)
	if err != nil {
		return nil, err
	}
	if err := l.start(name, e.cmd); err != nil {
		out.end()
		return nil, fmt.Errorf("the %s: %w", name, err)
	}
	out.begin()
	go func() {
		e.waitErr = e.cmd.Wait()
		out.end()
		close(e.done)
	}()
	return e, nil
}

// output sets where the command of one end writes to. Without labels and without a line to look
// for, it has this process's files, which may be a terminal.
func (c *Config) output(name string, cmd *exec.Cmd, ready *lines, more ...*lines) (output, error) {
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if !c.Labels && ready == nil {
		return nil, nil
	}
	var out output
	for _, to := range []*io.Writer{&cmd.Stdout, &cmd.Stderr} {
		stream, err := newStream(*to)
		if err != nil {
			out.end()
			return nil, err
		}
		out = append(out, stream)
		*to = stream.w
		if c.Labels {
			stream.label = &labeler{to: stream.to, label: name + ": "}
			stream.to = stream.label
		}
		for _, l := range append(more, ready) {
			stream.to = l.beside(stream.to)
		}
	}
	return out, nil
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
	if e.ends != nil {
		e.ends(e.name)
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
