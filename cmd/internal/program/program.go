// Package program starts programs under gorxe run, labels what they write, and tells when one is
// ready for others.
package program

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// Config says what to start.
type Config struct {
	Title   string   // of the program, for errors: "the server"
	Flags   []string // of gorxe run
	Program []string
	Env     []string // beside that of this process, as NAME=VALUE
	Label   string   // before each line of output; empty: none
	// Files are the program's standard input, output and errors; nil: those of this process, and no
	// input.
	Files []*os.File
	Ready Ready
	// Group: the program has a process group of its own, and Stop ends all of it. So what a shell
	// has started ends, too.
	Group bool
	// Stopping, if not nil, is called before the program is ended.
	Stopping func()
	// Start starts the command; nil: it is started as any other.
	Start func(*exec.Cmd) error
}

// Failed is the exit code of a program that did not start. It is that of gorxe run.
const Failed = 125

const stopGrace = 5 * time.Second // after SIGTERM, before SIGKILL

// Program is a program under gorxe run.
type Program struct {
	config Config
	cmd    *exec.Cmd
	lines  *lines // that say that the program is ready; nil: it is when it listens
	// lines of its output, which are looked for if it has a label; nil: it has none
	taken, unmet, rejected *lines
	byCM                   bool          // it was ready because it listened by RDMA CM
	done                   chan struct{} // closed when the program has ended
	waitErr                error         // valid then
}

// Start starts a program.
func Start(c Config) (*Program, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	args := append([]string{"run"}, c.Flags...)
	args = append(append(args, "--"), c.Program...)
	p := &Program{config: c, cmd: exec.Command(self, args...), lines: newLines(c.Ready.When), done: make(chan struct{})}
	if c.Label != "" {
		p.taken, p.unmet, p.rejected = newLines(portTaken), newLines(unmet), newLines(rejected)
	}
	if len(c.Env) > 0 {
		p.cmd.Env = append(os.Environ(), c.Env...)
	}
	if c.Group {
		p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	}
	out, err := p.output()
	if err != nil {
		return nil, err
	}
	start := c.Start
	if start == nil {
		start = (*exec.Cmd).Start
	}
	if err := start(p.cmd); err != nil {
		out.end()
		return nil, fmt.Errorf("%s: %w", c.Title, err)
	}
	out.begin()
	go func() {
		p.waitErr = p.cmd.Wait()
		out.end()
		close(p.done)
	}()
	return p, nil
}

// output sets where the program writes to. Without a label and without a line to look for, it has
// this process's files, which may be a terminal.
func (p *Program) output() (output, error) {
	p.cmd.Stdout, p.cmd.Stderr = os.Stdout, os.Stderr
	if f := p.config.Files; f != nil {
		p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = f[0], f[1], f[2]
	}
	if p.config.Label == "" && p.lines == nil {
		return nil, nil
	}
	var out output
	for _, to := range []*io.Writer{&p.cmd.Stdout, &p.cmd.Stderr} {
		stream, err := newStream(*to)
		if err != nil {
			out.end()
			return nil, err
		}
		out = append(out, stream)
		*to = stream.w
		if p.config.Label != "" {
			stream.label = &labeler{to: stream.to, label: p.config.Label + ": "}
			stream.to = stream.label
		}
		for _, l := range []*lines{p.taken, p.unmet, p.rejected, p.lines} {
			stream.to = l.beside(stream.to)
		}
	}
	return out, nil
}

// Done is closed when the program has ended and its output has been passed on.
func (p *Program) Done() <-chan struct{} { return p.done }

// Ended reports whether the program has ended.
func (p *Program) Ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// Ports returns where the program and those below it listen: the number of each TCP port, and ""
// for a Unix socket.
func (p *Program) Ports() []string {
	return listeners(Family(p.cmd.Process.Pid), p.config.Ready.Sockets)
}

// ByCM reports whether the program was ready because it listened by RDMA CM.
func (p *Program) ByCM() bool { return p.byCM }

// Wrote returns what the program has written of ports. Without a label that is not known.
func (p *Program) Wrote() Wrote {
	return Wrote{Taken: p.taken.seen(), Unmet: p.unmet.seen(), Rejected: p.rejected.seen()}
}

// Running returns the program's name and number while it runs: those of the first process below
// gorxe run that is not gorxe itself.
func (p *Program) Running() (name string, pid int) { return running(Family(p.cmd.Process.Pid)) }

// Stop ends the program if it runs. gorxe run passes the signal on.
func (p *Program) Stop() {
	if p.Ended() {
		return
	}
	if p.config.Stopping != nil {
		p.config.Stopping()
	}
	p.signal(syscall.SIGTERM)
	select {
	case <-p.done:
		return
	case <-time.After(stopGrace):
	}
	p.signal(syscall.SIGKILL)
	<-p.done
}

// signal sends a signal to the program, or to its group. It may have ended meanwhile.
func (p *Program) signal(s syscall.Signal) {
	if p.config.Group {
		_ = syscall.Kill(-p.cmd.Process.Pid, s) // as above
		return
	}
	_ = p.cmd.Process.Signal(s) // as above
}

// Code returns the exit code of a program that has ended, as a shell shows it.
func (p *Program) Code() int {
	if p.waitErr == nil {
		return 0
	}
	var exit *exec.ExitError
	if !errors.As(p.waitErr, &exit) {
		return Failed
	}
	if ws, ok := exit.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return 128 + int(ws.Signal())
	}
	return exit.ExitCode()
}
