package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"
	"strconv"
	"time"

	"github.com/gorxe/gorxe/internal/sched"
	"github.com/gorxe/gorxe/internal/service/daemon"
	"github.com/gorxe/gorxe/internal/service/metrics"
	"github.com/gorxe/gorxe/internal/service/proto"
	"github.com/gorxe/gorxe/rocev2"
)

type daemonCmd struct {
	deviceFlags `embed:""`
	SocketMode  fileMode `name:"socket-mode" placeholder:"MODE" help:"Permissions of the socket, in octal (default: 0600 for its owner only; 0660 with --socket-group)."`
	SocketGroup string   `name:"socket-group" placeholder:"GROUP" help:"Group of the socket, whose members may connect."`
	UserMemory  size     `name:"user-memory" placeholder:"SIZE" help:"How much of the daemon's memory the programs of one user may use, for example 512MiB or 4GiB (default: a quarter of what the machine and the daemon's control groups allow)."`
	Metrics     string   `placeholder:"HOST:PORT" help:"Serve metrics for Prometheus at http://HOST:PORT/metrics. No password protects them. 127.0.0.1:9879 is for this host only."`
	PCAPMax     uint64   `name:"pcap-max" hidden:"" help:"How many bytes of packets --pcap captures."`
	Private     bool     `hidden:"" help:"Serve the gorxe run that started this process, and end with the last client."`
	Looks       string   `name:"record-looks" hidden:"" env:"GORXE_LOOKS" help:"Write what each thread that takes doorbells finds and decides to files whose names begin so: a line of JSON for each look, for the tests of internal/sched."`
	CPUProfile  string   `name:"cpu-profile" hidden:"" env:"GORXE_CPUPROFILE" help:"Write a CPU profile of the daemon to this file when it ends."`
}

// Help is the part of `gorxe daemon --help` above the flags.
func (daemonCmd) Help() string {
	return `Serves devices to the programs that gorxe run starts. Several programs can share them, of several users if --socket-mode and --socket-group let those connect (see https://github.com/gorxe/gorxe/blob/main/docs/security.md). The daemon stays in the foreground. When it is ready, it prints one line with its devices, their addresses and its socket, and tells systemd. With --log-level info it logs more, with warn or error no such line. It ends cleanly on SIGTERM and SIGINT. Attached programs then continue without a device.

The exit code is 0 after a clean end, 1 if it could not serve, 2 if the command line is wrong. An interface or an address that this host does not have is 1.

Examples:
  gorxe daemon
  gorxe daemon --devices 8
  gorxe daemon --device rxe0=eth0 --device rxe1=127.0.0.1 --log-level info
  gorxe daemon --socket /run/gorxe.sock --socket-group rdma
  gorxe daemon --metrics 127.0.0.1:9879`
}

// clearTimeout is how long this command waits for a private daemon that ends.
const clearTimeout = 2 * time.Second

// Run serves until a signal.
func (c daemonCmd) Run(ctx context.Context, std streams) error {
	raiseProcessors()
	if err := enoughSpace(); err != nil && !c.Private { // gorxe run has looked
		return err
	}
	var ready *proto.Ready
	if c.Private {
		var err error
		if ready, err = proto.NewReady(); err != nil {
			return usageError{err}
		}
	}
	server, stop, err := c.startWatched(std)
	if ready != nil {
		ready.Say(err)
		if err != nil {
			return errSaid
		}
		go func() {
			ready.AwaitEnd()
			server.EndUnasked()
		}()
	}
	if err != nil {
		return err
	}
	c.sayReady(std, server.Status())
	if err := daemon.Notify("READY=1"); err != nil {
		slog.New(slog.NewTextHandler(std.err, nil)).Warn("the service manager does not listen", "error", err)
	}
	told := make(chan struct{})
	stopped := context.AfterFunc(ctx, func() {
		defer close(told)
		daemon.Notify("STOPPING=1") //nolint:errcheck // systemd notices the end anyway
	})
	err = server.Run(ctx)
	if !stopped() {
		<-told
	}
	return errors.Join(err, stop())
}

// startWatched is startProfiled, with metrics if an address is given. Its first result runs,
// and its second ends what this function started beside it.
func (c daemonCmd) startWatched(std streams) (*daemon.Server, func() error, error) {
	if c.Metrics == "" {
		return c.startProfiled(std)
	}
	ln, err := metrics.Listen(c.Metrics)
	if err != nil {
		return nil, nil, fmt.Errorf("--metrics: %w", err)
	}
	server, stopProfile, err := c.startProfiled(std)
	if err != nil {
		ln.Close() //nolint:errcheck // err says what is wrong
		return nil, nil, err
	}
	served := metrics.Serve(ln, server.Status, c.logger(std))
	return server, func() error {
		served.Close()
		return stopProfile()
	}, nil
}

// startProfiled is start, with a profile if one is wanted.
func (c daemonCmd) startProfiled(std streams) (*daemon.Server, func() error, error) {
	sched.RecordTo(c.Looks)
	stop, err := startProfile(c.CPUProfile)
	if err != nil {
		return nil, nil, err
	}
	server, err := c.start(std)
	for end := time.Now().Add(clearTimeout); c.clears(err) && time.Now().Before(end); {
		time.Sleep(clearTimeout / 100)
		server, err = c.start(std)
	}
	if err != nil {
		err = errors.Join(err, stop())
	}
	return server, stop, err
}

// clears reports whether the obstacle to starting may disappear by itself. That is a
// private daemon that is about to end, at this socket. It may also be at another socket,
// which the UDP port in use shows.
func (c daemonCmd) clears(err error) bool {
	return errors.Is(err, rocev2.ErrPortTaken) || errors.Is(err, proto.ErrDaemonRuns) && c.idle()
}

// idle reports whether the daemon at the socket is a private one that is about to end.
func (c daemonCmd) idle() bool {
	if c.Private {
		return false
	}
	paths, err := proto.Sockets(c.Socket)
	if err != nil {
		return false
	}
	client, err := proto.Dial(paths[:1])
	if err != nil {
		return true // it has just ended, or ends now
	}
	defer client.Close()
	st, err := client.Status()
	return err != nil || st.Private && len(st.Sessions) == 0
}

func (c daemonCmd) start(std streams) (*daemon.Server, error) {
	specs, err := c.specs()
	if err == nil && len(specs) == 0 {
		specs, err = proto.DefaultSpecs(c.Like)
	}
	if err != nil {
		return nil, err
	}
	inherited, err := daemon.Inherited()
	if err != nil {
		return nil, err
	}
	paths, err := proto.Sockets(c.Socket)
	if err != nil {
		return nil, err
	}
	if inherited != nil {
		paths[0] = inherited.Addr().String()
	}
	dir := c.Segment
	if dir != "" {
		if dir, err = filepath.Abs(dir); err != nil {
			return nil, err
		}
	}
	server, err := daemon.Start(daemon.Config{
		Devices: proto.WithSpeed(specs, c.Speed), Socket: paths[0], Inherited: inherited,
		SocketMode: c.socketMode(), SocketGroup: c.SocketGroup, UserMemory: int64(c.UserMemory),
		Doorbells: c.Doorbells, ECN: c.ECN, Segment: dir, Capture: c.PCAP, CaptureMax: c.PCAPMax, Private: c.Private,
		Log: c.logger(std),
	})
	return server, c.named(err)
}

func (c daemonCmd) logger(std streams) *slog.Logger {
	return slog.New(slog.NewTextHandler(std.err, &slog.HandlerOptions{Level: logLevel(c.LogLevel)}))
}

// socketMode returns the permissions of the socket. A group that the user names may
// connect.
func (c daemonCmd) socketMode() fs.FileMode {
	switch {
	case c.SocketMode != 0:
		return fs.FileMode(c.SocketMode)
	case c.SocketGroup != "":
		return 0o660
	default:
		return 0o600
	}
}

// logLevel is a value that the parser has let pass.
func logLevel(name string) slog.Level {
	level := slog.LevelWarn
	if name != "" {
		_ = level.UnmarshalText([]byte(name)) // one of the four
	}
	return level
}

// errSaid: whom it concerns has been told.
var errSaid = errors.New("")

// fileMode is a mode on the command line: "0660".
type fileMode fs.FileMode

// UnmarshalText implements encoding.TextUnmarshaler.
func (m *fileMode) UnmarshalText(text []byte) error {
	n, err := strconv.ParseUint(string(text), 8, 32)
	if err != nil || n > 0o777 {
		return fmt.Errorf("%q is not a mode: three octal digits are, as 0660", text)
	}
	*m = fileMode(n)
	return nil
}
