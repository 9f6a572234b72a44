package mlx5

import (
	"errors"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/provider"
	"github.com/gorxe/gorxe/internal/provider/profile"
	"github.com/gorxe/gorxe/internal/quota"
	"github.com/gorxe/gorxe/internal/test/must"
	"github.com/gorxe/gorxe/internal/test/quotatest"
	"github.com/gorxe/gorxe/internal/test/rxedev"
)

// TestOpensTakeThreads: each open has a thread that looks for doorbells. A user opens no more than
// that user may have threads, of which some are left for calls. An open that was refused stays so.
func TestOpensTakeThreads(t *testing.T) {
	const opens = 3
	dev, budget := rxedev.New(t), quota.New(quota.Cost{Threads: opens + leftThreads})
	open := func() (*userContext, error) {
		c := must.Get[provider.Context](t)(New(profile.ConnectX6, nil).Open(provider.Open{
			Device: dev.Whole(), Budget: budget, Offsets: provider.NewOffsets()})).(*userContext)
		t.Cleanup(func() { c.Close(false) })
		return c, c.Begin(ask(new(program), AllocContextReq{LibCaps: libDynamicUAR}))
	}
	for range 2 {
		var list []*userContext
		for range opens {
			c, err := open()
			must.OK(t, err)
			list = append(list, c)
		}
		if n := budget.Used().Threads; n != opens {
			t.Errorf("%d threads are taken, want %d", n, opens)
		}
		c, err := open()
		for range 2 {
			if !errors.Is(err, unix.EAGAIN) || !errors.Is(err, quota.ErrSpent) {
				t.Errorf("one open more than there are threads: %v", err)
			}
			err = c.Begin(ask(new(program), AllocContextReq{LibCaps: libDynamicUAR}))
		}
		for _, c := range append(list, c) {
			c.Close(false)
		}
		quotatest.WantGiven(t, budget)
	}
}
