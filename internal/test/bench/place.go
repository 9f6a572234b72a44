package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/gorxe/gorxe/internal/test/netns"
	"github.com/gorxe/gorxe/internal/test/udpbaseline"
)

// vethMTU has room for packets of path MTU 4096 with all their headers.
const vethMTU = 4500

// place is where a pair of programs runs, and plain UDP between the same hosts.
type place struct {
	name           string
	server, client *daemon
	hosts          []*netns.Host // to be closed
	from, to       udpbaseline.End
	ports          int  // given out
	oneRun         bool // both programs are under one gorxe run
}

// newOneDaemon is a daemon on a loopback address, for both programs. Those of SideBySide have
// addresses of their own.
func newOneDaemon(ctx context.Context, cfg Config, dir string) (*place, error) {
	second := byte(100 + max(slices.Index(devices, cfg.Device), 0))
	addr := netip.AddrFrom4([4]byte{127, second, byte(os.Getpid() >> 8), byte(os.Getpid()) | 1})
	d, err := startDaemon(ctx, cfg, &netns.Host{}, filepath.Join(dir, OneDaemon), addr.String())
	if err != nil {
		return nil, err
	}
	d.addr = netip.AddrFrom4([4]byte{127, 0, 0, 1})
	from, to := udpbaseline.Loopback()
	return &place{name: OneDaemon, server: d, client: d, from: from, to: to}, nil
}

// inOneRun is the same place, for programs that one gorxe run starts. It needs no close.
func (p *place) inOneRun() *place {
	return &place{name: OneRun, server: p.server, client: p.client, from: p.from, to: p.to, oneRun: true}
}

// errNoHosts: this user cannot make two hosts.
var errNoHosts = errors.New("not measured between two daemons")

// newTwoDaemons are daemons on two hosts with a cable between them.
func newTwoDaemons(ctx context.Context, cfg Config, dir string) (*place, error) {
	p := &place{name: TwoDaemons}
	if err := p.openTwo(ctx, cfg, dir); err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

func (p *place) openTwo(ctx context.Context, cfg Config, dir string) (err error) {
	for range 2 {
		h, err := netns.New()
		if err != nil {
			return fmt.Errorf("%w: %w", errNoHosts, err)
		}
		p.hosts = append(p.hosts, h)
	}
	a, b := netip.MustParsePrefix("10.77.0.1/24"), netip.MustParsePrefix("10.77.0.2/24")
	if err := netns.Cable(p.hosts[0], p.hosts[1], vethMTU, a, b); err != nil {
		return fmt.Errorf("%w: %w", errNoHosts, err)
	}
	if p.server, err = startDaemon(ctx, cfg, p.hosts[0], filepath.Join(dir, "server"), "eth0"); err != nil {
		return err
	}
	p.server.addr = a.Addr()
	if p.client, err = startDaemon(ctx, cfg, p.hosts[1], filepath.Join(dir, "client"), "eth0"); err != nil {
		return err
	}
	p.client.addr = b.Addr()
	p.from = udpbaseline.End{Addr: b.Addr(), Do: p.hosts[1].Do}
	p.to = udpbaseline.End{Addr: a.Addr(), Do: p.hosts[0].Do}
	return nil
}

func (p *place) close() {
	for _, d := range []*daemon{p.server, p.client} {
		if d != nil {
			d.stop()
		}
	}
	for _, h := range p.hosts {
		h.Close()
	}
}

// port returns a free TCP port. Hosts that this run made have no other users. Elsewhere the
// kernel chooses.
func (p *place) port() int {
	if p.hosts == nil {
		if l, err := net.Listen("tcp", "127.0.0.1:0"); err == nil {
			port := l.Addr().(*net.TCPAddr).Port
			_ = l.Close() // it was never used
			return port
		}
	}
	p.ports++
	return 18600 + p.ports%10000
}

// daemon is a gorxe daemon on a socket of its own.
type daemon struct {
	gorxe  string
	device string
	host   *netns.Host
	socket string
	addr   netip.Addr // of the host, for TCP
	cancel context.CancelFunc
	cmd    *exec.Cmd
	ended  chan struct{}
	out    strings.Builder
}

// startDaemon returns when the daemon serves. Its files begin with stem.
func startDaemon(ctx context.Context, cfg Config, h *netns.Host, stem, where string) (*daemon, error) {
	ready, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: stem + ".notify", Net: "unixgram"})
	if err != nil {
		return nil, err
	}
	defer func() { _ = ready.Close() }()
	ctx, cancel := context.WithCancel(ctx)
	d := &daemon{gorxe: cfg.Gorxe, device: cmp.Or(cfg.Device, deviceName), host: h, socket: stem + ".sock", cancel: cancel, ended: make(chan struct{})}
	argv := []string{"daemon", "--device", d.device + "=" + where}
	if cfg.Doorbells != "" {
		argv = append(argv, "--doorbells", cfg.Doorbells)
	}
	if cfg.Segment != "" {
		argv = append(argv, "--segment", cfg.Segment)
	}
	d.cmd = d.command(ctx, argv...)
	d.cmd.Env = append(d.cmd.Env, "NOTIFY_SOCKET="+stem+".notify")
	if cfg.Looks != "" {
		d.cmd.Env = append(d.cmd.Env, "GORXE_LOOKS="+cfg.Looks+"."+filepath.Base(stem))
	}
	if cfg.Profiles != "" {
		profile := filepath.Join(cfg.Profiles, filepath.Base(stem)+".pprof")
		d.cmd.Env = append(d.cmd.Env, "GORXE_CPUPROFILE="+profile)
	}
	d.cmd.Stdout, d.cmd.Stderr = &d.out, &d.out
	// As gorxe run starts it: the scheduler may group processes by session.
	d.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := h.Do(d.cmd.Start); err != nil {
		cancel()
		return nil, err
	}
	go func() {
		d.cmd.Wait()                          //nolint:errcheck // it is ended by a signal, or has said why not
		_ = ready.SetReadDeadline(time.Now()) // closed: it was ready
		close(d.ended)
	}()
	if err := awaitReady(ready); err != nil {
		d.stop()
		return nil, fmt.Errorf("gorxe daemon: %w\n%s", err, d.out.String())
	}
	return d, nil
}

// awaitReady waits for what sd_notify(3) says.
func awaitReady(c *net.UnixConn) error {
	buf := make([]byte, 4096)
	for {
		n, err := c.Read(buf)
		if err != nil {
			return fmt.Errorf("is not ready: %w", err)
		}
		if strings.Contains(string(buf[:n]), "READY=1") {
			return nil
		}
	}
}

// command is a gorxe command line that concerns this daemon.
func (d *daemon) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := graceful(exec.CommandContext(ctx, d.gorxe, args...))
	cmd.Env = append(os.Environ(), "GORXE_SOCKET="+d.socket)
	return cmd
}

// stop ends the daemon, which writes its profile then.
func (d *daemon) stop() {
	d.cancel()
	<-d.ended
}
