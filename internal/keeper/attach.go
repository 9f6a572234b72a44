package keeper

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/gorxe/gorxe/internal/daemon"
)

// attempts bounds how often a daemon that is just ending, or just starting, is
// given way to.
const attempts = 50

// attach finds a daemon or starts a private one, and announces the session.
func attach(cfg Config, argv []string) (*daemon.Client, error) {
	paths, err := daemon.Sockets(cfg.Socket)
	if err != nil {
		return nil, err
	}
	for range attempts {
		client, err := daemon.Dial(paths)
		switch {
		case err == nil:
			hello, err := client.Hello(argv)
			if err == nil {
				err = suits(&hello, &cfg, client.Socket())
			}
			if err == nil {
				return client, nil
			}
			client.Close()
			if !errors.Is(err, daemon.ErrEnding) {
				return nil, err
			}
		case errors.Is(err, daemon.ErrNoDaemon):
			if err := startPrivate(cfg, paths[0]); err != nil && !errors.Is(err, daemon.ErrDaemonRuns) {
				return nil, err
			}
			continue
		default:
			return nil, err
		}
		time.Sleep(20 * time.Millisecond) // it closes its UDP ports
	}
	return nil, fmt.Errorf("the daemon at %s neither serves nor ends", paths[0])
}

// suits refuses a daemon that was started with other devices than the user asks
// for: they are made when a daemon starts.
func suits(hello *daemon.Hello, cfg *Config, socket string) error {
	if cfg.Capture != "" {
		return fmt.Errorf("--pcap: the daemon at %s (process %d) runs already: give it --pcap when it is started, "+
			"or choose another socket with --socket", socket, hello.PID)
	}
	if len(cfg.Devices) == 0 {
		return nil
	}
	specs, err := daemon.ParseSpecs(cfg.Devices)
	if err != nil {
		return err
	}
	have := make(map[daemon.Spec]bool)
	for _, s := range hello.Devices {
		have[s] = true
	}
	for _, s := range specs {
		if !have[s] {
			return fmt.Errorf("--device %v: the daemon at %s (process %d) has %v: leave --device away, "+
				"or choose another socket with --socket for a daemon of its own", s, socket, hello.PID, hello.Devices)
		}
	}
	return nil
}

// startPrivate starts a daemon that serves at socket and ends with its last
// program. It belongs to no terminal and holds no descriptor of this process's.
func startPrivate(cfg Config, socket string) error {
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	defer r.Close()
	args := []string{"daemon", "--private", "--socket", socket}
	for _, d := range cfg.Devices {
		args = append(args, "--device", d)
	}
	if cfg.Capture != "" {
		file, err := filepath.Abs(cfg.Capture)
		if err != nil {
			w.Close()
			return err
		}
		args = append(args, "--pcap", file)
	}
	cmd := exec.Command(self, args...)
	cmd.Args[0] = "gorxe"
	cmd.ExtraFiles = []*os.File{w}
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if cfg.LogLevel != "" {
		// Who asks for a log sees it. Others get their standard error back when the
		// program ends, and not when the daemon does.
		cmd.Args = append(cmd.Args, "--log-level", cfg.LogLevel)
		cmd.Stderr = os.Stderr
	}
	err = cmd.Start()
	w.Close()
	if err != nil {
		return fmt.Errorf("starting a daemon: %w", err)
	}
	go cmd.Wait() //nolint:errcheck // it says itself what went wrong
	return ready(r)
}

// ready waits for the daemon's word.
func ready(r io.Reader) error {
	word, err := bufio.NewReader(r).ReadString('\n')
	switch {
	case err == nil && word == daemon.ReadyWord+"\n":
		return nil
	case word == "":
		return errors.New("the daemon ended before it was ready: `gorxe daemon` shows why")
	case strings.HasPrefix(word, daemon.RunsWord):
		return daemon.ErrDaemonRuns
	}
	return errors.New(strings.TrimSuffix(word, "\n"))
}
