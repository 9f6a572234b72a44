package uverbs

import (
	"errors"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/kernel"
	"github.com/gorxe/gorxe/internal/kernel/dispatch"
	"github.com/gorxe/gorxe/internal/kernel/uapi"
	"github.com/gorxe/gorxe/internal/provider"
	"github.com/gorxe/gorxe/internal/sys/bufmem"
	"github.com/gorxe/gorxe/rxe"
)

// mrRes is a memory region.
type mrRes struct {
	f      *File
	mr     *rxe.MR
	number uint32

	mu     sync.Mutex // a leaf lock, for Status
	region region
}

// region is what was registered.
type region struct {
	space  kernel.Space
	pd     *rxe.PD
	start  uint64 // in the program's address space
	length uint64
	iova   uint64 // as work requests and peers name it
	access rxe.Access
	dmabuf *bufmem.DMABuf        // which space is then; nil: space is the program's
	dm     provider.DeviceMemory // likewise
}

func (r *mrRes) Destroy(*dispatch.Object, bool) error {
	lkey := uint32(r.mr.LKey())
	if err := r.mr.Dereg(); err != nil {
		// A window is bound (IBA 10.6.7.2.6). Everything that is in use answers so, and so do
		// adapters; rxe_dereg_mr says EINVAL.
		if errors.Is(err, rxe.ErrBusy) {
			return kernel.Refuse(unix.EBUSY, "mr", "is in use by a memory window", "unbind or free the window first")
		}
		return err
	}
	r.f.keys.dropMR(lkey)
	g := r.get()
	g.dmabuf.Close()
	if g.dm != nil {
		g.dm.Release()
	}
	return nil
}

func (r *mrRes) get() region {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.region
}

func (r *mrRes) set(to region) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.region = to
}

// rkey returns the key for peers. A region without a remote right has none (rxe_mr_init), except
// on a device where it equals the local key.
func (r *mrRes) rkey() uint32 {
	const remote = rxe.AccessRemoteRead | rxe.AccessRemoteWrite | rxe.AccessRemoteAtomic |
		rxe.AccessFlushGlobal | rxe.AccessFlushPersist
	if r.get().access&remote == 0 && !r.f.dev.sameKeys {
		return 0
	}
	return uint32(r.mr.RKey())
}

// accessKnown are the rights that a region may be asked for. Optional ones that
// this device does not know are ignored, which is what optional means.
const accessKnown = rxe.AccessLocalWrite | rxe.AccessRemoteWrite | rxe.AccessRemoteRead |
	rxe.AccessRemoteAtomic | rxe.AccessMWBind | rxe.AccessZeroBased | rxe.AccessOnDemand |
	rxe.AccessHugeTLB | rxe.AccessFlushGlobal | rxe.AccessFlushPersist | uapi.AccessOptional

// checkAccess is ib_check_mr_access; unlike rdma_rxe before 6.15 every region
// may be on demand, as none is pinned.
func checkAccess(a rxe.Access) error {
	const writes = rxe.AccessRemoteWrite | rxe.AccessRemoteAtomic
	if a&writes != 0 && a&rxe.AccessLocalWrite == 0 || a&^accessKnown != 0 {
		return kernel.Refuse(unix.EINVAL, "access", "unknown flags, or remote write without local write", "add IBV_ACCESS_LOCAL_WRITE")
	}
	return nil
}

// writable is ib_access_writable.
func writable(a rxe.Access) bool {
	return a&(rxe.AccessLocalWrite|rxe.AccessRemoteWrite|rxe.AccessRemoteAtomic|rxe.AccessMWBind) != 0
}

const pageOffset = memPage - 1

const memPage = 4096

// checkRange is what ib_umem_get checks and does: all of it has to be there,
// unless it is on demand. RLIMIT_MEMLOCK is not charged: nothing is locked.
func (g *region) checkRange() error {
	end := g.start + g.length
	if g.access&rxe.AccessOnDemand != 0 {
		if end < g.start && !g.implicit() {
			return kernel.Refuse(unix.EINVAL, "addr and length", "the range wraps around", "end the region within the address space")
		}
		return nil
	}
	if end < g.start || (end+pageOffset)&^pageOffset < end || g.length == 0 && g.start&pageOffset == 0 {
		return kernel.Refuse(unix.EINVAL, "addr and length", "the range is empty or wraps around", "register at least a byte")
	}
	return g.space.Check(g.start, g.length, writable(g.access))
}

// implicit is all of the address space (ib_umem_odp_alloc_implicit).
func (g *region) implicit() bool { return g.start == 0 && g.length == 1<<64-1 }

func writeRegMR(k *call, req *uapi.RegMRReq) error {
	if req.Start&pageOffset != req.HCAVA&pageOffset {
		return kernel.Refuse(unix.EINVAL, "addr and iova", "the offsets within a page differ", "use an iova with the offset of addr")
	}
	o, err := k.Make(uapi.ObjMR)
	if err != nil {
		return err
	}
	access := rxe.Access(req.AccessFlags)
	if err := checkAccess(access); err != nil {
		return err
	}
	pd, err := dispatch.Held[*pdRes](&k.Call, uapi.ObjPD, req.PDHandle)
	if err != nil {
		return err
	}
	g := region{pd: pd.pd, start: req.Start, length: req.Length, iova: req.HCAVA, access: access}
	if g.space, err = k.Caller.Space(); err != nil {
		return err
	}
	if err := g.checkRange(); err != nil {
		return err
	}
	mr, err := g.pd.RegMR(g.space, g.start, g.length, g.iova, access)
	if err != nil {
		return err
	}
	r := &mrRes{f: k.f, mr: mr, number: k.f.dev.numbers.mrs.Add(1), region: g}
	o.Res = r
	k.f.keys.addMR(r)
	return dispatch.Respond(&k.Call, uapi.RegMRResp{MRHandle: o.Handle, LKey: uint32(mr.LKey()), RKey: r.rkey()})
}

// writeReregMR changes a region. rdma_rxe got it in 6.4 for rights and domain;
// here the memory may change too.
func writeReregMR(k *call, req *uapi.ReregMRReq) error {
	what := rxe.ReregFlags(req.Flags)
	access := rxe.Access(req.AccessFlags)
	switch {
	case what == 0:
		return kernel.Refuse(unix.EINVAL, "flags", "none is set", "set at least one of IBV_REREG_MR_CHANGE_*")
	case what&^(rxe.ReregTranslation|rxe.ReregPD|rxe.ReregAccess) != 0:
		return kernel.Refuse(unix.EOPNOTSUPP, "flags", "unknown", "use IBV_REREG_MR_CHANGE_*")
	case what&rxe.ReregTranslation != 0 && req.Start&pageOffset != req.HCAVA&pageOffset:
		return kernel.Refuse(unix.EINVAL, "addr and iova", "the offsets within a page differ", "use an iova with the offset of addr")
	}
	r, release, err := k.seizeMR(req.MRHandle)
	if err != nil {
		return err
	}
	defer release()
	g := r.get()
	if g.dm != nil {
		return kernel.Refuse(unix.EOPNOTSUPP, "mr", "is of device memory", "register the memory once more")
	}
	old := g.dmabuf
	if what&rxe.ReregAccess != 0 {
		if err := checkAccess(access); err != nil {
			return err
		}
		g.access = access
	}
	if what&rxe.ReregPD != 0 {
		pd, err := dispatch.Held[*pdRes](&k.Call, uapi.ObjPD, req.PDHandle)
		if err != nil {
			return err
		}
		g.pd = pd.pd
	}
	if what&rxe.ReregTranslation != 0 {
		g.start, g.length, g.iova, g.dmabuf = req.Start, req.Length, req.HCAVA, nil
		if g.space, err = k.Caller.Space(); err != nil {
			return err
		}
	}
	if what&(rxe.ReregTranslation|rxe.ReregAccess) != 0 {
		if err := g.checkRange(); err != nil {
			return err
		}
	}
	if err := k.Probe(&k.Out, uapi.SizeOf[uapi.ReregMRResp]()); err != nil {
		return err
	}
	if err := r.mr.Rereg(what, g.pd, g.space, g.start, g.length, g.iova, g.access); err != nil {
		return err
	}
	r.set(g)
	if g.dmabuf == nil {
		old.Close()
	}
	if k.f.watcher != nil {
		k.f.watcher.Changed(r, r.watched(), k.Caller)
	}
	return dispatch.Respond(&k.Call, uapi.ReregMRResp{LKey: uint32(r.mr.LKey()), RKey: r.rkey()})
}

// seizeMR takes a region for oneself.
func (k *call) seizeMR(handle uint32) (*mrRes, func(), error) {
	o, err := k.f.objects.Find(uapi.ObjMR, uint64(handle))
	switch {
	case err != nil:
		return nil, nil, err
	case k.f.gone():
		return nil, nil, unix.EIO
	case !o.Seize():
		return nil, nil, unix.EBUSY
	}
	return o.Res.(*mrRes), o.Unseize, nil
}

// ioctlAdviseMR answers ibv_advise_mr: there is nothing to prefetch, as memory
// is accessed where it lies, but what is named has to exist (rxe_odp.c of 6.15).
func ioctlAdviseMR(k *call) error {
	advice, err := k.Attrs.Constant(uapi.AttrAdviseAdvice, 1<<32-1)
	if err != nil {
		return err
	}
	if _, err := k.Attrs.Flags(uapi.AttrAdviseFlags, uapi.AdviseFlagFlush); err != nil {
		return err
	}
	list := k.Attrs.Get(uapi.AttrAdviseSGList).Data
	if len(list)%uapi.SizeOf[uapi.SGE]() != 0 {
		return kernel.Refuse(unix.EINVAL, "sg_list", "its size is no multiple of struct ibv_sge", "give whole elements")
	}
	if advice > uapi.AdvisePrefetchNoFault {
		return kernel.Refuse(unix.EOPNOTSUPP, "advice", "unknown", "use a value of enum ibv_advise_mr_advice")
	}
	pd := k.Attrs.Object(uapi.AttrAdvisePD).Res.(*pdRes)
	for ; len(list) > 0; list = list[uapi.SizeOf[uapi.SGE]():] {
		if err := k.f.advise(pd.pd, uint32(advice), uapi.Load[uapi.SGE](list)); err != nil {
			return err
		}
	}
	return nil
}

// advise checks one range that the program means to use.
func (f *File) advise(pd *rxe.PD, advice uint32, s uapi.SGE) error {
	r := f.keys.mr(s.LKey)
	if r == nil {
		return kernel.Refuse(unix.EINVAL, "lkey", "names no region of this context", "use the lkey of a region that exists")
	}
	g := r.get()
	base := g.iova
	if g.access&rxe.AccessZeroBased != 0 {
		base = 0
	}
	off := s.Addr - base
	switch {
	case g.pd != pd:
		return kernel.Refuse(unix.EINVAL, "lkey", "names a region of another PD", "use a region of this PD")
	case advice == uapi.AdvisePrefetchWrite && g.access&rxe.AccessLocalWrite == 0:
		return kernel.Refuse(unix.EINVAL, "lkey", "names a region without local write", "use IBV_ADVISE_MR_ADVICE_PREFETCH")
	case off > g.length || uint64(s.Length) > g.length-off:
		return kernel.Refuse(unix.EINVAL, "sg_list", "reaches outside the region", "stay within the region")
	}
	return nil
}

func ioctlQueryMR(k *call) error {
	r := k.Attrs.Object(uapi.AttrQueryMRHandle).Res.(*mrRes)
	g := r.get()
	if err := dispatch.Put(&k.Call, uapi.AttrQueryMRLKey, uint32(r.mr.LKey())); err != nil {
		return err
	}
	if err := dispatch.Put(&k.Call, uapi.AttrQueryMRRKey, r.rkey()); err != nil {
		return err
	}
	if err := dispatch.Put(&k.Call, uapi.AttrQueryMRLength, g.length); err != nil {
		return err
	}
	return dispatch.Put(&k.Call, uapi.AttrQueryMRIOVA, g.iova)
}

// mwRes is a memory window.
type mwRes struct {
	f    *File
	mw   *rxe.MW
	rkey uint32 // when it was made; binds change the low byte
}

func (r *mwRes) Destroy(*dispatch.Object, bool) error {
	if err := r.mw.Dealloc(); err != nil {
		return err
	}
	r.f.keys.dropMW(r.rkey)
	return nil
}

func writeAllocMW(k *call, req *uapi.AllocMWReq) error {
	o, err := k.Make(uapi.ObjMW)
	if err != nil {
		return err
	}
	pd, err := dispatch.Held[*pdRes](&k.Call, uapi.ObjPD, req.PDHandle)
	if err != nil {
		return err
	}
	mw, err := pd.pd.AllocMW(rxe.MWType(req.MWType))
	if err != nil {
		return err
	}
	rkey := uint32(mw.RKey())
	o.Res = &mwRes{k.f, mw, rkey}
	k.f.keys.addMW(mw)
	return dispatch.Respond(&k.Call, uapi.AllocMWResp{MWHandle: o.Handle, RKey: rkey})
}
