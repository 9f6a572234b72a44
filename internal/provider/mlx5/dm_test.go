package mlx5

import (
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/provider"
	"github.com/gorxe/gorxe/internal/provider/profile"
	"github.com/gorxe/gorxe/internal/quota"
	"github.com/gorxe/gorxe/internal/test/must"
	"github.com/gorxe/gorxe/internal/test/rxedev"
)

// TestAdapterMemory: two opens of an adapter share its device memory, and one of another adapter
// has its own.
func TestAdapterMemory(t *testing.T) {
	dev := rxedev.New(t)
	open := func(d Driver) *userContext {
		c := must.Get[provider.Context](t)(d.Open(provider.Open{
			Device: dev.Whole(), Budget: quota.New(quota.Cost{}), Offsets: provider.NewOffsets()}))
		t.Cleanup(func() { c.Close(false) })
		return c.(*userContext)
	}
	d := New(profile.ConnectX6, nil)
	a, b, other := open(d), open(d), open(New(profile.ConnectX6, nil))
	must.Get[*deviceMemory](t)(a.newDM(provider.PageSize, 0))
	if _, err := b.newDM(maxDMSize, 0); err != unix.ENOMEM {
		t.Errorf("more than is left: %v", err)
	}
	rest := must.Get[*deviceMemory](t)(b.newDM(maxDMSize-provider.PageSize, 0))
	if _, err := a.newDM(1, 0); err != unix.ENOMEM {
		t.Errorf("more than nothing: %v", err)
	}
	must.Get[*deviceMemory](t)(other.newDM(maxDMSize, 0))
	must.OK(t, rest.Destroy(nil, false))
	must.Get[*deviceMemory](t)(a.newDM(maxDMSize-provider.PageSize, 0))
}
