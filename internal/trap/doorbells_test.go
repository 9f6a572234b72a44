package trap

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/kernel"
	"github.com/gorxe/gorxe/internal/test/must"
	"github.com/gorxe/gorxe/internal/trap/doorbell"
	"github.com/gorxe/gorxe/internal/trap/inflight"
)

// doorbellFakes are fakes that count the calls and the doorbells that reach them.
type doorbellFakes struct {
	*fakes
	rung, called atomic.Int32
	late         atomic.Int32 // calls that came before the doorbell rung ahead of them
	entered      atomic.Int32 // calls of TakeDoorbells
	holds        int32        // of the first of these, that many wait for hold
	hold         chan struct{}

	pipes bool          // devices have queues, so that a pipe may replace their file
	made  atomic.Uint64 // queues, by calls of makeQueue bytes
}

// How long a write is that makes a queue, and one that asks for the number of the device.
const (
	makeQueue = 8
	askDevice = 4
)

func newDoorbellFakes(t testing.TB) *doorbellFakes {
	h := &doorbellFakes{fakes: newFakes(t)}
	open := h.open
	last := int32(0)
	h.write = func(_ kernel.Caller, _, n uint64) (int64, error) {
		h.called.Add(1)
		if n == makeQueue {
			h.made.Add(1)
			return int64(n), nil
		}
		if now := h.rung.Load(); n < doorbellSize {
			if now == last {
				h.late.Add(1)
			}
			last = now
		}
		return int64(n), nil
	}
	h.open = func(name string, who Credentials) (File, error) {
		f, err := open(name, who)
		if err != nil {
			return nil, err
		}
		file := &doorbellFile{fakeFile: f.(*fakeFile), host: h}
		number, write := h.opens.Load(), h.write
		file.write = func(c kernel.Caller, addr, n uint64) (int64, error) {
			if n == askDevice {
				return int64(number), nil
			}
			return write(c, addr, n)
		}
		return file, nil
	}
	return h
}

// doorbellFile is a fakeFile that reports doorbells to its host.
type doorbellFile struct {
	*fakeFile
	host    *doorbellFakes
	working atomic.Bool // a thread has a doorbell in hand
}

func (f *doorbellFile) TakeDoorbells(bool) kernel.Doorbells { return kernel.Doorbells{More: f.take()} }

func (f *doorbellFile) Mappings() (told uint64, pipe bool) { return f.host.made.Load(), f.host.pipes }

func (f *doorbellFile) take() (more bool) {
	if f.host.entered.Add(1) <= f.host.holds {
		<-f.host.hold
	}
	if !f.working.CompareAndSwap(false, true) {
		return false // as librxe's queues: the thread at work takes all
	}
	for range 4 {
		runtime.Gosched() // the next call may come meanwhile
	}
	n := f.host.rung.Add(1)
	f.working.Store(false)
	return n%3 == 1 // now and then it wants to be called again
}

// TestDirectDoorbells: doorbells are not trapped, everything else is, and a doorbell
// is heard before the call that the program makes after it.
func TestDirectDoorbells(t *testing.T) {
	const rounds = 500
	for _, pipes := range []bool{false, true} {
		h := newDoorbellFakes(t)
		h.pipes = pipes
		out := run(t, options{program: "doorbells", host: h, doorbells: doorbell.Direct, patient: true}, fmt.Sprint(rounds))
		h.allClosed(t)
		if out != "<nil>\n" {
			t.Errorf("%q", out)
		}
		if n := h.called.Load(); n != rounds {
			t.Errorf("%d calls were trapped, want %d", n, rounds)
		}
		if n := h.late.Load(); n != 0 {
			t.Errorf("%d calls came before the doorbell that the program had rung", n)
		}
		if h.rung.Load() == 0 {
			t.Error("nothing was heard of a doorbell")
		}
	}
}

// TestPipeAndMappings: a program can always map a queue that it has just made, also while other
// threads make calls on the device. In between, a pipe replaces the device's file, and the
// program's last close ends the device.
func TestPipeAndMappings(t *testing.T) {
	const threads, rounds = 4, 200
	h := newDoorbellFakes(t)
	h.pipes = true
	out := run(t, options{program: "mapper", host: h, doorbells: doorbell.Direct, patient: true}, fmt.Sprint(threads), fmt.Sprint(rounds))
	h.allClosed(t)
	if out != "a pipe, then a file, then a pipe\n" {
		t.Errorf("%q", out)
	}
	if n := h.made.Load(); n != threads*rounds+1 {
		t.Errorf("%d queues", n)
	}
	if h.rung.Load() == 0 {
		t.Error("nothing was heard of a doorbell")
	}
}

// TestNoPipeKeptByExec: no pipe replaces the file of a device that exec shall not close, and the
// daemon keeps no descriptor of it.
func TestNoPipeKeptByExec(t *testing.T) {
	h := newDoorbellFakes(t)
	h.pipes = true
	before := ownMemfds(t)
	run(t, options{program: "kept-by-exec", host: h, doorbells: doorbell.Direct, patient: true})
	h.allClosed(t)
	if n := ownMemfds(t); n != before {
		t.Errorf("%d descriptors of memfds are left", n-before)
	}
}

// ownMemfds returns how many descriptors of memfds this process has.
func ownMemfds(t *testing.T) (n int) {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if link, err := os.Readlink("/proc/self/fd/" + e.Name()); err == nil && strings.HasPrefix(link, inflight.MemfdPrefix) {
			n++
		}
	}
	return n
}

// TestTwoPipes: devices that share a thread for doorbells have a pipe in turn, and calls on a pipe
// are calls on its device.
func TestTwoPipes(t *testing.T) {
	h := newDoorbellFakes(t)
	h.pipes = true
	out := run(t, options{program: "two-pipes", host: h, doorbells: doorbell.Direct, patient: true, oneRinger: true})
	h.allClosed(t)
	if want := strings.Repeat("12", 20) + "\n"; out != want {
		t.Errorf("calls were answered by devices %q, want %q", out, want)
	}
}

// TestTrappedDoorbells: doorbells are trapped by default, and where direct ones are not
// possible.
func TestTrappedDoorbells(t *testing.T) {
	const rounds = 10
	for _, tt := range []struct {
		name      string
		doorbells doorbell.Mode
		limit     string
	}{
		{"wanted", doorbell.Trapped, "unlimited"},
		{"limited files", doorbell.Direct, "1000"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := newDoorbellFakes(t)
			p := start(t, options{program: "doorbells", host: h, doorbells: tt.doorbells, ulimit: "-f " + tt.limit}, fmt.Sprint(rounds))
			p.wait()
			if n := h.called.Load(); n != 2*rounds+1 || h.rung.Load() != 0 {
				t.Errorf("%d calls and %d doorbells, want %d and none", n, h.rung.Load(), 2*rounds+1)
			}
		})
	}
	t.Run("old library", func(t *testing.T) { // it does not ask for netlink
		h := newDoorbellFakes(t)
		run(t, options{program: "doorbell", host: h, doorbells: doorbell.Direct})
		if h.called.Load() != 1 || h.rung.Load() != 0 {
			t.Errorf("%d calls and %d doorbells", h.called.Load(), h.rung.Load())
		}
	})
}

// TestSeveralProcesses: all processes of one session that have a device open have the same
// doorbells. Auto means trapped ones with one processor.
func TestSeveralProcesses(t *testing.T) {
	const rounds = 20
	const direct, trapped = rounds, 2*rounds + 1 // calls of one program that are trapped
	for _, tt := range []struct {
		how       string
		doorbells doorbell.Mode
		cpus      int
		called    int32
	}{
		{"together", doorbell.Auto, 2, 2 * direct},
		{"in turn", doorbell.Auto, 2, 2 * direct},
		{"together", doorbell.Auto, 1, 1 + 2*trapped},
		{"together", doorbell.Trapped, 2, 1 + 2*trapped},
		{"together", doorbell.Direct, 1, 2 * direct},
	} {
		t.Run(fmt.Sprintf("%s, %v, %d CPUs", tt.how, tt.doorbells, tt.cpus), func(t *testing.T) {
			h := newDoorbellFakes(t)
			p := start(t, options{program: "several", host: h, doorbells: tt.doorbells, cpus: tt.cpus, patient: true},
				fmt.Sprint(rounds), tt.how)
			p.wait()
			if n := h.called.Load(); n != tt.called {
				t.Errorf("%d calls were trapped, want %d", n, tt.called)
			}
			if n := h.late.Load(); n != 0 && tt.called == 2*direct {
				t.Errorf("%d calls came before the doorbell that the program had rung", n)
			}
			h.allClosed(t)
		})
	}
}

// TestBlockedDoorbell: doorbells whose work waits for memory that does not answer block
// neither calls nor later doorbells. Two wait: one was taken when it was rung, and the
// other one before the call that the program made next.
func TestBlockedDoorbell(t *testing.T) {
	h := newDoorbellFakes(t)
	h.holds, h.hold = 2, make(chan struct{})
	p := start(t, options{program: "doorbells", host: h, doorbells: doorbell.Direct}, "50")
	if err := p.cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	if n := h.called.Load(); n != 50 {
		t.Errorf("%d calls, want 50", n)
	}
	close(h.hold)
	p.ended()
	h.allClosed(t)
}

// TestStopWithBlockedDoorbell: a call that waits for the work of a doorbell is answered,
// although the session stops meanwhile. The program goes on with the next session.
func TestStopWithBlockedDoorbell(t *testing.T) {
	h := newDoorbellFakes(t)
	h.holds, h.hold = 2, make(chan struct{})
	o := options{program: "doorbells", host: h, doorbells: doorbell.Direct}
	p := start(t, o, "50")
	must.Eventually(t, "both receivers have a doorbell in hand", func() bool { return h.entered.Load() >= h.holds })
	p.stop()
	if err := <-p.served; !errors.Is(err, context.Canceled) {
		t.Errorf("Serve: %v", err)
	}
	close(h.hold)
	p.serve(o)
	_ = p.cmd.Wait() // its device is gone, which it may see
	p.ended()
}

// TestMute: when the daemon is gone, direct doorbells fail too.
func TestMute(t *testing.T) {
	want := fmt.Sprintln(unix.EPERM, unix.ENODEV, unix.ENOENT, nil)
	if got := orphaned(t, "serve", options{program: "doorbell-until"}, doorbell.Direct); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestMutePipe: so do those that go to a pipe. The program waits for room in the pipe when the
// daemon is killed.
func TestMutePipe(t *testing.T) {
	want := fmt.Sprintln(unix.EAGAIN, unix.ENODEV, unix.ENOENT, nil)
	if got := orphaned(t, "serve-pipes", options{program: "pipe-until"}, doorbell.Direct); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// servePipes serves a host whose devices have pipes, and takes no doorbell.
func servePipes(args []string) error {
	h := newDoorbellFakes(&testing.B{})
	h.pipes, h.holds, h.hold = true, 1<<30, make(chan struct{})
	return serveHost(h, args)
}
