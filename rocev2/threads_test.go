package rocev2

import (
	"fmt"
	"net/netip"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/sys/mmsg"
	"github.com/gorxe/gorxe/internal/test/leak"
	"github.com/gorxe/gorxe/internal/test/must"
	"github.com/gorxe/gorxe/wire"
)

// batchesForThread are enough for a thread, if they come soon after each other (sched.Arrivals).
const batchesForThread = 32

// threadsOf returns threads that do not give up waiting.
func threadsOf(most int) *Threads {
	th := NewThreads(most, nil)
	th.idle.Store(int64(time.Hour))
	return th
}

// soonIdle is a time after which threads give up waiting.
const soonIdle = 10 * time.Millisecond

// giveUpSoon makes threads give up waiting soon. It sends a packet, because the threads learn it
// with the next one.
func giveUpSoon(t *testing.T, th *Threads, tr *trap, tx *Port, route *wire.Route) {
	t.Helper()
	th.idle.Store(int64(soonIdle))
	tr.send(t, tx, route, 64)
}

// openPair opens a port that receives with threads, and one that sends to it.
func openPair(t *testing.T, from, to string, th *Threads) (tr *trap, rx, tx *Port, route *wire.Route) {
	t.Helper()
	src, dst := netip.MustParseAddr(from), netip.MustParseAddr(to)
	tr = newTrap(t)
	rx = open(t, Config{Address: dst, Receiver: tr.receive, Threads: th})
	tx = open(t, Config{Address: src, Receiver: discard})
	return tr, rx, tx, &wire.Route{Src: src, Dst: dst}
}

// waitsInThread reports whether calls of the port's only socket wait.
func (p *Port) waitsInThread() bool {
	p.mu.RLock()
	defer p.mu.RUnlock()
	for _, e := range p.endpoints {
		e.rx.mu.Lock()
		defer e.rx.mu.Unlock()
		return e.rx.waits
	}
	return false
}

// makeBusy sends packets one by one until the port waits for them in a thread.
func makeBusy(t *testing.T, tr *trap, rx, tx *Port, route *wire.Route) {
	t.Helper()
	for range 100 * batchesForThread {
		tr.send(t, tx, route, 64)
		if rx.waitsInThread() {
			return
		}
	}
	t.Fatal("the socket has no thread")
}

// TestThreadWhileBusy: a socket has a thread while many packets come. It loses none when it takes
// the thread or gives it back, and Close wakes the thread.
func TestThreadWhileBusy(t *testing.T) {
	th := threadsOf(2)
	tr, rx, tx, route := openPair(t, "127.0.24.1", "127.0.24.2", th)
	tr.send(t, tx, route, 64)
	files := leak.OpenFiles()
	for range 3 {
		makeBusy(t, tr, rx, tx, route)
		if n := th.used.Load(); n != 1 {
			t.Errorf("%d threads, want 1", n)
		}
		for size := range 200 {
			tr.send(t, tx, route, 64+size)
		}
		giveUpSoon(t, th, tr, tx, route)
		must.Eventually(t, "an idle socket gives its thread back", func() bool { return th.used.Load() == 0 })
		if rx.waitsInThread() {
			t.Error("calls of an idle socket wait")
		}
		tr.send(t, tx, route, 65)
		th.idle.Store(int64(time.Hour))
	}
	if now := leak.OpenFiles(); len(now) != len(files) {
		t.Errorf("open are %v, before %v", now, files)
	}
	must.OK(t, rx.Close())
	again := open(t, Config{Address: route.Dst, Receiver: tr.receive, Threads: th})
	makeBusy(t, tr, again, tx, route)
	again.closeTimeout = time.Hour // nothing but the thread's end lets Close return
	closed := make(chan error, 1)
	go func() { closed <- again.Close() }()
	must.Eventually(t, "Close wakes the thread", func() bool { return len(closed) > 0 })
	must.OK(t, <-closed)
	if n := th.used.Load(); n != 0 {
		t.Errorf("%d threads after Close", n)
	}
	if n := again.Counters().Malformed.Load(); n != 0 {
		t.Errorf("Close counted %d malformed packets", n)
	}
	must.OK(t, tx.Close())
	noReaders(t)
}

// TestThreadsAreBounded: a busy socket for which there is no thread receives without one.
func TestThreadsAreBounded(t *testing.T) {
	th := threadsOf(1)
	tr, rx, tx, route := openPair(t, "127.0.25.1", "127.0.25.2", th)
	two, tr2 := netip.MustParseAddr("127.0.25.3"), newTrap(t)
	rx2 := open(t, Config{Address: two, Receiver: tr2.receive, Threads: th})
	makeBusy(t, tr, rx, tx, route)
	for range 4 * batchesForThread {
		tr2.send(t, tx, &wire.Route{Src: route.Src, Dst: two}, 64)
	}
	if rx2.waitsInThread() || th.used.Load() != 1 {
		t.Errorf("%d threads, want 1", th.used.Load())
	}
}

// TestTakeoverInThread: another reader replaces one that is blocked in its thread.
func TestTakeoverInThread(t *testing.T) {
	th := threadsOf(4)
	tr, rx, tx, route := openPair(t, "127.0.26.1", "127.0.26.2", th)
	makeBusy(t, tr, rx, tx, route)
	free := tr.block(t, tx, route)
	tr.send(t, tx, route, 64)
	makeBusy(t, tr, rx, tx, route)
	if n := th.used.Load(); n != 2 {
		t.Errorf("%d threads, want those of both readers", n)
	}
	close(free)
	giveUpSoon(t, th, tr, tx, route)
	must.Eventually(t, "a thread is given back", func() bool { return th.used.Load() == 0 })
	must.OK(t, rx.Close())
	must.OK(t, tx.Close())
	noReaders(t)
}

// TestTakeoverWithoutDescriptor: if there is no descriptor for the poller, the reader that replaces
// another one has a thread like that one, and gives it back when there is one.
func TestTakeoverWithoutDescriptor(t *testing.T) {
	th := threadsOf(1)
	tr, rx, tx, route := openPair(t, "127.0.27.1", "127.0.27.2", th)
	makeBusy(t, tr, rx, tx, route)
	free := tr.block(t, tx, route)
	var files unix.Rlimit
	must.OK(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &files))
	must.OK(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Max: files.Max}))
	defer unix.Setrlimit(unix.RLIMIT_NOFILE, &files) //nolint:errcheck // it is done below
	tr.send(t, tx, route, 64)
	if !rx.waitsInThread() || th.used.Load() != 2 {
		t.Errorf("%d threads, want 2", th.used.Load())
	}
	giveUpSoon(t, th, tr, tx, route)
	time.Sleep(3 * soonIdle)
	tr.send(t, tx, route, 64)
	must.OK(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &files))
	close(free)
	must.Eventually(t, "a thread is given back", func() bool { return th.used.Load() == 0 })
	tr.send(t, tx, route, 64)
}

// TestAvoid: a thread keeps off the processors to avoid, as far as there are others, and is given
// back as it was.
func TestAvoid(t *testing.T) {
	runtime.LockOSThread() // and not unlocked: the thread ends with this goroutine
	allowed := func() (set unix.CPUSet) {
		t.Helper()
		must.OK(t, unix.SchedGetaffinity(0, &set))
		return set
	}
	all := allowed()
	if all.Count() < 2 {
		t.Skip("it needs two processors")
	}
	first := 0
	for !all.IsSet(first) {
		first++
	}
	th := NewThreads(1, nil)
	var a affinity
	a.follow(th.avoid.Load())
	if allowed() != all {
		t.Error("the thread is bound, but there is nothing to avoid")
	}
	var some unix.CPUSet
	some.Set(first)
	th.Avoid(some)
	a.follow(th.avoid.Load())
	if got := allowed(); got.IsSet(first) || got.Count() != all.Count()-1 {
		t.Errorf("the thread may use %v, and should avoid processor %d", got, first)
	}
	th.Avoid(all)
	a.follow(th.avoid.Load())
	if allowed() != all {
		t.Error("a thread that should avoid all processors does not use all")
	}
	th.Avoid(some)
	a.follow(th.avoid.Load())
	a.End()
	if allowed() != all {
		t.Error("the thread was not given back as it was")
	}
}

// TestUnseenWaitStops: the runtime can stop a goroutine that waits for a message without its
// knowledge.
func TestUnseenWaitStops(t *testing.T) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	must.OK(t, err)
	defer unix.Close(fd)
	// If the runtime cannot stop the goroutine, nothing but this limit ends the call.
	wait := unix.NsecToTimeval(time.Minute.Nanoseconds())
	must.OK(t, unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &wait))
	msgs := make([]mmsg.Header, 1)
	waiting, done := make(chan int), make(chan unix.Errno)
	go func() {
		runtime.LockOSThread()
		waiting <- unix.Gettid()
		_, errno := mmsg.Await(fd, msgs, true)
		done <- errno
	}()
	file := fmt.Sprintf("/proc/self/task/%d/syscall", <-waiting)
	must.Eventually(t, "the thread waits", func() bool {
		call, err := os.ReadFile(file)
		must.OK(t, err)
		return strings.HasPrefix(string(call), fmt.Sprint(unix.SYS_RECVMMSG, " "))
	})
	runtime.GC()
	_ = unix.Shutdown(fd, unix.SHUT_RD) // it says that the socket is not connected
	if <-done == unix.EAGAIN {
		t.Error("garbage collection waited until the call had reached its limit")
	}
}
