package pod

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/gorxe/gorxe/internal/service/proto"
	"github.com/gorxe/gorxe/internal/test/leak"
	"github.com/gorxe/gorxe/internal/test/must"
)

// TestMain is also the daemon that Join starts.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == Stage {
		if err := Serve(context.Background(), os.Args[2:], startFake); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Setenv("GORACE", "atexit_sleep_ms=0") //nolint:errcheck // daemons end without it, too, a second later
	leak.Main(m, leak.Goroutines("gorxe/gorxe/"), leak.Files())
}

// fake answers hello with its process and its devices.
type fake struct {
	devices []string
	conns   <-chan proto.Arrival

	mu       sync.Mutex // below
	sessions []proto.SessionStatus
}

// startFake fails as long as a file is missing that a device names.
func startFake(devices []string, conns <-chan proto.Arrival) (Server, error) {
	for _, d := range devices {
		if file, ok := strings.CutPrefix(d, "file="); ok {
			if _, err := os.Stat(file); err != nil {
				return nil, errors.New("the file is missing")
			}
		}
	}
	return &fake{devices: devices, conns: conns}, nil
}

func (f *fake) Status() *proto.Status {
	f.mu.Lock()
	defer f.mu.Unlock()
	return &proto.Status{PID: os.Getpid(), Sessions: slices.Clone(f.sessions)}
}

func (f *fake) Run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case c := <-f.conns:
			conn := &proto.Conn{Sock: c.Sock}
			f.mu.Lock()
			f.sessions = append(f.sessions, proto.SessionStatus{Place: c.Place})
			f.mu.Unlock()
			h := &proto.Hello{PID: os.Getpid()}
			for _, d := range f.devices {
				h.Devices = append(h.Devices, proto.Spec{Name: d})
			}
			if conn.RecvOnly(new(proto.Request)) == nil {
				conn.Send(proto.Reply{Version: proto.ProtocolVersion, Hello: h}) //nolint:errcheck // Hello fails
			}
			conn.Close()
		}
	}
}

// house has the containers of a test. They are processes, in the network namespace of the test.
type house struct {
	t    *testing.T
	dir  string // of daemons' sockets
	live map[string]*container
	// daemons are those that containers had.
	daemons map[int]bool
}

type container struct {
	Container
	process *exec.Cmd
}

func newHouse(t *testing.T) *house {
	h := &house{t: t, dir: t.TempDir(), live: make(map[string]*container), daemons: make(map[int]bool)}
	t.Cleanup(func() {
		for name := range h.live {
			h.end(name)
		}
		h.empty()
	})
	return h
}

// create makes a container whose program waits.
func (h *house) create(name string, devices ...string) *container {
	h.t.Helper()
	root := must.Get[string](h.t)(os.MkdirTemp("/dev/shm", "gorxe-pod-")) // a tmpfs
	h.t.Cleanup(func() { must.OK(h.t, os.RemoveAll(root)) })
	must.OK(h.t, os.Mkdir(filepath.Join(root, "run"), 0o755))
	c := &container{process: exec.Command("sleep", "1000")}
	must.OK(h.t, c.process.Start())
	c.Container = Container{PID: c.process.Process.Pid, Root: root, Directory: "/run", Devices: devices, Place: proto.Place{Namespace: "default", Pod: h.t.Name(), Container: name}}
	h.live[name] = c
	return c
}

// start makes a container that has a daemon, and returns the daemon's process.
func (h *house) start(name string, devices ...string) int {
	h.t.Helper()
	must.OK(h.t, h.create(name, devices...).Join(h.dir, "/proc/self/exe"))
	return h.ask(name).PID
}

// hello is what a program in the container learns of its daemon.
func (h *house) hello(name string) (proto.Hello, error) {
	c := h.live[name]
	client, err := proto.Dial([]string{filepath.Join(c.Root, c.Directory, SocketName)})
	if err != nil {
		return proto.Hello{}, err
	}
	defer client.Close()
	hello, err := client.Hello([]string{"program"}, proto.Wanted{})
	if err == nil {
		h.daemons[hello.PID] = true
	}
	return hello, err
}

func (h *house) ask(name string) proto.Hello {
	h.t.Helper()
	return must.Get[proto.Hello](h.t)(h.hello(name))
}

// end kills a container.
func (h *house) end(name string) {
	h.t.Helper()
	c := h.live[name]
	must.OK(h.t, c.process.Process.Kill())
	c.process.Wait() //nolint:errcheck // it was killed
	delete(h.live, name)
}

// empty waits until all daemons have ended and have left nothing.
func (h *house) empty() {
	h.t.Helper()
	must.Eventually(h.t, "no daemon is left", func() bool {
		list, err := os.ReadDir(h.dir)
		return err == nil && len(list) == 0
	})
	for pid := range h.daemons {
		must.Eventually(h.t, fmt.Sprintf("daemon %d has ended", pid), func() bool {
			_, err := os.Stat(fmt.Sprint("/proc/", pid))
			return err != nil
		})
	}
}
