package librxe

import (
	"github.com/gorxe/gorxe/internal/kernel/uapi"
	"github.com/gorxe/gorxe/internal/provider"
	"github.com/gorxe/gorxe/rxe"
)

// DoorbellSize is the size of the write that is librxe's doorbell: a struct ib_uverbs_post_send
// with its header (providers/rxe/rxe.c: post_send_db).
const DoorbellSize = 32

// Driver is what rdma_rxe is to librxe.
type Driver struct{}

var _ provider.Driver = Driver{}

// ID implements provider.Driver.
func (Driver) ID() uint32 { return uapi.DriverRXE }

// ABI implements provider.Driver (RXE_UVERBS_ABI_VERSION).
func (Driver) ABI() uint32 { return 2 }

// busDriver is the name of the driver of the bus device, and the end of the device's name:
// rxe0.gorxe. NCCL takes two parents for two ports of one adapter if their paths differ in the last
// character only (net_ib: ncclIbGetPciPath).
const busDriver = "gorxe"

// Look implements provider.Driver (rxe_verbs.c: rxe_register_device). The parent is on the platform
// bus, like the adapters of a system on a chip, so programs that read PCI properties see that it is
// not a PCI device.
//
// The numbers match no adapter: PCI reserves vendor 0xffff for an empty slot, and 0x020000 is
// the class of every Ethernet controller. There is no modalias, by which libibverbs would
// look for another provider (init.c: match_modalias).
func (Driver) Look(device string, _ int) provider.Look {
	return provider.Look{
		NodeDesc: "rxe", HCAType: "rxe", BoardID: busDriver, ShowsNetdev: true,
		Parent: provider.Parent{
			Dir: "platform/" + device + "." + busDriver, Bus: "platform", Driver: busDriver,
			Attributes: map[string]string{
				"class": "0x020000", "vendor": "0xffff", "device": "0x0000",
				"subsystem_vendor": "0xffff", "subsystem_device": "0x0000",
			},
		},
	}
}

// Methods implements provider.Driver: rdma_rxe has none of its own.
func (Driver) Methods() provider.Methods { return nil }

// Open implements provider.Driver.
func (Driver) Open(o provider.Open) (provider.Context, error) {
	a, err := newArena(o.Budget, o.Offsets)
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
func (c *userContext) DoorbellOffset() int64 { return provider.OffsetsEnd }

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

// Begin implements provider.Context. rdma_rxe ignores the private part (rxe_alloc_ucontext).
func (c *userContext) Begin(provider.UData) error { return nil }

// QueryDevice implements provider.Context (rxe_query_device).
func (c *userContext) QueryDevice(u provider.UData, _ *provider.DeviceAttr) error {
	if len(u.Request()) > 0 || u.Room() > 0 {
		return refuse("request or response", "has a private part, which rdma_rxe has not", "use the librxe of rdma-core")
	}
	return nil
}

// CreatedPD implements provider.Context. rdma_rxe ignores the private part (rxe_alloc_pd).
func (c *userContext) CreatedPD(provider.UData, *rxe.PD, uint32) error { return nil }

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
