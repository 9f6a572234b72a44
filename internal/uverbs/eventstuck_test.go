package uverbs

import (
	"errors"
	"os"
	"sync"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/quota"
	"github.com/gorxe/gorxe/internal/test/quotatest"
)

// unansweredPage is memory whose first access waits until the returned function
// is called (userfaultfd).
func unansweredPage(t *testing.T) (page []byte, answer func()) {
	t.Helper()
	fd, _, errno := unix.Syscall(unix.SYS_USERFAULTFD, unix.O_CLOEXEC, 0, 0)
	if errors.Is(errno, unix.EPERM) && os.Getuid() != 0 {
		t.Skip("userfaultfd of system calls' accesses is for root (vm.unprivileged_userfaultfd)")
	}
	if errno != 0 {
		t.Fatalf("userfaultfd: %v", errno)
	}
	const api, register = 0xc018aa3f, 0xc020aa00 // UFFDIO_API, UFFDIO_REGISTER
	hello := [3]uint64{0xaa, 0, 0}
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, fd, api, uintptr(unsafe.Pointer(&hello))); errno != 0 {
		t.Fatalf("UFFDIO_API: %v", errno)
	}
	page, err := unix.Mmap(-1, 0, pageSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		t.Fatal(err)
	}
	missing := [4]uint64{uint64(uintptr(unsafe.Pointer(&page[0]))), pageSize, 1, 0}
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, fd, register, uintptr(unsafe.Pointer(&missing))); errno != 0 {
		t.Fatalf("UFFDIO_REGISTER: %v", errno)
	}
	var once sync.Once
	answer = func() { once.Do(func() { _ = unix.Close(int(fd)) }) } // the page is then as any other
	t.Cleanup(func() {
		answer()
		_ = unix.Munmap(page)
	})
	return page, answer
}

// TestStuckReader: a program that reads its events into memory that does not
// answer holds the pipe's lock, and at most one thread of the daemon's for each
// pipe, and few in all. Nobody else waits, and neither does the end; what cannot
// be closed stays in the budget until it is.
func TestStuckReader(t *testing.T) {
	page, answer := unansweredPage(t)
	const pipes = 2 * (quota.MaxInline + quota.MaxWriters)
	budget := quota.New(quota.Cost{})
	var readers, senders sync.WaitGroup
	channels := make([]*channel, pipes)
	x := new(objKey)
	for i := range channels {
		c, fd := testChannelOf(t, budget)
		if err := unix.SetNonblock(fd, false); err != nil {
			t.Fatal(err)
		}
		channels[i] = c
		c.notify(1, x)
		readers.Go(func() { _, _ = unix.Read(fd, page[:8]) })
	}
	// Each reader is on its way into its copy; those who send may be caught.
	inCall := make(chan struct{}, 1000)
	for range 10 {
		for _, c := range channels {
			senders.Go(func() {
				c.notify(2, x)
				inCall <- struct{}{}
			})
		}
	}
	for range 10*pipes - quota.MaxInline {
		<-inCall
	}
	for _, c := range channels {
		c.close()
		c.notify(3, x)
		if c.forget(x) != 0 {
			t.Error("a closed channel reported events")
		}
	}
	if n := budget.Workers(); n > quota.MaxWorkers {
		t.Errorf("%d threads close pipes, the limit is %d", n, quota.MaxWorkers)
	}
	if n := budget.Used().Files; n == 0 {
		t.Error("pipes whose readers do not answer are closed")
	}
	answer()
	senders.Wait()
	readers.Wait()
	quotatest.WantGiven(t, budget)
}
