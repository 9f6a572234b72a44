package keeper

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/gorxe/gorxe/internal/service/proto"
)

// attempts bounds how often attach waits for a daemon that is starting or ending, each time for
// pause. A daemon takes up to five seconds to end.
const (
	attempts        = 700
	versionAttempts = 200 // for one of another version, which may stay
	pause           = 10 * time.Millisecond
)

// search looks for a daemon.
type search struct {
	cfg    Config
	argv   []string
	paths  []string // of sockets
	wanted proto.Wanted
	// started are pipes to the daemons that this process has started. Each waits for a session
	// until its pipe is closed.
	started []io.Closer
}

// attach finds a daemon or starts a private one, and announces the session.
func attach(cfg Config, argv []string) (*proto.Client, proto.Hello, error) {
	s := search{cfg: cfg, argv: argv}
	defer s.close()
	if err := s.prepare(); err != nil {
		return nil, proto.Hello{}, err
	}
	for attempt := range attempts {
		client, hello, err := s.look()
		switch {
		case err == nil:
			compare(hello, proto.ThisBuild(), client.Socket())
			if len(s.started) > 0 {
				sayFree(cfg, hello)
			}
			return client, hello, nil
		case errors.Is(err, proto.ErrNoDaemon):
			none := err
			if cfg.Container && proto.Orphaned(s.paths[0]) {
				return nil, hello, fmt.Errorf("the daemon of this container at %s was killed: restart the container", s.paths[0])
			}
			if err = s.startPrivate(); err == nil {
				continue
			}
			if !errors.Is(err, proto.ErrDaemonRuns) {
				return nil, hello, besideForbidden(none, err)
			}
		case errors.Is(err, proto.ErrElsewhere):
			if err := s.move(); err != nil {
				return nil, hello, err
			}
			continue
		case errors.Is(err, proto.ErrEnding):
		case errors.Is(err, proto.ErrVersion) && attempt < versionAttempts:
			// an older one ends some time after its last program
		default:
			return nil, hello, err
		}
		time.Sleep(pause) // it closes its UDP ports, or opens them
	}
	return nil, proto.Hello{}, fmt.Errorf("the daemon at %s neither serves nor ends", s.paths[0])
}

// besideForbidden names, before the error of a daemon that did not start, the daemon that does not
// let this user in: it may have what the other lacks.
func besideForbidden(none, err error) error {
	var forbidden *proto.ForbiddenError
	if !errors.As(none, &forbidden) {
		return err
	}
	return fmt.Errorf("%w.\nA daemon of this user cannot serve either: %w", forbidden, err)
}

// prepare reads the configuration.
func (s *search) prepare() (err error) {
	cfg := &s.cfg
	if s.paths, err = proto.Sockets(cfg.Socket); err != nil {
		return err
	}
	if cfg.Capture != "" {
		// The daemon works elsewhere.
		if cfg.Capture, err = filepath.Abs(cfg.Capture); err != nil {
			return err
		}
	}
	if cfg.Segment != "" {
		if cfg.Segment, err = filepath.Abs(cfg.Segment); err != nil {
			return err
		}
	}
	s.wanted = proto.Wanted{Segment: cfg.Segment, Capture: cfg.Capture, Doorbells: cfg.Doorbells, Speed: cfg.Speed, Like: cfg.Like, ECN: cfg.ECN, Chaos: cfg.Chaos, Sanitize: cfg.Sanitize, SanitizeAbort: cfg.SanitizeAbort, Label: cfg.Label}
	// otherwise the user has chosen the daemon
	if cfg.Socket == "" && os.Getenv(proto.EnvSocket) == "" {
		s.wanted.Network = proto.ThisNetwork()
	}
	if len(cfg.Devices) > 0 {
		if s.wanted.Devices, err = proto.ParseSpecs("", cfg.Devices, cfg.Like); err != nil {
			return err
		}
		s.wanted.Devices = proto.WithSpeed(s.wanted.Devices, cfg.Speed)
	}
	return nil
}

// look announces the session to the daemon that there is.
func (s *search) look() (*proto.Client, proto.Hello, error) {
	client, err := proto.Dial(s.paths)
	if err != nil {
		return nil, proto.Hello{}, err
	}
	hello, err := client.Hello(s.argv, s.wanted)
	if err == nil && hello.Chaos != s.cfg.Chaos {
		err = fmt.Errorf("the daemon at %s is older than this gorxe and has no chaos: restart it", client.Socket())
	}
	if err == nil && len(s.wanted.Devices) == 0 && !s.cfg.Like.In(hello.Devices) {
		err = fmt.Errorf("the daemon at %s is older than this gorxe and has no --like: restart it", client.Socket())
	}
	if err == nil && hello.Sanitize != s.cfg.Sanitize {
		err = fmt.Errorf("the daemon at %s is older than this gorxe and has no sanitizer: restart it", client.Socket())
	}
	if err != nil {
		client.Close()
		return nil, hello, err
	}
	return client, hello, nil
}

// move makes this run, and others of its network namespace, meet at a socket of their own. The
// usual one has a daemon whose devices are not on interfaces of this namespace.
func (s *search) move() error {
	path, err := proto.NetworkSocket()
	s.paths, s.wanted.Network = []string{path}, 0
	return err
}

// compare tells the user if the daemon is another build of gorxe than this one.
func compare(hello proto.Hello, this proto.Build, socket string) {
	who := fmt.Sprintf("the daemon at %s (process %d) is another build of gorxe (%v) than this one (%v)", socket, hello.PID, hello.Build, this)
	switch {
	case hello.Build == this:
	case hello.Private:
		complain("%s: this run joins it, as other programs use it; a run after those gets a daemon of its own build", who)
	default:
		complain("%s: this run joins it; restart the daemon to have one build", who)
	}
}

func (s *search) close() {
	for _, c := range s.started {
		c.Close() //nolint:errcheck // a pipe that nothing is written to
	}
}

// startPrivate starts a daemon that serves at the first socket and ends with its last program. It
// belongs to no terminal, and inherits no descriptor of this process.
func (s *search) startPrivate() (err error) {
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			r.Close()
		}
	}()
	cfg, socket := &s.cfg, s.paths[0]
	args := []string{"daemon", "--private", "--socket", socket}
	args = append(args, cfg.DeviceFlags...)
	if cfg.Speed != 0 {
		args = append(args, "--speed", cfg.Speed.String())
	}
	if cfg.Like != "" {
		args = append(args, "--like", string(cfg.Like))
	}
	if cfg.ECN != "" {
		args = append(args, "--ecn", string(cfg.ECN))
	}
	if cfg.Segment != "" {
		args = append(args, "--segment", cfg.Segment)
	}
	if cfg.Capture != "" {
		args = append(args, "--pcap", cfg.Capture)
		if cfg.CaptureMax > 0 {
			args = append(args, "--pcap-max", strconv.FormatUint(cfg.CaptureMax, 10))
		}
	}
	cmd := exec.Command(self, args...)
	cmd.Args[0] = "gorxe"
	cmd.ExtraFiles = []*os.File{w}
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if cfg.LogLevel != "" {
		// With --log-level the user sees the log. Otherwise standard error must end with
		// the program, and not with the daemon.
		cmd.Args = append(cmd.Args, "--log-level", cfg.LogLevel)
		cmd.Stderr = os.Stderr
	}
	err = cmd.Start()
	w.Close()
	if err != nil {
		return fmt.Errorf("starting a daemon: %w", err)
	}
	go cmd.Wait() //nolint:errcheck // the daemon reports its own errors
	if err = proto.ReadOutcome(r); err == nil {
		s.started = append(s.started, r)
	}
	return err
}
