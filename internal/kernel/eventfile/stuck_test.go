package eventfile

import (
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/quota"
	"github.com/gorxe/gorxe/internal/test/quotatest"
	"github.com/gorxe/gorxe/internal/test/uffd"
)

// TestBlockedReader: a program reads its events into memory that does not answer, and so
// holds the pipe's lock. It costs at most one thread of the daemon for each pipe, and few
// in all. Other threads do not wait, and Close does not wait. The budget counts what
// cannot be closed until it is closed.
func TestBlockedReader(t *testing.T) {
	page, answer := uffd.UnansweredPage(t)
	const pipes = 2 * (quota.MaxInline + quota.MaxWriters)
	budget := quota.New(quota.Cost{})
	var readers, senders sync.WaitGroup
	channels := make([]*notifier, pipes)
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
	// Each reader is on its way into its copy. Threads that send may block.
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
		c.Close()
		c.notify(3, x)
		if n, _ := c.Forget(x); n != 0 {
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
