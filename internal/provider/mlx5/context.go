package mlx5

import (
	"math"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/kernel/dispatch"
	"github.com/gorxe/gorxe/internal/kernel/uapi"
	"github.com/gorxe/gorxe/internal/provider"
	"github.com/gorxe/gorxe/internal/provider/profile"
	"github.com/gorxe/gorxe/internal/quota"
	"github.com/gorxe/gorxe/internal/segment/ether"
	"github.com/gorxe/gorxe/rxe"
	"github.com/gorxe/gorxe/wire"
)

// userContext is one open of the device.
type userContext struct {
	dev       *rxe.Subdevice
	budget    *quota.Budget
	offsets   *provider.Offsets
	pages     *pages
	memory    *adapterMemory
	addFlow   func(*dispatch.Call, provider.FlowRequest) (dispatch.Resource, error)
	clock     deviceClock
	poller    poller
	guard     guard
	doorbells doorbells
	closed    atomic.Bool

	labels labels

	mu   sync.RWMutex // a leaf lock, except for those of the pages and doorbells
	qps  map[wire.QPN]*queuePair
	uars uarPool
	dms  dmPool
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
func (c *userContext) End() { c.labels.freeze() }

// Close implements provider.Context. The queues are the program's memory, so it reads them as long
// as it likes.
func (c *userContext) Close(bool) {
	if c.closed.Swap(true) {
		return
	}
	c.poller.stop()
	c.guard.close()
	c.labels.close()
	c.pages.close()
	c.budget.Give(openCost)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.budget.Give(quota.Cost{Memory: int64(c.uars.chunks) * uarCost.Memory})
}

// Begin implements provider.Context (mlx5_ib_alloc_ucontext). The reply is that of a device without
// DevX. A libmlx5 of the last years asks for pages of registers itself.
func (c *userContext) Begin(u provider.UData) error {
	if err := lacks(u, contextLeast); err != nil {
		return err
	}
	req := uapi.Load[AllocContextReq](u.Request())
	if req.Flags&contextDevX != 0 {
		return unix.EPROTONOSUPPORT // libmlx5 asks again without it
	}
	resp := c.description(u.Room())
	if req.LibCaps&libDynamicUAR == 0 {
		if err := c.makeGiven(); err != nil {
			return err
		}
		resp.TotBFRegs = uarPages * registersPerPage
	}
	if err := c.clock.begin(c); err != nil {
		return err
	}
	if err := c.poller.start(); err != nil { // the clock runs from now on
		return err
	}
	return respond(u, resp)
}

// description is what libmlx5 has to know of the device.
func (c *userContext) description(room int) AllocContextResp {
	return AllocContextResp{
		QPTabSize: qpTableSize, BFRegSize: registerSize,
		CacheLineSize: cacheLine, MaxSQDescSz: maxSendBytes, MaxRQDescSz: maxRecvBytes,
		MaxSendWQEBB: maxWQEBB, MaxRecvWR: maxRecvWR, MaxSRQRecvWR: maxSRQWR, NumPorts: 1,
		CompMask:       coreClockOffset | dumpFillKey | hasECE,
		ResponseLength: uint32(min(room, uapi.SizeOf[AllocContextResp]())),
		CQEVersion:     1, CmdsSuppUHW: uhwQueryDevice | uhwCreateAH, EthMinInline: inlineModeNone,
		ClockInfo: 1 << clockInfoV1, HCACoreClockOffset: coreClockAt,
		LogUARSize: logPageSize, NumUARsPerPage: 1, DumpFill: uint32(profile.NullLKey),
	}
}

// QueryDevice implements provider.Context (mlx5_ib_query_device). libmlx5 allows no larger queues
// than Begin told it, whatever the limits of the device.
func (c *userContext) QueryDevice(u provider.UData, a *provider.DeviceAttr) error {
	a.MaxQPWR, a.MaxSRQWR = min(a.MaxQPWR, maxWQEBB), min(a.MaxSRQWR, maxSRQWR)
	a.TimestampMask, a.ClockKHz = math.MaxInt64, clockKHz
	a.MaxDMSize = maxDMSize
	a.MaxCQCount, a.MaxCQPeriod = maxCQCount, maxCQPeriod
	a.Cap |= rxe.CapRawIPCsum | rxe.CapRawScatterFCS
	a.RawPacketCaps = rawCVLANStripping | rawScatterFCS | rawIPCsum
	a.MaxTables, a.MaxTable, a.MaxWQ = mostTables, 1<<logMostTable, a.MaxQP
	n := min(u.Room(), uapi.SizeOf[QueryDeviceResp]())
	return respond(u, QueryDeviceResp{ResponseLength: uint32(n), Flags: queryPadded,
		RSSCaps:     RSSCaps{RxHashFieldsMask: uint64(ether.HashAll), RxHashFunction: hashToeplitz},
		TSOCaps:     TSOCaps{MaxTSO: maxTSO, SupportedQPTs: 1 << uapi.QPTypeRawPacket},
		CQECompCaps: CQECompCaps{MaxNum: mostCompressed, SupportedFormat: compressHash | compressCsum | compressStridx},
		StridingRQCaps: StridingRQCaps{MinStrideLogBytes: leastStrideLog, MaxStrideLogBytes: mostStrideLog,
			MinWQELogStrides: leastStridesLog, MaxWQELogStrides: mostStridesLog, SupportedQPTs: 1 << uapi.QPTypeRawPacket}})
}

// CreatedPD implements provider.Context. A program that only has domains may read the clock.
func (c *userContext) CreatedPD(u provider.UData, _ *rxe.PD, handle uint32) error {
	if space, err := u.Space(); err == nil {
		c.cover(u, space)
	}
	return respond(u, AllocPDResp{PDN: pdNumber(handle)})
}

// cover has the guard cover all that the poller looks for. If each store shall wait, so does the
// first one after this call: the poller may come too late for it.
func (c *userContext) cover(u provider.UData, space rxe.Memory) {
	c.guard.cover(u, space, c.doorbells.pages())
	if c.doorbells.stops() {
		c.guard.arm()
	}
}

// pdNumber is the number of a protection domain for libmlx5, which shows it to programs.
func pdNumber(handle uint32) uint32 { return handle + 1 }

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
	if q := c.qps[qpn]; q != nil {
		return q.user
	}
	return 0
}

func (c *userContext) enter(qpn wire.QPN, q *queuePair) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.qps == nil {
		c.qps = make(map[wire.QPN]*queuePair)
	}
	c.qps[qpn] = q
}

func (c *userContext) forget(qpn wire.QPN) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.qps, qpn)
}
