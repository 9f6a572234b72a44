package pod

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/gorxe/gorxe/internal/service/proto"
	"github.com/gorxe/gorxe/internal/test/must"
	"golang.org/x/sys/unix"
)

// Containers of a network namespace have one daemon, whatever the order of their starts and deaths.
// It ends with the last one, and the next container has another. +a starts container a, and -a
// kills it.
func TestOrders(t *testing.T) {
	for _, order := range []string{
		"+a -a", "+a +b -a -b", "+a +b -b -a", "+a +b +c -a -c -b", "+a +b -a +c -b -c", "+a -a +b +c -c -b", "+a +b -b +b -a -b",
	} {
		t.Run(order, func(t *testing.T) {
			t.Parallel()
			h, daemon, ended := newHouse(t), 0, 0
			for _, step := range strings.Fields(order) {
				name := step[1:]
				if step[0] == '-' {
					h.end(name)
					if len(h.live) == 0 {
						h.empty()
						daemon, ended = 0, daemon
					}
				} else if pid := h.start(name); daemon == 0 {
					daemon = pid
				}
				for name := range h.live {
					if pid := h.ask(name).PID; pid != daemon || pid == ended || pid == os.Getpid() {
						t.Errorf("after %s, %s has daemon %d, want %d", step, name, pid, daemon)
					}
				}
			}
		})
	}
}

// Containers that start at once have one daemon.
func TestAtOnce(t *testing.T) {
	h := newHouse(t)
	var running sync.WaitGroup
	for i := range 8 {
		c := h.create(fmt.Sprint(i))
		running.Go(func() {
			if err := c.Join(h.dir, "/proc/self/exe"); err != nil {
				t.Error(err)
			}
		})
	}
	running.Wait()
	first := h.ask("0").PID
	for name := range h.live {
		if pid := h.ask(name).PID; pid != first {
			t.Errorf("daemon %d beside %d", pid, first)
		}
	}
}

// A daemon that was killed leaves files. The next container has a daemon all the same, and nothing
// stays.
func TestKilledDaemon(t *testing.T) {
	h := newHouse(t)
	first := h.start("a")
	must.OK(t, syscall.Kill(first, syscall.SIGKILL))
	must.Eventually(t, "the daemon is gone", func() bool {
		_, err := h.hello("a")
		return err != nil
	})
	if second := h.start("b"); second == first {
		t.Errorf("the daemon is still %d", second)
	}
	h.end("a")
	h.ask("b")
}

// Starts, and kills of containers and daemons, at random: nothing stays.
func TestRandom(t *testing.T) {
	h := newHouse(t)
	seed := uint64(os.Getpid())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // a test repeats with its seed
	for range 40 {
		name := fmt.Sprint(r.IntN(5))
		switch {
		case h.live[name] == nil:
			h.start(name)
		case r.IntN(8) == 0:
			if hello, err := h.hello(name); err == nil {
				must.OK(t, syscall.Kill(hello.PID, syscall.SIGKILL))
			}
		default:
			h.end(name)
		}
	}
	for name := range h.live {
		h.end(name)
	}
	h.start("last") // its daemon removes what killed ones have left
	h.end("last")
	h.empty()
}

// The first container whose program runs chooses the devices. They start with that program: a
// device that cannot start is its error, and another try may succeed.
func TestDevices(t *testing.T) {
	h := newHouse(t)
	file := filepath.Join(t.TempDir(), "address")
	must.OK(t, h.create("a", "file="+file).Join(h.dir, "/proc/self/exe"))
	must.OK(t, h.create("b").Join(h.dir, "/proc/self/exe"))
	for range 2 {
		if _, err := h.hello("a"); err == nil || !strings.Contains(err.Error(), "the file is missing") {
			t.Fatal(err)
		}
	}
	must.OK(t, os.WriteFile(file, nil, 0o600))
	for _, name := range []string{"a", "b"} {
		if hello := h.ask(name); len(hello.Devices) != 1 || hello.Devices[0].Name != "file="+file {
			t.Errorf("%s has %v", name, hello.Devices)
		}
	}
}

// A container's file system does not lead the socket elsewhere.
func TestDirectory(t *testing.T) {
	outside := must.Get[string](t)(os.MkdirTemp("/dev/shm", "gorxe-pod-"))
	t.Cleanup(func() { must.OK(t, os.RemoveAll(outside)) })
	must.OK(t, os.Mkdir(filepath.Join(outside, "run"), 0o755))
	h := newHouse(t)
	for name, prepare := range map[string]func(c *container) error{
		"a link to the host": func(c *container) error { return os.Symlink(outside+"/run", filepath.Join(c.Root, "run")) },
		"links upward":       func(c *container) error { return os.Symlink("../../.."+outside+"/run", filepath.Join(c.Root, "run")) },
		"no directory":       func(*container) error { return nil },
		"a file":             func(c *container) error { return os.WriteFile(filepath.Join(c.Root, "run"), nil, 0o600) },
		"another file system": func(c *container) error {
			c.Root, c.Directory = "/", "/proc"
			return nil
		},
	} {
		c := h.create(name)
		must.OK(t, os.Remove(filepath.Join(c.Root, "run")))
		must.OK(t, prepare(c))
		if err := c.Join(h.dir, "/proc/self/exe"); err == nil {
			t.Errorf("%s: there is a daemon", name)
		}
		if list := must.Get[[]os.DirEntry](t)(os.ReadDir(filepath.Join(outside, "run"))); len(list) > 0 {
			t.Fatalf("%s: %v is outside", name, list)
		}
		h.end(name)
	}
	h.empty()
}

// A daemon takes a container with its two descriptors, and refuses everything else.
func TestQuestions(t *testing.T) {
	h := newHouse(t)
	h.start("a")
	path := must.Get[[]string](t)(filepath.Glob(filepath.Join(h.dir, sockets)))[0]
	null := must.Get[*os.File](t)(os.Open(os.DevNull))
	defer null.Close()
	for name, c := range map[string]struct {
		msg  any
		fds  []int
		want string
	}{
		"another version": {question{Version: -1}, nil, "different versions"},
		"no descriptors":  {question{Version: proto.ProtocolVersion}, nil, "needs a socket and a process"},
		"no process":      {question{Version: proto.ProtocolVersion}, []int{int(null.Fd()), int(null.Fd())}, "is no process"},
		"no socket":       {question{Version: proto.ProtocolVersion}, []int{int(null.Fd()), h.pidfd("a")}, "/dev/null"},
		"a program":       {proto.Request{Version: proto.ProtocolVersion, Op: proto.OpHello}, nil, "needs a socket and a process"},
	} {
		conn := must.Get[*proto.Conn](t)(proto.Connect(path))
		must.OK(t, conn.Send(c.msg, c.fds...))
		var a answer
		must.OK(t, conn.RecvOnly(&a))
		conn.Close()
		if name != "no socket" && !strings.Contains(a.Error, c.want) || a.Error == "" {
			t.Errorf("%s: %q, want %q", name, a.Error, c.want)
		}
	}
	if info := must.Get[os.FileInfo](t)(os.Stat(path)); info.Mode().Perm() != 0o600 {
		t.Errorf("other users may add containers: mode %v", info.Mode())
	}
	h.ask("a")
}

// pidfd is one of a container's first process.
func (h *house) pidfd(name string) int {
	fd := must.Get[int](h.t)(unix.PidfdOpen(h.live[name].PID, 0))
	h.t.Cleanup(func() { unix.Close(fd) })
	return fd
}

// Serve is no command.
func TestByHand(t *testing.T) {
	if err := Serve(t.Context(), nil, func([]string, <-chan proto.Arrival) (Server, error) { return nil, nil }); err == nil {
		t.Error("it served")
	}
}

// TestSocketMode: every user of a container may connect, whatever the umask of the engine is.
func TestSocketMode(t *testing.T) {
	h := newHouse(t)
	before := unix.Umask(0o077)
	pid := h.start("a")
	unix.Umask(before)
	c := h.live["a"]
	info := must.Get[os.FileInfo](t)(os.Lstat(filepath.Join(c.Root, c.Directory, SocketName)))
	if mode := info.Mode(); mode != os.ModeSocket|0o666 {
		t.Errorf("the socket of daemon %d has mode %v", pid, mode)
	}
	control := must.Get[[]string](t)(filepath.Glob(filepath.Join(h.dir, sockets)))
	if len(control) != 1 {
		t.Fatalf("control sockets: %v", control)
	}
	if info := must.Get[os.FileInfo](t)(os.Lstat(control[0])); info.Mode() != os.ModeSocket|0o600 {
		t.Errorf("the control socket has mode %v", info.Mode())
	}
}

// TestKillable: an engine that the kernel shall not kill starts a daemon that it may.
func TestKillable(t *testing.T) {
	const own = "/proc/self/oom_score_adj"
	before := must.Get[[]byte](t)(os.ReadFile(own))
	if err := os.WriteFile(own, []byte("-100"), 0); err != nil {
		if os.Geteuid() == 0 {
			t.Log(err) // root without CAP_SYS_RESOURCE
		}
		return
	}
	h := newHouse(t)
	pid := h.start("a")
	must.OK(t, os.WriteFile(own, before, 0))
	got := must.Get[[]byte](t)(os.ReadFile(fmt.Sprintf("/proc/%d/oom_score_adj", pid)))
	if string(got) != "0\n" {
		t.Errorf("the daemon has oom_score_adj %s", got)
	}
}

// TestNoDaemonNoSocket: a container whose Join fails has no socket that looks like one of a daemon.
func TestNoDaemonNoSocket(t *testing.T) {
	h := newHouse(t)
	c := h.create("a")
	if err := c.Join(h.dir, "/nowhere"); err == nil {
		t.Fatal("a daemon runs that does not exist")
	}
	if _, err := os.Lstat(filepath.Join(c.Root, c.Directory, SocketName)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the socket: %v", err)
	}
}

// TestRefusals: while there are no devices, so many connections wait for the reason, and others are
// closed at once.
func TestRefusals(t *testing.T) {
	h := newHouse(t)
	file := filepath.Join(t.TempDir(), "missing")
	must.OK(t, h.create("a", "file="+file).Join(h.dir, "/proc/self/exe"))
	path := filepath.Join(h.live["a"].Root, "run", SocketName)
	for range maxRefusing {
		defer must.Get[net.Conn](t)(net.Dial("unixpacket", path)).Close() //nolint:errcheck // of no use any more
	}
	// One of them may not be refused yet. So the next ones are closed in the end.
	must.Eventually(t, "a connection is closed", func() bool {
		conn := must.Get[net.Conn](t)(net.Dial("unixpacket", path))
		defer conn.Close() //nolint:errcheck // as above
		_, err := conn.Read(make([]byte, 1))
		return errors.Is(err, io.EOF)
	})
	must.OK(t, os.WriteFile(file, nil, 0o600))
	h.ask("a") // the house waits for daemons that it knows
}
