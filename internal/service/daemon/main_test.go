package daemon

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/gorxe/gorxe/internal/service/proto"
	"github.com/gorxe/gorxe/internal/test/leak"
	"github.com/gorxe/gorxe/internal/test/must"
	"github.com/gorxe/gorxe/internal/trap"
	"github.com/gorxe/gorxe/internal/trap/filter"
	"golang.org/x/sys/unix"
)

// testTimeout only ends a test that would otherwise hang.
const testTimeout = must.Limit

// TestMain fails the run if a test leaves a goroutine or a descriptor behind.
func TestMain(m *testing.M) {
	if path := os.Getenv(envOther); path != "" {
		os.Exit(otherUser(path))
	}
	leak.Main(m, leak.Goroutines("gorxe/gorxe/"), leak.Files())
}

// lastAddr makes every test's device its own, in 127.80.0.0/16.
var lastAddr atomic.Uint32

func testSpec(name string) proto.Spec {
	n := lastAddr.Add(1)
	return proto.Spec{Name: name, Address: netip.AddrFrom4([4]byte{127, 80, byte(os.Getpid()), byte(n)})}
}

// serveFunc is an answerer that a test writes.
type serveFunc func(context.Context) error

func (f serveFunc) Serve(ctx context.Context) error { return f(ctx) }

// running is a daemon under test.
type running struct {
	*Server
	stop func() error // and wait
}

// startTest starts a daemon on a socket of its own. What serves a listener is
// serve, if that is not nil.
func startTest(t *testing.T, cfg Config, serve func(context.Context, *os.File, trap.ServeConfig) error) *running {
	t.Helper()
	if cfg.Socket == "" {
		cfg.Socket = filepath.Join(t.TempDir(), "s")
	}
	if cfg.SocketMode == 0 {
		cfg.SocketMode = 0o600
	}
	if cfg.Devices == nil {
		cfg.Devices = []proto.Spec{testSpec("rxe0")}
	}
	s, err := Start(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if serve != nil {
		s.answer = func(l *os.File, cfg trap.ServeConfig) (answerer, error) {
			return serveFunc(func(ctx context.Context) error { return serve(ctx, l, cfg) }), nil
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	stopped := false
	r := &running{s, func() error {
		if stopped {
			return nil
		}
		stopped = true
		cancel()
		return <-ended
	}}
	t.Cleanup(func() {
		if err := r.stop(); err != nil {
			t.Error(err)
		}
	})
	return r
}

func (r *running) dial(t *testing.T) *proto.Client {
	t.Helper()
	c, err := proto.Dial([]string{r.cfg.Socket})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// attached is a client whose session serve has.
func (r *running) attached(t *testing.T) *proto.Client {
	t.Helper()
	c := r.dial(t)
	if _, err := c.Hello([]string{"program", "argument"}, proto.Wanted{}); err != nil {
		t.Fatal(err)
	}
	if err := attach(c, proto.Attachment{Listener: os.Stdin, FDs: filter.Range{Base: 900, Count: 100}}); err != nil {
		t.Fatal(err)
	}
	return c
}

// attach attaches, and needs no file of the calls in hand.
func attach(c *proto.Client, a proto.Attachment) error {
	calls, err := c.Attach(a)
	if err == nil {
		calls.Close()
	}
	return err
}

// envOther makes the test binary a client of the daemon at that path.
const envOther = "GORXE_TEST_OTHER_USER"

// otherUser says on standard output what another user can do.
func otherUser(path string) int {
	if _, err := proto.Dial([]string{path}); err != nil {
		// A daemon that is not this user's keeps nobody from having one.
		_, second := proto.Dial([]string{path + ".none", path})
		fmt.Println(err, errors.Is(err, proto.ErrNoDaemon), errors.Is(second, proto.ErrNoDaemon))
		return 0
	}
	c, err := proto.Dial([]string{path})
	if err != nil {
		fmt.Println(err)
		return 1
	}
	defer c.Close()
	st, err := c.Status()
	if err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Printf("%d sessions, %d hidden\n", len(st.Sessions), st.Hidden)
	return 0
}

// nobody is a user who is not the one that runs the tests.
const nobody = 65534

var errServe = errors.New("serve failed")

func newPidfd(t *testing.T) int {
	t.Helper()
	fd, err := unix.PidfdOpen(os.Getpid(), 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	return fd
}
