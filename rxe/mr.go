package rxe

import (
	"sync"
	"sync/atomic"

	"github.com/gorxe/gorxe/wire"
)

// MR is a memory region: a range of a Memory to which keys give access.
type MR struct {
	dev *Device
	sub *Subdevice
	key keyObject

	reg atomic.Pointer[region] // nil: deregistered

	// guards changes of reg, and windows; for its place see the lock order in doc.go
	mu      sync.Mutex
	windows int // bound to this region
}

// region is one registration; Rereg replaces it as a whole.
type region struct {
	extent
	mem  Memory
	addr uint64 // of extent.base, in mem
	uses useCount
}

// accessRemoteWrites are the rights that imply writing to memory. The region must
// grant local writes too (IBA 10.6.3; C10-74).
const accessRemoteWrites = AccessRemoteWrite | AccessRemoteAtomic

const accessKnown = AccessLocalWrite | AccessRemoteWrite | AccessRemoteRead | AccessRemoteAtomic |
	AccessMWBind | AccessZeroBased | AccessOnDemand | AccessHugeTLB |
	AccessFlushGlobal | AccessFlushPersist | accessOptional

// accessOptional are the bits that a device may ignore
// (IBV_ACCESS_OPTIONAL_RANGE of enum ibv_access_flags).
const accessOptional Access = 0x3ff << 20

// RegMR registers length bytes at addr of mem (ibv_reg_mr_iova2). Work requests and
// peers name the first byte iova, or 0 with AccessZeroBased. It returns ErrInvalid
// for unknown rights, for remote write or atomic without local write, and for a
// range that wraps.
func (pd *PD) RegMR(mem Memory, addr, length, iova uint64, access Access) (*MR, error) {
	const op = "RegMR"
	d := pd.dev
	reg, err := d.newRegion(op, pd, mem, addr, length, iova, access)
	if err != nil {
		return nil, err
	}
	if err := pd.sub.claim(op, LimitMR, pd); err != nil {
		return nil, err
	}
	if err := pd.sub.register(op, reg, nil); err != nil {
		pd.sub.unclaim(LimitMR, pd)
		return nil, err
	}
	mr := &MR{dev: d, sub: pd.sub}
	mr.key.mr = mr
	variant := d.random.uint32() & variantMask
	// The region is stored last. Until then the index finds an MR without one,
	// which no key matches.
	reg.key = d.keys.insert(&mr.key, d.random.index)<<variantBits | variant
	mr.reg.Store(reg)
	return mr, nil
}

func (d *Device) newRegion(op string, pd *PD, mem Memory, addr, length, iova uint64, access Access) (*region, error) {
	if access&AccessZeroBased != 0 {
		iova = 0
	}
	switch {
	case mem == nil:
		return nil, invalid(op, "mem", "is nil", "give the region memory")
	case length > d.whole.attr.MaxMRSize:
		return nil, invalid(op, "length", "exceeds max_mr_size", "register less")
	case addr+length < addr:
		return nil, invalid(op, "addr", "range wraps", "end the region within the address space")
	case iova+length < iova:
		return nil, invalid(op, "iova", "range wraps", "end the region within the address space")
	}
	if err := checkMRAccess(op, access); err != nil {
		return nil, err
	}
	return &region{
		extent: extent{pd: pd, base: iova, length: length, access: access},
		mem:    mem,
		addr:   addr,
	}, nil
}

func checkMRAccess(op string, access Access) error {
	switch {
	case access&^accessKnown != 0:
		return invalid(op, "access", "unknown flags", "use bits of enum ibv_access_flags")
	case access&accessRemoteWrites != 0 && access&AccessLocalWrite == 0:
		return invalid(op, "access", "remote write and atomic need local write", "add IBV_ACCESS_LOCAL_WRITE")
	}
	return nil
}

// LKey names the region in work requests.
func (mr *MR) LKey() wire.LKey { return wire.LKey(mr.currentKey()) }

// RKey names the region in a peer's requests. As with rdma_rxe it is the same
// number as the lkey. Without a remote right it gives no access.
func (mr *MR) RKey() wire.RKey { return wire.RKey(mr.currentKey()) }

func (mr *MR) currentKey() uint32 {
	if reg := mr.reg.Load(); reg != nil {
		return reg.key
	}
	return 0
}

// access checks a range. If access is granted, it keeps the region in use.
func (mr *MR) access(q *QP, pd *PD, key uint32, va, n uint64, need Access) (regionRef, keyReason) {
	for {
		reg := mr.reg.Load()
		if reg == nil {
			return regionRef{}, keyNotFound
		}
		if r := reg.check(q, pd, key, va, n, need); r != keyOK {
			return regionRef{}, r
		}
		// A region that is dying has been replaced already: look again.
		if reg.uses.acquire() {
			return regionRef{mr: mr, reg: reg, mem: reg.mem, va: reg.addr + (va - reg.base)}, keyOK
		}
	}
}

// ReregFlags say what Rereg changes. The bits are those of enum ibv_rereg_mr_flags.
type ReregFlags uint32

const (
	ReregTranslation ReregFlags = 1 << 0
	ReregPD          ReregFlags = 1 << 1
	ReregAccess      ReregFlags = 1 << 2
)

// Rereg changes translation (mem, addr, length, iova), PD or access of the region
// (ibv_rereg_mr), and ignores arguments that flags do not name. It returns when no
// access under the old registration is in flight. The key stays the same unless the
// translation changes. It returns ErrBusy while a window is bound. After an error
// the region is unchanged.
func (mr *MR) Rereg(flags ReregFlags, pd *PD, mem Memory, addr, length, iova uint64, access Access) error {
	const op = "ReregMR"
	mr.mu.Lock()
	old := mr.reg.Load()
	reg, err := mr.replacement(op, old, flags, pd, mem, addr, length, iova, access)
	if err == nil {
		err = mr.sub.register(op, reg, old)
	}
	if err != nil {
		mr.mu.Unlock()
		return err
	}
	mr.reg.Store(reg)
	mr.mu.Unlock()
	mr.dev.settleLate(old.pd)
	old.uses.drain()
	return nil
}

func (mr *MR) replacement(op string, old *region, flags ReregFlags, pd *PD, mem Memory, addr, length, iova uint64, access Access) (*region, error) {
	const known = ReregTranslation | ReregPD | ReregAccess
	switch {
	case old == nil:
		return nil, opErr(op, "mr", ErrClosed)
	case flags == 0 || flags&^known != 0:
		return nil, invalid(op, "flags", "none, or unknown ones", "use bits of enum ibv_rereg_mr_flags")
	case flags&ReregPD != 0 && (pd == nil || pd.dev != mr.dev):
		return nil, invalid(op, "pd", "is not of this device", "use a PD of this context")
	case mr.windows > 0:
		return nil, opErr(op, "mr", ErrBusy)
	}
	key := old.key
	if flags&ReregPD == 0 {
		pd = old.pd
	}
	if flags&ReregAccess == 0 {
		access = old.access
	}
	if flags&ReregTranslation == 0 {
		mem, addr, length, iova = old.mem, old.addr, old.length, old.base
	} else {
		key = nextVariant(key)
	}
	reg, err := mr.dev.newRegion(op, pd, mem, addr, length, iova, access)
	if err == nil {
		reg.key = key
	}
	return reg, err
}

// Dereg ends the registration (ibv_dereg_mr) and returns when no access is in
// flight. It returns ErrBusy while a window is bound.
func (mr *MR) Dereg() error {
	const op = "DeregMR"
	mr.mu.Lock()
	reg := mr.reg.Load()
	switch {
	case reg == nil:
		mr.mu.Unlock()
		return opErr(op, "mr", ErrClosed)
	case mr.windows > 0:
		mr.mu.Unlock()
		return opErr(op, "mr", ErrBusy)
	}
	mr.reg.Store(nil)
	mr.mu.Unlock()
	mr.dev.keys.remove(reg.key >> variantBits)
	mr.dev.settleLate(reg.pd)
	reg.uses.drain()
	_ = mr.sub.register(op, nil, reg) // gives back
	mr.sub.unclaim(LimitMR, reg.pd)
	return nil
}

func (k *keyObject) closeRegion() {
	if k.mr != nil {
		_ = k.mr.Dereg() // may be gone already
	}
}

// nextVariant returns the key with the next variant byte (ibv_inc_rkey).
func nextVariant(key uint32) uint32 { return key&^variantMask | (key+1)&variantMask }
