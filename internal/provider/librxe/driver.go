package librxe

import (
	"github.com/gorxe/gorxe/internal/provider"
	"github.com/gorxe/gorxe/internal/uapi"
	"github.com/gorxe/gorxe/rxe"
)

// Driver is what rdma_rxe is to librxe.
type Driver struct{}

var _ provider.Driver = Driver{}

// ID implements provider.Driver.
func (Driver) ID() uint32 { return uapi.DriverRXE }

// Open implements provider.Driver.
func (Driver) Open(o provider.Open) (provider.Context, error) {
	a, err := newArena(o.Budget)
	if err != nil {
		return nil, err
	}
	return &userContext{arena: a, dev: o.Device, overrun: o.Overrun}, nil
}

// userContext is one open of the device: the queues of its arena.
type userContext struct {
	*arena
	dev     *rxe.Subdevice
	overrun func()
}

// FD implements provider.Context.
func (c *userContext) FD() int { return c.fd() }

// DoorbellOffset implements provider.Context: doorbells land behind the queues.
func (c *userContext) DoorbellOffset() int64 { return arenaSize }

// Mappings implements provider.Context: librxe maps a queue right after the call that makes it.
func (c *userContext) Mappings() (told uint64, atOnce bool) { return c.made.Load(), true }

// Sweep implements provider.Context.
func (c *userContext) Sweep() { c.doorbells.clean(c.arena) }

// End implements provider.Context.
func (c *userContext) End() { c.end() }

// Close implements provider.Context.
func (c *userContext) Close(keep bool) { c.close(keep) }

// Queues returns how many queues the program has.
func (c *userContext) Queues() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.pieces)
}

// CreatedAH implements provider.Context. A librxe that leaves no room for the number
// puts the address itself into its work requests (rxe_create_ah).
func (c *userContext) CreatedAH(u provider.UData, ah *rxe.AH) error {
	if u.Room() < uapi.SizeOf[CreateAHResp]() {
		return nil
	}
	resp := CreateAHResp{AHNum: ah.Num()}
	return u.Respond(uapi.BytesOf(&resp))
}

func respondPlace(u provider.UData, r interface{ place() MMInfo }) error {
	place := r.place()
	return u.Respond(uapi.BytesOf(&place))
}

// hasRoom reports whether the program has room for a T in the private response. An
// older librxe has none.
func hasRoom[T any](u provider.UData) error {
	if u.Room() < uapi.SizeOf[T]() {
		return refuse("response", "has no room for the place of the queue", "use a librxe that maps its queues")
	}
	return nil
}

// refuse returns an EINVAL with its reason.
func refuse(arg, why, fix string) error {
	return &rxe.OpError{Op: "librxe", Arg: arg, Why: why, Fix: fix, Err: rxe.ErrInvalid}
}
