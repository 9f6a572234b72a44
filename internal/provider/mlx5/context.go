package mlx5

import (
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/provider"
	"github.com/gorxe/gorxe/internal/quota"
	"github.com/gorxe/gorxe/internal/uapi"
	"github.com/gorxe/gorxe/rxe"
	"github.com/gorxe/gorxe/wire"
)

// userContext is one open of the device.
type userContext struct {
	dev       *rxe.Subdevice
	budget    *quota.Budget
	pages     *pages
	poller    poller
	doorbells doorbells
	pds       atomic.Uint32
	closed    atomic.Bool

	mu    sync.RWMutex        // a leaf lock
	users map[wire.QPN]uint32 // the user index of each queue pair
}

// FD implements provider.Context.
func (c *userContext) FD() int { return c.pages.file }

// DoorbellOffset implements provider.Context: a write like librxe's doorbell lands behind all
// pages.
func (c *userContext) DoorbellOffset() int64 { return provider.OffsetsEnd }

// Mappings implements provider.Context: nothing is mapped for a queue.
func (c *userContext) Mappings() (told uint64, atOnce bool) { return 0, false }

// Sweep implements provider.Context: no doorbell fills memory.
func (c *userContext) Sweep() {}

// End implements provider.Context.
func (c *userContext) End() {}

// Close implements provider.Context. The queues are the program's memory, so it reads them as long
// as it likes.
func (c *userContext) Close(bool) {
	if c.closed.Swap(true) {
		return
	}
	c.poller.stop()
	c.pages.close()
	c.budget.Give(openCost)
}

// Begin implements provider.Context (mlx5_ib_alloc_ucontext). The reply is that of a device without
// DevX, whose pages of registers are all mapped at the beginning. libmlx5 then asks for no other
// (MLX5_CTX_FLAGS_NO_KERN_DYN_UAR).
func (c *userContext) Begin(u provider.UData) error {
	if err := lacks(u, contextLeast); err != nil {
		return err
	}
	req := uapi.Load[AllocContextReq](u.Request())
	if req.Flags&contextDevX != 0 {
		return unix.EPROTONOSUPPORT // libmlx5 asks again without it
	}
	return respond(u, AllocContextResp{
		QPTabSize: qpTableSize, BFRegSize: registerSize, TotBFRegs: uarPages * registersPerPage,
		CacheLineSize: cacheLine, MaxSQDescSz: maxSendBytes, MaxRQDescSz: maxRecvBytes,
		MaxSendWQEBB: maxWQEBB, MaxRecvWR: maxRecvWR, MaxSRQRecvWR: maxSRQWR, NumPorts: 1,
		ResponseLength: uint32(min(u.Room(), uapi.SizeOf[AllocContextResp]())),
		CQEVersion:     1, CmdsSuppUHW: uhwCreateAH, EthMinInline: inlineModeNone,
		LogUARSize: logPageSize, NumUARsPerPage: 1,
	})
}

// QueryDevice implements provider.Context (mlx5_ib_query_device). libmlx5 allows no larger queues
// than Begin told it, whatever the limits of the device.
func (c *userContext) QueryDevice(_ provider.UData, a *rxe.DeviceAttr) error {
	a.MaxQPWR, a.MaxSRQWR = min(a.MaxQPWR, maxWQEBB), min(a.MaxSRQWR, maxSRQWR)
	return nil
}

// CreatedPD implements provider.Context.
func (c *userContext) CreatedPD(u provider.UData, _ *rxe.PD) error {
	return respond(u, AllocPDResp{PDN: c.pds.Add(1)})
}

// CreatedAH implements provider.Context. libmlx5 puts the hardware address into its work requests,
// where nobody looks at it.
func (c *userContext) CreatedAH(u provider.UData, _ *rxe.AH) error {
	if u.Room() == 0 {
		return nil
	}
	return respond(u, CreateAHResp{ResponseLength: uint32(uapi.SizeOf[CreateAHResp]())})
}

// user returns the user index of a queue pair, by which libmlx5 finds it.
func (c *userContext) user(qpn wire.QPN) uint32 {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.users[qpn]
}

func (c *userContext) setUser(qpn wire.QPN, index uint32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.users == nil {
		c.users = make(map[wire.QPN]uint32)
	}
	c.users[qpn] = index
}

func (c *userContext) forgetUser(qpn wire.QPN) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.users, qpn)
}
