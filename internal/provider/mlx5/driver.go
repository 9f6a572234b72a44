package mlx5

import (
	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/kernel/uapi"
	"github.com/gorxe/gorxe/internal/provider"
	"github.com/gorxe/gorxe/internal/provider/profile"
	"github.com/gorxe/gorxe/internal/sched"
	"github.com/gorxe/gorxe/rxe"
)

// Driver is what the kernel's mlx5_ib is to libmlx5.
type Driver struct {
	Profile profile.Profile
	Class   *sched.Class // of the threads that look for doorbells; may be nil

	memory *adapterMemory
}

// New returns the driver of one adapter.
func New(p profile.Profile, class *sched.Class) Driver {
	return Driver{Profile: p, Class: class, memory: new(adapterMemory)}
}

var _ provider.Driver = Driver{}

// ID implements provider.Driver.
func (Driver) ID() uint32 { return uapi.DriverMLX5 }

// ABI implements provider.Driver (MLX5_IB_UVERBS_ABI_VERSION).
func (Driver) ABI() uint32 { return 1 }

// Methods implements provider.Driver.
func (Driver) Methods() provider.Methods { return methods }

// ModeratesCQs implements provider.Moderates.
func (Driver) ModeratesCQs() bool { return true }

// HasSameKeys implements provider.SameKeys.
func (Driver) HasSameKeys() bool { return true }

// Open implements provider.Driver.
func (d Driver) Open(o provider.Open) (provider.Context, error) {
	if err := o.Budget.Take(openCost); err != nil {
		return nil, err
	}
	pages, err := newPages()
	if err != nil {
		o.Budget.Give(openCost)
		return nil, err
	}
	c := &userContext{dev: o.Device, budget: o.Budget, offsets: o.Offsets, pages: pages, memory: d.memory, addFlow: o.AddFlow}
	c.guard.pages, c.guard.budget, c.guard.clock = pages, o.Budget, &c.clock
	c.doorbells.rouse = c.guard.rouse
	c.poller.init(c, d.Class)
	return c, nil
}

// refuse returns an EINVAL with its reason.
func refuse(arg, why, fix string) error {
	return &rxe.OpError{Op: "libmlx5", Arg: arg, Why: why, Fix: fix, Err: rxe.ErrInvalid}
}

// lacks reports a private request of less than least bytes. An older libmlx5 leaves out the end of
// some.
func lacks(u provider.UData, least int) error {
	if len(u.Request()) < least {
		return refuse("request", "has no place of the queue", "use the libmlx5 of rdma-core")
	}
	return nil
}

// respond delivers as much of a private response as the program has room for.
func respond[T any](u provider.UData, resp T) error { return u.Respond(uapi.BytesOf(&resp)) }

var errNotOffered = unix.EOPNOTSUPP
