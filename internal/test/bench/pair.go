package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/gorxe/gorxe/internal/test/netns"
)

// What both programs of a pair are told of the device.
const (
	deviceName = "rxe0"
	ipv4GID    = "1" // index in the GID table
)

// pairLimit is how long a pair may take, and the grace after that. Beside other work, programs that
// poll may wait for a processor at each message.
const (
	pairLimit = 3 * time.Minute
	killGrace = 2 * time.Second
)

// program is a command under gorxe run.
type program struct {
	cmd   *exec.Cmd
	input io.WriteCloser
	out   bytes.Buffer
	log   bytes.Buffer  // standard error
	ended chan struct{} // closed after err is set
	err   error
}

// launch starts a program that sees the device of daemon d.
func launch(ctx context.Context, d *daemon, argv ...string) (*program, error) {
	p := &program{ended: make(chan struct{})}
	p.cmd = d.command(ctx, append([]string{"run", "--"}, argv...)...)
	p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.log
	var err error
	if p.input, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if err := d.host.Do(p.cmd.Start); err != nil {
		return nil, err
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.ended)
	}()
	return p, nil
}

// graceful makes the end of the context SIGTERM, which gorxe run forwards.
func graceful(cmd *exec.Cmd) *exec.Cmd {
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = killGrace
	return cmd
}

// wait returns when the program has ended.
func (p *program) wait() error {
	<-p.ended
	if p.err != nil {
		return fmt.Errorf("%s: %w\n%s%s", strings.Join(p.cmd.Args, " "), p.err, &p.out, &p.log)
	}
	return nil
}

// listening waits until the program accepts TCP connections: perftest's client
// does not try twice.
func (p *program) listening(port int) error {
	for !netns.Listens(p.cmd.Process.Pid, port) {
		select {
		case <-p.ended:
			return errors.Join(errors.New("ended before it listened"), p.wait())
		case <-time.After(2 * time.Millisecond):
		}
	}
	return nil
}

// named has a command line use the place's device.
func (p *place) named(argv []string) []string {
	if i := slices.Index(argv, "-d"); i >= 0 {
		argv[i+1] = p.server.device
	}
	return argv
}

// run runs a row's programs once, with n messages.
func (p *place) run(ctx context.Context, r Row, n int) (Outcome, error) {
	ctx, cancel := context.WithTimeout(ctx, pairLimit)
	defer cancel()
	port := p.port()
	argv := p.named(append([]string{r.Tool, "-p", strconv.Itoa(port)}, r.args(n)...))
	if p.oneRun {
		return p.runTogether(ctx, port, argv)
	}
	return p.pair(ctx, port, argv)
}

// pair runs a server, and a client under a gorxe run of its own.
func (p *place) pair(ctx context.Context, port int, argv []string) (Outcome, error) {
	ctx, cancel := context.WithTimeout(ctx, pairLimit)
	defer cancel()
	server, err := launch(ctx, p.server, argv...)
	if err != nil {
		return Outcome{}, err
	}
	defer func() {
		cancel()
		<-server.ended
	}()
	if err := server.listening(port); err != nil {
		return Outcome{}, err
	}
	client, err := launch(ctx, p.client, append(slices.Clone(argv), p.server.addr.String())...)
	if err != nil {
		return Outcome{}, err
	}
	if err := client.wait(); err != nil {
		return Outcome{}, err
	}
	if err := server.wait(); err != nil {
		return Outcome{}, err
	}
	return client.outcome()
}

// together is a shell's program: it runs the server, and after a line of input the client.
// Its arguments are the server's address and the server's command.
const together = `"$@" >&2 & server=$!
trap 'kill $server 2>/dev/null' EXIT
read -r go && "$@" "$0" && wait $server && trap - EXIT`

// runTogether runs both programs under one gorxe run.
func (p *place) runTogether(ctx context.Context, port int, argv []string) (Outcome, error) {
	both, err := launch(ctx, p.server, append([]string{"sh", "-c", together, p.server.addr.String()}, argv...)...)
	if err != nil {
		return Outcome{}, err
	}
	if err := both.listening(port); err != nil {
		return Outcome{}, err
	}
	if _, err := fmt.Fprintln(both.input, "go"); err != nil {
		return Outcome{}, errors.Join(err, both.wait())
	}
	if err := both.wait(); err != nil {
		return Outcome{}, err
	}
	return both.outcome()
}

// outcome is what a client has printed.
func (p *program) outcome() (Outcome, error) {
	o, err := Parse(p.out.String())
	if err != nil {
		err = fmt.Errorf("%w\n%s%s", err, &p.out, &p.log)
	}
	return o, err
}
