// Package pair starts the two ends of a test: the server, and the client as soon as the
// server listens.
package pair

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/gorxe/gorxe/cmd/internal/hosts"
	"github.com/gorxe/gorxe/cmd/internal/labfile"
	"github.com/gorxe/gorxe/cmd/internal/program"
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
	StopServer bool   // do not wait for the end of the server
	Hosts      bool   // each end on a host of its own
	Device     string // of each host: rxe0
	Alone      bool   // the pair has an address of its own
	Labels     bool   // each line of output begins with "server: " or "client: "
	// Say, if not nil, tells the user why nothing happens.
	Say func(string)
}

// lateAfter is how long the server may go on after the client before the user is told.
const lateAfter = 5 * time.Second

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

const failed = program.Failed

// Run runs both ends, and waits for them.
func Run(ctx context.Context, c Config) (Outcome, error) {
	var l launcher = direct{c.Flags, c.Sockets}
	if c.Hosts {
		two, err := newTwoHosts(c.Flags, c.Device)
		if err != nil {
			return Outcome{failed, failed}, err
		}
		defer two.close()
		l = two
	}
	server, err := start(l, "server", c, c.Server)
	if err != nil {
		return Outcome{failed, failed}, err
	}
	defer server.Stop()
	if err := server.UntilReady(ctx); err != nil {
		server.Stop()
		return Outcome{server.Code(), failed}, err
	}
	ports := server.Ports()
	client, err := start(l, "client", c, c.Client)
	if err != nil {
		server.Stop()
		return Outcome{server.Code(), failed}, err
	}
	defer client.Stop()
	select {
	case <-client.Done():
	case <-ctx.Done():
		client.Stop()
		server.Stop()
		return Outcome{server.Code(), client.Code()}, ctx.Err()
	}
	if c.StopServer || client.Code() != 0 {
		ended := server.Ended()
		server.Stop()
		if !ended && c.StopServer {
			return Outcome{0, client.Code()}, nil // this package has ended it
		}
	}
	if !c.await(ctx, server, client.Code(), time.After(lateAfter)) {
		server.Stop()
	}
	if err := cmp.Or(ctx.Err(), c.sameCommand(client.Code())); err != nil || client.Code() == 0 {
		return Outcome{server.Code(), client.Code()}, err
	}
	return Outcome{server.Code(), client.Code()}, elsewhere(client.Wrote(), ports, server.ByCM())
}

// lasting is a program that may go on.
type lasting interface {
	Done() <-chan struct{}
	Running() (name string, pid int)
}

// await waits for the end of the server. A server that goes on after the client is often meant to
// do so, and the user waits in vain: after late, await says so once.
func (c *Config) await(ctx context.Context, server lasting, client int, late <-chan time.Time) (ended bool) {
	for {
		select {
		case <-server.Done():
			return true
		case <-ctx.Done():
			return false
		case <-late:
			late = nil
			if name, pid := server.Running(); pid != 0 && c.Say != nil {
				c.Say(fmt.Sprintf("the client ended with status %d, and the server (%s, pid %d) still runs: with --stop-server, gorxe pair ends it then", client, name, pid))
			}
		}
	}
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

// The addresses of the two hosts: TEST-NET-1 of RFC 5737.
var (
	ServerAddress = netip.MustParsePrefix("192.0.2.1/24")
	clientAddress = netip.MustParsePrefix("192.0.2.2/24")
)

// twoHosts are a lab of two hosts with a link between them.
type twoHosts struct {
	network  *hosts.Network
	runFlags []string
	device   string // of each host
	dir      string // for the sockets of the two daemons, where these meet
}

func newTwoHosts(flags []string, device string) (*twoHosts, error) {
	const port = "eth0"
	lab := &labfile.Lab{
		Hosts: []labfile.Host{
			{Name: "server", Ports: []labfile.Port{{Interface: port, Address: ServerAddress}}},
			{Name: "client", Ports: []labfile.Port{{Interface: port, Address: clientAddress}}},
		},
		Links: []labfile.Link{{Ends: [2]labfile.End{{Node: "server", Interface: port}, {Node: "client", Interface: port}}, MTU: 1500}},
	}
	dir, err := os.MkdirTemp("", "gorxe-pair-")
	if err != nil {
		return nil, err
	}
	network, err := hosts.New(lab, "")
	if err != nil {
		os.RemoveAll(dir) //nolint:errcheck // a directory in /tmp
		return nil, fmt.Errorf("--hosts: %w", err)
	}
	return &twoHosts{network, flags, device, dir}, nil
}

// start implements launcher.
func (h *twoHosts) start(end string, cmd *exec.Cmd) error { return h.network.Start(end, cmd) }

// flags implements launcher. Each host has a daemon of its own. Their Ethernet segments are joined.
func (h *twoHosts) flags(end string) []string {
	return append([]string{"--socket", h.sockets(end)[0], "--segment", h.dir, "--device", h.device + "=eth0"}, h.runFlags...)
}

// sockets implements launcher.
func (h *twoHosts) sockets(end string) []string {
	return []string{filepath.Join(h.dir, end+".sock")}
}

func (h *twoHosts) close() {
	h.network.Close()
	os.RemoveAll(h.dir) //nolint:errcheck // a directory in /tmp
}

func start(l launcher, name string, c Config, argv []string) (*program.Program, error) {
	flags := l.flags(name)
	if c.EndFlags != nil {
		flags = slices.Concat(flags, c.EndFlags(name))
	}
	p := program.Config{Title: "the " + name, Flags: flags, Program: argv, Start: func(cmd *exec.Cmd) error { return l.start(name, cmd) }}
	if c.Labels {
		p.Label = name
	}
	if c.Stopping != nil {
		p.Stopping = func() { c.Stopping(name) }
	}
	if name == "server" {
		p.Ready = program.Ready{
			Timeout: c.Timeout, When: c.ReadyWhen, Key: "--ready-when", CM: c.CM, Sockets: l.sockets(name),
			Otherwise: "the client was not started", Hint: c.notReady,
		}
	}
	return program.Start(p)
}

// notReady says what may help if the server has ended, after what it has written. Most servers
// listen at every address.
func (c *Config) notReady(wrote program.Wrote) string {
	switch {
	case wrote.Unmet || wrote.Rejected:
		return ". It has tried to connect, as a client does: the server's command comes before --, the client's after it"
	case !wrote.Taken || c.Hosts:
		return ""
	case c.Alone:
		return ". Its TCP port is taken: --hosts gives this pair ports of its own, and --private does not"
	}
	return ". Its TCP port is taken: --hosts gives this pair ports of its own"
}

// elsewhere says where the server listened, if the client has written that nobody listens where it
// has tried.
func elsewhere(wrote program.Wrote, ports []string, byCM bool) error {
	const both = "with perftest, -R belongs to both commands or to neither"
	ports = slices.DeleteFunc(ports, func(p string) bool { return p == "" })
	at := "TCP port " + strings.Join(ports, ", ")
	switch {
	case wrote.Rejected && len(ports) > 0:
		return fmt.Errorf("the client tried RDMA CM, and the server listened on %s: %s", at, both)
	case wrote.Rejected || !wrote.Unmet:
		return nil
	case len(ports) > 0:
		return fmt.Errorf("the client did not reach the server, which listened on %s", at)
	case byCM:
		return errors.New("the client tried TCP, and the server listened by RDMA CM: " + both)
	}
	return nil
}
