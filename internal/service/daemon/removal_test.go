package daemon

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/cm/rdmacm"
	"github.com/gorxe/gorxe/internal/kernel"
	"github.com/gorxe/gorxe/internal/kernel/tree"
	"github.com/gorxe/gorxe/internal/kernel/uapi"
	"github.com/gorxe/gorxe/internal/test/must"
	"github.com/gorxe/gorxe/internal/trap"
	"github.com/gorxe/gorxe/rxe"
	"github.com/gorxe/gorxe/wire"
)

// rxe0 is the file that programs open.
var rxe0 = &tree.Node{DeviceName: "rxe0"}

// impatient is a log that gives other goroutines time.
type impatient struct{ slog.Handler }

func (impatient) Enabled(context.Context, slog.Level) bool { return true }

func (impatient) Handle(context.Context, slog.Record) error {
	for range 1000 {
		runtime.Gosched()
	}
	return nil
}

// TestRemovedBriefly: ids of RDMA CM lose a device that comes back at once, and so do the files
// that are open.
func TestRemovedBriefly(t *testing.T) {
	s := startTest(t, Config{}, nil)
	_, n, _ := s.ruled(t)
	n.log = slog.New(impatient{})
	d := s.devices[0]
	address := rdmacm.Addr{AddrPort: netip.AddrPortFrom(d.spec.Address, 0)}
	for range 20 {
		id, err := s.cm.NewID(&rdmacm.Owner{Lacks: n.removed.lacksCM}, wire.PortSpaceTCP, rxe.QPRC, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := id.Bind(address); err != nil {
			t.Fatal(err)
		}
		f, err := n.Open(rxe0, trap.Credentials{PID: os.Getpid()})
		if err != nil {
			t.Fatal(err)
		}
		n.remove(d, time.Nanosecond)
		if state := id.State(); state != rdmacm.StateDeviceRemoval {
			t.Errorf("the state of an id is %v", state)
		}
		must.Eventually(t, "the file has lost the device", f.(*file).Gone)
		must.Eventually(t, "the device is back", func() bool { return !n.removed.lacks(d) })
		id.Destroy()
		f.Close()
	}
}

// TestRemovedMAD: programs lose the device of management datagrams too, and may open it again when
// the device is back. The programs of another session keep it.
func TestRemovedMAD(t *testing.T) {
	s := startTest(t, Config{}, nil)
	_, n, _ := s.ruled(t)
	_, bystander, _ := s.ruled(t)
	node, err := s.tree.Lookup("/dev/infiniband/umad0", true)
	if err != nil {
		t.Fatal(err)
	}
	open := func(n *session) *madFile {
		t.Helper()
		f, err := n.Open(node, trap.Credentials{PID: os.Getpid()})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(f.Close)
		return f.(*madFile)
	}
	lost, kept := open(n), open(bystander)
	n.remove(s.devices[0], 0)
	const room = 1024
	must.Eventually(t, "reads of the removed device fail", func() bool {
		_, err := lost.Read(nil, 0, room)
		return err == unix.EIO
	})
	if _, err := kept.Read(nil, 0, room); err != kernel.ErrWait {
		t.Errorf("read in another session: %v", err)
	}
	if _, err := n.Open(node, trap.Credentials{PID: os.Getpid()}); err != unix.ENODEV {
		t.Errorf("open: %v", err)
	}
	n.restore(s.devices[0])
	again := open(n)
	if _, err := again.Read(nil, 0, room); err != kernel.ErrWait {
		t.Errorf("read after the device is back: %v", err)
	}
}

// blockedCaller is a program whose memory does not answer until hold is closed.
type blockedCaller struct {
	kernel.Caller
	reading, hold chan struct{}
}

func (c blockedCaller) Read(uint64, []byte) error {
	close(c.reading)
	<-c.hold
	return unix.EFAULT
}

// TestRemovedBusyMAD: a device is removed while a call on its management datagrams waits for the
// program's memory.
func TestRemovedBusyMAD(t *testing.T) {
	s := startTest(t, Config{}, nil)
	_, n, _ := s.ruled(t)
	node, err := s.tree.Lookup("/dev/infiniband/umad0", true)
	if err != nil {
		t.Fatal(err)
	}
	f, err := n.Open(node, trap.Credentials{PID: os.Getpid()})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	c := blockedCaller{reading: make(chan struct{}), hold: make(chan struct{})}
	var calls sync.WaitGroup
	calls.Go(func() {
		if _, err := f.(*madFile).Ioctl(c, uapi.MADRegisterAgent, 0); err != unix.EFAULT {
			t.Errorf("the call returns %v", err)
		}
	})
	<-c.reading
	var removed atomic.Bool
	calls.Go(func() {
		n.remove(s.devices[0], 0)
		removed.Store(true)
	})
	must.Eventually(t, "the device is removed", removed.Load)
	close(c.hold)
	calls.Wait()
}

// TestRemovals: programs open a device, and rules remove it from their session and from all, until
// the sessions end. One session that no rule is about keeps it.
func TestRemovals(t *testing.T) {
	s := startTest(t, Config{}, nil)
	one, n, _ := s.ruled(t)
	two, other, _ := s.ruled(t)
	_, bystander, _ := s.ruled(t)
	d := s.devices[0]
	kept, err := bystander.Open(rxe0, trap.Credentials{PID: os.Getpid()})
	if err != nil {
		t.Fatal(err)
	}
	defer kept.Close()
	var open, remove sync.WaitGroup
	for _, session := range []*session{n, other} {
		open.Go(func() {
			for range 200 {
				f, err := session.Open(rxe0, trap.Credentials{PID: os.Getpid()})
				switch {
				case errors.Is(err, unix.ENODEV):
				case err != nil:
					t.Error(err)
				default:
					f.Close()
				}
			}
		})
		for _, back := range []time.Duration{time.Nanosecond, time.Microsecond} {
			remove.Go(func() {
				for range 100 {
					session.remove(d, back)
				}
			})
		}
	}
	open.Wait()
	one.Close()
	two.Close()
	remove.Wait()
	s.without(t, n)
	s.without(t, other)
	if kept.(*file).Gone() || bystander.removed.lacks(d) || bystander.Tree() != s.tree {
		t.Error("a session that no rule is about has lost the device")
	}
	before := n.removed.shown.Load()
	n.remove(d, 0) // a work request may have been hit at the end
	n.restore(d)
	if n.removed.shown.Load() != before {
		t.Error("a session that has ended changes")
	}
	bystander.removeFor(d, 0, true)
	if !bystander.removed.lacks(d) {
		t.Error("a rule for all programs has not removed the device")
	}
	if _, err := bystander.Open(rxe0, trap.Credentials{PID: os.Getpid()}); !errors.Is(err, unix.ENODEV) {
		t.Errorf("the device is opened: %v", err)
	}
}
