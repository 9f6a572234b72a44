package keeper

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
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

// attach finds a daemon or starts a private one, and announces the session.
func attach(cfg Config, argv []string) (*proto.Client, proto.Hello, error) {
	var hello proto.Hello
	paths, err := proto.Sockets(cfg.Socket)
	if err != nil {
		return nil, hello, err
	}
	if cfg.Capture != "" {
		// The daemon works elsewhere.
		if cfg.Capture, err = filepath.Abs(cfg.Capture); err != nil {
			return nil, hello, err
		}
	}
	wanted := proto.Wanted{Capture: cfg.Capture, Doorbells: cfg.Doorbells, Speed: cfg.Speed, ECN: cfg.ECN, Chaos: cfg.Chaos, Label: cfg.Label}
	if len(cfg.Devices) > 0 {
		if wanted.Devices, err = proto.ParseSpecs("", cfg.Devices); err != nil {
			return nil, hello, err
		}
		wanted.Devices = proto.WithSpeed(wanted.Devices, cfg.Speed)
	}
	for attempt := range attempts {
		var client *proto.Client
		client, err = proto.Dial(paths)
		switch {
		case err == nil:
			if hello, err = client.Hello(argv, wanted); err == nil && hello.Chaos != cfg.Chaos {
				client.Close()
				return nil, hello, fmt.Errorf("the daemon at %s is older than this gorxe and has no chaos: restart it", client.Socket())
			}
			if err == nil {
				compare(hello, proto.ThisBuild(), client.Socket())
				return client, hello, nil
			}
			client.Close()
			switch {
			case errors.Is(err, proto.ErrEnding):
			case errors.Is(err, proto.ErrVersion) && attempt < versionAttempts: // an older one ends some time after its last program
			default:
				return nil, hello, err
			}
		case errors.Is(err, proto.ErrNoDaemon):
			err := startPrivate(cfg, paths[0])
			if err == nil {
				continue
			}
			if !errors.Is(err, proto.ErrDaemonRuns) {
				return nil, hello, err
			}
		default:
			return nil, hello, err
		}
		time.Sleep(pause) // it closes its UDP ports, or opens them
	}
	return nil, hello, fmt.Errorf("the daemon at %s neither serves nor ends", paths[0])
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

// startPrivate starts a daemon that serves at socket and ends with its last program. It
// belongs to no terminal, and inherits no descriptor of this process.
func startPrivate(cfg Config, socket string) error {
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	defer r.Close()
	args := []string{"daemon", "--private", "--socket", socket}
	args = append(args, cfg.DeviceFlags...)
	if cfg.Speed != 0 {
		args = append(args, "--speed", cfg.Speed.String())
	}
	if cfg.ECN != "" {
		args = append(args, "--ecn", string(cfg.ECN))
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
	return ready(r)
}

// ready waits until the daemon reports the outcome of its start.
func ready(r io.Reader) error {
	word, err := bufio.NewReader(r).ReadString('\n')
	switch {
	case err == nil && word == proto.ReadyWord+"\n":
		return nil
	case word == "":
		return errors.New("the daemon ended before it was ready: `gorxe daemon` shows why")
	case strings.HasPrefix(word, proto.RunsWord):
		return proto.ErrDaemonRuns
	}
	return errors.New(strings.TrimSuffix(word, "\n"))
}
