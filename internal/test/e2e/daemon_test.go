package e2e

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gorxe/gorxe/internal/service/proto"
)

// daemon is a `gorxe daemon` with its own socket.
type daemon struct {
	*proc
	t      *testing.T
	host   *host
	socket string
	args   []string      // of the command line
	ready  time.Duration // from its start until it said so
	// When it was idle:
	fds, goroutines int
}

// startDaemon returns when the daemon says that it is ready. It is checked for
// leaks when the test ends.
func startDaemon(t *testing.T, h *host, args ...string) *daemon {
	t.Helper()
	return startDaemonAt(t, h, nil, newSocket(t), args...)
}

// newSocket returns a path for the socket of a daemon.
func newSocket(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp(scratch, "daemon-")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, "gorxe.sock")
}

// restartDaemon starts a daemon again that has ended.
func restartDaemon(t *testing.T, d *daemon) *daemon {
	t.Helper()
	return startDaemonAt(t, d.host, nil, d.socket, d.args...)
}

// startDaemonAt starts a daemon with a command that executes it, if under is not empty.
func startDaemonAt(t *testing.T, h *host, under []string, socket string, args ...string) *daemon {
	t.Helper()
	notify := filepath.Join(filepath.Dir(socket), "notify")
	os.Remove(notify) //nolint:errcheck // a daemon at this socket may have had it
	ready, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: notify, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer ready.Close()
	d := &daemon{t: t, host: h, socket: socket, args: args}
	argv := slices.Concat(under, []string{gorxe, "daemon", "--socket", d.socket, "--doorbells", doorbells}, args)
	began := time.Now()
	d.proc = start(t, h, []string{"NOTIFY_SOCKET=" + notify}, argv...)
	if err := awaitReady(ready, d.proc); err != nil {
		t.Fatalf("gorxe daemon: %v\n%s", err, d.describe())
	}
	d.ready = time.Since(began)
	// What a daemon keeps from its first session on is not a leak.
	d.run(t, "true").ok()
	d.goroutines = d.idle().Goroutines
	d.fds = openFiles(d.pid())
	t.Cleanup(func() {
		if !t.Failed() && !d.ended() {
			d.checkLeaks()
		}
	})
	return d
}

func awaitReady(c *net.UnixConn, p *proc) error {
	buf := make([]byte, 4096)
	for deadline := time.Now().Add(programLimit); time.Now().Before(deadline) && !p.ended(); {
		c.SetReadDeadline(time.Now().Add(50 * time.Millisecond)) //nolint:errcheck // a socket has deadlines
		n, err := c.Read(buf)
		if err == nil && strings.Contains(string(buf[:n]), "READY=1") {
			return nil
		}
	}
	return fmt.Errorf("did not say that it is ready (sd_notify)")
}

func (d *daemon) pid() int { return d.cmd.Process.Pid }

func (d *daemon) env() []string { return []string{"GORXE_SOCKET=" + d.socket} }

// run starts a program under `gorxe run`, attached to the daemon.
func (d *daemon) run(t *testing.T, argv ...string) *proc {
	t.Helper()
	return d.runAs(t, d.host, argv...)
}

func (d *daemon) runAs(t *testing.T, h *host, argv ...string) *proc {
	t.Helper()
	return start(t, h, d.env(), append([]string{gorxe, "run", "--"}, argv...)...)
}

// books is what the tests read of `gorxe status --json`.
type books struct {
	Devices []struct {
		Name     string            `json:"name"`
		Objects  map[string]int    `json:"objects"`
		Counters map[string]uint64 `json:"counters"`
	} `json:"devices"`
	Sessions []struct {
		Command   []string `json:"command"`
		Processes []struct {
			PID   int        `json:"pid"`
			Name  string     `json:"name"`
			Files []bookFile `json:"files"`
		} `json:"processes"`
		CMIDs []struct {
			State string `json:"state"`
			Local string `json:"local"`
		} `json:"cm_ids"`
	} `json:"sessions"`
	Goroutines int `json:"goroutines"`
	CM         struct {
		IDs         int `json:"ids"`
		Connections int `json:"connections"`
		Ports       int `json:"ports"`
	} `json:"cm"`
}

// bookFile is an open device.
type bookFile struct {
	QPs []struct {
		RateMbps float64  `json:"rate_mbps"`
		Groups   []string `json:"multicast_groups"`
	} `json:"qps"`
	Doorbells struct {
		How string `json:"how"`
		Why string `json:"why"`
	} `json:"doorbells"`
}

func (b books) objects() int {
	n := b.CM.IDs + b.CM.Connections + b.CM.Ports
	for _, d := range b.Devices {
		for _, count := range d.Objects {
			n += count
		}
	}
	return n
}

// books asks what `gorxe status --json` asks, without a process for each question. The daemon has
// closed the connection when it returns.
func (d *daemon) books() (b books) {
	d.t.Helper()
	client, err := proto.Dial([]string{d.socket})
	if err != nil {
		d.t.Fatalf("%v\n%s", err, d.describe())
	}
	defer client.Finish()
	st, err := client.Status()
	if err != nil {
		d.t.Fatalf("%v\n%s", err, d.describe())
	}
	text, err := json.Marshal(st)
	if err == nil {
		err = json.Unmarshal(text, &b)
	}
	if err != nil {
		d.t.Fatal(err)
	}
	return b
}

// idle waits until the daemon has noticed that all programs are gone.
func (d *daemon) idle() (b books) {
	d.t.Helper()
	if !until(programLimit, func() bool { b = d.books(); return len(b.Sessions) == 0 && b.objects() == 0 }) {
		d.t.Fatalf("all programs have ended, and the daemon still holds: %+v\n%s", b, d.describe())
	}
	return b
}

func (d *daemon) checkLeaks() {
	d.t.Helper()
	var b books
	if !until(10*time.Second, func() bool { b = d.idle(); return b.Goroutines <= d.goroutines }) {
		d.t.Errorf("the daemon has %d goroutines; it had %d at first\n%s", b.Goroutines, d.goroutines, d.describe())
		return
	}
	if !until(10*time.Second, func() bool { return openFiles(d.pid()) <= d.fds }) {
		d.t.Errorf("the daemon has %d open files; it had %d at first:\n%s", openFiles(d.pid()), d.fds, listFiles(d.pid()))
	}
}

// openFiles counts the open files of a process. A daemon keeps one memfd of each content of the
// files of its tree that a program has read (sealed.Contents): the first one does not count.
func openFiles(pid int) (n int) {
	links, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	kept := make(map[string]bool)
	for _, l := range links {
		target, _ := os.Readlink(l)
		if strings.HasPrefix(target, "/memfd:gorxe-file:") {
			content, _ := os.ReadFile(l)
			if key := target + "=" + string(content); !kept[key] {
				kept[key] = true
				continue
			}
		}
		n++
	}
	return n
}

func listFiles(pid int) string {
	var b strings.Builder
	links, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	for _, l := range links {
		target, _ := os.Readlink(l)
		fmt.Fprintf(&b, "  %s -> %s\n", filepath.Base(l), target)
	}
	return b.String()
}
