package threads

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/test/must"
)

// alive returns how many of the threads exist. Go never ends the process's first thread: a
// goroutine that ends there leaves it to wait for ever, so it does not count.
func alive(threads []int) (n int) {
	for _, tid := range threads {
		if _, err := os.Stat(fmt.Sprintf("/proc/self/task/%d", tid)); err == nil && tid != os.Getpid() {
			n++
		}
	}
	return n
}

func joined(t *testing.T) *Shared {
	t.Helper()
	s := new(Shared)
	if err := s.Join(); err != nil {
		t.Fatal(err)
	}
	return s
}

// The threads of a pool end when they have nothing to do, except a few. The test looks at each by
// its number: Go starts threads for itself, and how many depends on the machine.
func TestPool(t *testing.T) {
	const many = 200
	s := joined(t)
	p := &s.Pool
	for range 2 {
		release := make(chan struct{})
		var begun, done sync.WaitGroup
		begun.Add(many)
		done.Add(many)
		threads := make([]int, many)
		for i := range many {
			p.Go(func() {
				threads[i] = unix.Gettid()
				begun.Done()
				<-release
				done.Done()
			})
		}
		begun.Wait()
		slices.Sort(threads)
		if n := len(slices.Compact(threads)); p.Busy() != many || n != many {
			t.Errorf("%d calls are under way on %d threads; want %d", p.Busy(), n, many)
		}
		close(release)
		done.Wait()
		must.Eventually(t, "the threads have ended", func() bool { return p.Busy() == 0 && alive(threads) <= maxResting })
	}
	if n := len(p.resting); n == 0 || n > maxResting {
		t.Errorf("%d threads rest", n)
	}
	s.Leave()
	if n := len(p.resting); n != 0 {
		t.Errorf("%d threads rest when nobody is left", n)
	}
}

// A source rings once for each Arm, and again at once if something is there.
func TestPoller(t *testing.T) {
	s := joined(t)
	defer s.Leave()
	fd, err := unix.Eventfd(1, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	rings := make(chan uint32, 100)
	source, err := s.Poller.Add(fd, 0, func(events uint32) { rings <- events })
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Poller.Add(-1, 0, nil); err == nil {
		t.Error("no file can be watched")
	}
	for range 3 {
		source.Arm(unix.EPOLLIN)
		if e := <-rings; e != unix.EPOLLIN {
			t.Errorf("events %#x", e)
		}
	}
	source.Arm(0)
	source.Remove()
	source.Arm(unix.EPOLLIN)
	source.Remove()
	// The thread has seen all that is before this one's ring.
	last := make(chan uint32, 1)
	other, err := s.Poller.Add(fd, unix.EPOLLIN, func(events uint32) { last <- events })
	if err != nil {
		t.Fatal(err)
	}
	<-last
	other.Remove()
	if n := len(rings); n != 0 {
		t.Errorf("%d rings too many", n)
	}
}

// pairSource makes a source that waits for no event. Its file hangs up when peer is closed. The
// caller closes both.
func pairSource(t *testing.T, s *Shared) (source *Source, peer int, rings chan uint32) {
	t.Helper()
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	rings = make(chan uint32, 100)
	source, err = s.Poller.Add(pair[0], 0, func(events uint32) { rings <- events })
	if err != nil {
		t.Fatal(err)
	}
	return source, pair[1], rings
}

// A source that is suspended is not in the epoll set, so that no event of its file wakes the
// thread. Arm puts it back, and it rings for what came meanwhile.
func TestSuspend(t *testing.T) {
	s := joined(t)
	defer s.Leave()
	source, peer, rings := pairSource(t, s)
	defer unix.Close(source.fd)
	fd := source.fd
	watched := func() bool {
		t.Helper()
		info, err := os.ReadFile(fmt.Sprintf("/proc/self/fdinfo/%d", s.Poller.epoll))
		if err != nil {
			t.Fatal(err)
		}
		return regexp.MustCompile(fmt.Sprintf(`(?m)^tfd: +%d `, fd)).Match(info)
	}
	if !watched() {
		t.Fatal("fdinfo does not show the file")
	}
	for range 2 {
		source.Suspend()
		if watched() {
			t.Error("the poller waits for a suspended file")
		}
	}
	unix.Close(peer)
	source.Arm(unix.EPOLLIN)
	if e := <-rings; e&unix.EPOLLHUP == 0 {
		t.Errorf("events %#x", e)
	}
	source.Suspend()
	source.fd = -1 // which the kernel refuses, as it does one that is too many
	source.Arm(unix.EPOLLIN)
	if e := <-rings; e != 0 {
		t.Errorf("events %#x of a file that is refused", e)
	}
	source.fd = fd
	source.Remove()
	source.Remove()
	source.Arm(unix.EPOLLIN)
	if watched() {
		t.Error("the poller waits for a file that was removed")
	}
}

// A file that hangs up rings unasked.
func TestHangUp(t *testing.T) {
	s := joined(t)
	defer s.Leave()
	source, peer, rings := pairSource(t, s)
	defer unix.Close(source.fd)
	defer source.Remove()
	unix.Close(peer)
	if e := <-rings; e&unix.EPOLLHUP == 0 {
		t.Errorf("events %#x", e)
	}
}

// When the last user has left, nothing is left, and others may come.
func TestLeave(t *testing.T) {
	fds := func() int {
		list, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(list)
	}
	before := fds()
	var s Shared
	for range 3 {
		for range 2 {
			if err := s.Join(); err != nil {
				t.Fatal(err)
			}
		}
		s.Leave()
		done := make(chan struct{})
		s.Pool.Go(func() { close(done) })
		<-done
		s.Leave()
		must.Eventually(t, "the files are closed", func() bool { return fds() <= before })
		must.Eventually(t, "the thread has ended", func() bool { return s.Pool.Busy() == 0 && len(s.Pool.resting) == 0 })
	}
}
