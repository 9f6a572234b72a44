package eventfile

import (
	"strconv"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/quota"
	"github.com/gorxe/gorxe/internal/test/leak"
	"github.com/gorxe/gorxe/internal/test/must"
	"github.com/gorxe/gorxe/internal/test/quotatest"
	"github.com/gorxe/gorxe/internal/test/uffd"
)

// levelReader returns the program's end, and what poll says of it.
func levelReader(t testing.TB, l *Level) (fd int, readable func() bool) {
	t.Helper()
	fd = must.Get[int](t)(unix.Open("/proc/self/fd/"+strconv.Itoa(l.FD()), unix.O_RDONLY|unix.O_CLOEXEC, 0))
	l.HandedOver()
	return fd, func() bool {
		fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		n, err := unix.Poll(fds, 0)
		return n == 1 && err == nil
	}
}

func (l *Level) readerGone() bool {
	fds := []unix.PollFd{{Fd: int32(l.Poll())}}
	n, err := unix.Poll(fds, 0)
	return n == 1 && err == nil && fds[0].Revents&unix.POLLERR != 0
}

// TestLevel: the pipe is readable while there are records, however many, and however the
// threads that add and take them run into each other.
func TestLevel(t *testing.T) {
	budget := quota.New(quota.Cost{})
	l := must.Get[*Level](t)(NewLevel(budget, ReadOnly))
	fd, readable := levelReader(t, l)
	if readable() {
		t.Fatal("readable without a record")
	}
	l.Add(2 * maxLevel)
	l.Sync()
	for left := 2 * maxLevel; left > 0; left -= maxLevel / 2 {
		if !readable() {
			t.Fatalf("not readable with %d records", left)
		}
		l.Add(-maxLevel / 2)
		l.Sync()
	}
	if readable() {
		t.Fatal("readable when all are taken")
	}
	var threads sync.WaitGroup
	for _, n := range []int{1, 1, -1, -1} {
		threads.Go(func() {
			for range 2000 {
				l.Add(n)
				l.Sync()
			}
		})
	}
	threads.Wait()
	if l.Sync(); readable() {
		t.Error("readable although as many were taken as added")
	}
	l.Add(1)
	l.SyncAside()
	fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	if n, err := unix.Poll(fds, 20000); n != 1 || err != nil {
		t.Errorf("not readable: %v", err)
	}
	if l.readerGone() {
		t.Error("gone while the program has it")
	}
	if err := unix.Close(fd); err != nil {
		t.Fatal(err)
	}
	if !l.readerGone() {
		t.Error("not gone")
	}
	l.Add(1)
	l.Sync()
	l.Close()
	l.Close()
	l.Sync()
	quotatest.WantGiven(t, budget)
}

// TestLevelEdges: epoll with EPOLLET reports each record that is added, however many were taken
// before. The bytes of those stay in the pipe only while there are others.
func TestLevelEdges(t *testing.T) {
	l := must.Get[*Level](t)(NewLevel(quota.New(quota.Cost{}), ReadOnly))
	fd, readable := levelReader(t, l)
	ep := must.Get[int](t)(unix.EpollCreate1(unix.EPOLL_CLOEXEC))
	defer unix.Close(ep) //nolint:errcheck // nothing was written
	in := unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLET, Fd: int32(fd)}
	if err := unix.EpollCtl(ep, unix.EPOLL_CTL_ADD, fd, &in); err != nil {
		t.Fatal(err)
	}
	edge := func() bool {
		var got [1]unix.EpollEvent
		n, err := unix.EpollWait(ep, got[:], 0)
		return n == 1 && err == nil
	}
	change := func(n int) {
		l.Add(n)
		l.Sync()
	}
	for kept, rounds := range map[int]int{1: maxLevel + 10, maxLevel - 1: 10} {
		change(kept)
		edge()
		for i := range rounds {
			if change(1); !edge() {
				t.Fatalf("record %d beside %d others is not reported", i, kept)
			}
			if change(-1); !readable() {
				t.Fatalf("not readable with %d records", kept)
			}
		}
		if l.have > maxLevel {
			t.Errorf("%d bytes in the pipe", l.have)
		}
		if change(-kept); readable() || l.have != 0 {
			t.Error("readable without a record")
		}
	}
	// A record that is taken before its byte is written leaves none behind.
	l.Add(3)
	l.Add(-2)
	if l.Sync(); !edge() || l.have != 1 {
		t.Errorf("%d bytes for one record", l.have)
	}
	l.Close()
	unix.Close(fd) //nolint:errcheck // nothing was written
}

// TestLevelSyncWaits: when Sync returns, the pipe has the number of records, also if another
// thread was about to write a byte for a record that is gone.
func TestLevelSyncWaits(t *testing.T) {
	l := must.Get[*Level](t)(NewLevel(quota.New(quota.Cost{}), ReadOnly))
	_, readable := levelReader(t, l)
	l.mu.Lock()
	l.busy = true // the other thread
	l.mu.Unlock()
	returned, waits := make(chan struct{}), leak.Running("[sync.Cond.Wait")
	go func() {
		l.Sync()
		close(returned)
	}()
	must.Eventually(t, "Sync waits for the other thread", func() bool {
		select {
		case <-returned:
			t.Fatal("Sync returned while another thread writes")
		default:
		}
		return leak.Running("[sync.Cond.Wait") > waits
	})
	must.Get[int](t)(unix.Write(l.w, []byte{0}))
	l.mu.Lock()
	l.have, l.busy = 1, false
	l.idle.Broadcast()
	l.mu.Unlock()
	<-returned
	if readable() {
		t.Error("readable without a record")
	}
	l.Close()
}

// TestLevelUnanswered: a program that reads into memory that does not answer blocks the thread
// that syncs, and no other. The pipe is given up when it answers.
func TestLevelUnanswered(t *testing.T) {
	page, answer := uffd.UnansweredPage(t)
	budget := quota.New(quota.Cost{})
	l := must.Get[*Level](t)(NewLevel(budget, ReadOnly))
	fd, _ := levelReader(t, l)
	defer unix.Close(fd)
	l.Add(1)
	l.Sync()
	var program sync.WaitGroup
	program.Go(func() { _, _ = unix.Read(fd, page[:1]) })
	for range 100 {
		l.Add(1)
		l.SyncAside()
	}
	l.Add(-50)
	l.Close()
	answer()
	program.Wait()
	quotatest.WantGiven(t, budget)
}
