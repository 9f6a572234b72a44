package rxe

import (
	"sync"
	"sync/atomic"

	"github.com/gorxe/gorxe/wire"
)

// MWType is enum ibv_mw_type.
type MWType uint8

const (
	MWType1 MWType = 1 // bound with ibv_bind_mw; every QP of its domain may use it
	MWType2 MWType = 2 // bound with a key that the program chooses; one QP may use it
)

// MW is a memory window: a key of its own for part of a region. Work requests bind
// and invalidate it.
//
// There are two kinds of type 2. A device has one of them and says so in its
// capabilities (o10-37.2.31). A 2A window is tied to the QP that bound it, which
// cannot be destroyed before the window is free. A 2B window is tied to that QP and
// its protection domain, so that the reused number of a destroyed QP gives no
// access.
//
// Both give the same access here. A bind is refused unless QP, region and window
// share one domain, and only the QP object that bound a window may use it. Like
// rdma_rxe's, a device has 2B by default.
type MW struct {
	dev *Device
	pd  *PD
	typ MWType
	key keyObject

	bound atomic.Pointer[binding] // nil: free

	mu   sync.Mutex // guards changes of bound, and what follows; taken before MR.mu
	rkey uint32
	dead bool
}

// binding is what a window gives access to. While it exists, its region can neither
// be reregistered nor deregistered.
type binding struct {
	extent
	mr   *MR
	reg  *region
	addr uint64 // of extent.base, in reg.mem
}

// AllocMW makes a window that is not bound (ibv_alloc_mw).
func (pd *PD) AllocMW(typ MWType) (*MW, error) {
	const op = "AllocMW"
	if typ != MWType1 && typ != MWType2 {
		return nil, invalid(op, "type", "unknown", "use IBV_MW_TYPE_1 or IBV_MW_TYPE_2")
	}
	d := pd.dev
	if err := pd.sub.claim(op, LimitMW, pd); err != nil {
		return nil, err
	}
	mw := &MW{dev: d, pd: pd, typ: typ}
	mw.key.mw = mw
	mw.mu.Lock()
	defer mw.mu.Unlock()
	mw.rkey = d.keys.insert(&mw.key, d.random.index)<<variantBits | d.random.uint32()&variantMask
	return mw, nil
}

// RKey returns the window's present key, which each bind changes.
func (mw *MW) RKey() wire.RKey {
	mw.mu.Lock()
	defer mw.mu.Unlock()
	return wire.RKey(mw.rkey)
}

// Type is the window's type.
func (mw *MW) Type() MWType { return mw.typ }

// Dealloc frees the window, bound or not (ibv_dealloc_mw).
func (mw *MW) Dealloc() error {
	mw.mu.Lock()
	if mw.dead {
		mw.mu.Unlock()
		return opErr("DeallocMW", "mw", ErrClosed)
	}
	mw.dead = true
	mw.set(nil)
	index := mw.rkey >> variantBits
	mw.mu.Unlock()
	mw.dev.settleLate(mw.pd)
	mw.dev.keys.remove(index)
	mw.pd.sub.unclaim(LimitMW, mw.pd)
	return nil
}

func (k *keyObject) closeWindow() {
	if k.mw != nil {
		_ = k.mw.Dealloc() // may be gone already
	}
}

// set replaces the binding, and updates the counts of the regions and QPs. The
// caller holds mw.mu. An access that the old binding has already granted goes on:
// it came first, and its region stays.
func (mw *MW) set(b *binding) {
	if b != nil && b.qp != nil {
		b.qp.windows.Add(1)
	}
	if old := mw.bound.Swap(b); old != nil {
		if old.qp != nil {
			old.qp.windows.Add(-1)
		}
		old.mr.mu.Lock()
		old.mr.windows--
		old.mr.mu.Unlock()
	}
}

// access checks a range. If access is granted, it keeps the region in use.
func (mw *MW) access(q *QP, pd *PD, key uint32, va, n uint64, need Access) (regionRef, keyReason) {
	b := mw.bound.Load()
	if b == nil {
		return regionRef{}, keyState
	}
	if r := b.check(q, pd, key, va, n, need); r != keyOK {
		return regionRef{}, r
	}
	// The region dies only after the window has been unbound from it.
	if !b.reg.uses.acquire() {
		return regionRef{}, keyState
	}
	return regionRef{mr: b.mr, reg: b.reg, mem: b.reg.mem, va: b.addr + (va - b.base)}, keyOK
}

// bindMW executes a BIND MW work request (IBA 10.6.7.2).
func (q *QP) bindMW(b *MWBind) WCStatus {
	if b == nil {
		return WCMWBindErr
	}
	why := keyNotFound
	if b.MW != nil {
		why = b.MW.bind(q, b)
	}
	if why != keyOK {
		q.refuseKey(uint32(b.RKey), b.Addr, b.Length, b.Access, why)
		return WCMWBindErr
	}
	return WCSuccess
}

func (mw *MW) bind(q *QP, b *MWBind) keyReason {
	if mw.pd != q.pd { // C10-72
		return keyPD
	}
	return mw.bindTo(q, b)
}

// BindTo binds the window for a queue pair without a work request. An XRC target, which has no send
// queue, gets a key so that its peer can invalidate.
func (mw *MW) BindTo(q *QP, b *MWBind) error {
	if mw.bindTo(q, b) != keyOK {
		return invalid("BindMW", "bind_mw", "the window, its region or the range cannot be bound", "see IBA 10.6.7.2")
	}
	return nil
}

func (mw *MW) bindTo(q *QP, b *MWBind) keyReason {
	mw.mu.Lock()
	defer mw.mu.Unlock()
	switch {
	case mw.dead:
		return keyNotFound
	case mw.typ == MWType2 && mw.bound.Load() != nil: // o10-37.2.30
		return keyState
	}
	key := mw.rkey&^variantMask | uint32(b.RKey)&variantMask
	if mw.typ == MWType1 && b.RKey == 0 {
		key = nextVariant(mw.rkey)
	}
	var next *binding
	if b.Length == 0 {
		if mw.typ == MWType2 { // o10-37.2.40: LOCAL INV does that
			return keyRange
		}
	} else {
		var r keyReason
		if next, r = mw.newBinding(q, b, key); r != keyOK {
			return r
		}
	}
	mw.rkey = key
	mw.set(next)
	return keyOK
}

// newBinding checks the region's side of a bind and counts the window on the
// region.
func (mw *MW) newBinding(q *QP, b *MWBind, key uint32) (*binding, keyReason) {
	const rights = AccessRemoteWrite | AccessRemoteRead | AccessRemoteAtomic | AccessZeroBased |
		AccessFlushGlobal | AccessFlushPersist | accessOptional
	if b.MR == nil || b.MR.dev != mw.dev {
		return nil, keyNotFound
	}
	if b.Access&^rights != 0 || (mw.typ == MWType1 && b.Access&AccessZeroBased != 0) { // o10-36.2.2
		return nil, keyAccess
	}
	b.MR.mu.Lock()
	defer b.MR.mu.Unlock()
	reg := b.MR.reg.Load()
	if reg == nil {
		return nil, keyNotFound
	}
	need := AccessMWBind // C10-73
	if b.Access&accessRemoteWrites != 0 {
		need |= AccessLocalWrite // C10-74
	}
	if r := reg.check(q, mw.pd, reg.key, b.Addr, b.Length, need); r != keyOK { // C10-75
		return nil, r
	}
	if reg.access&AccessZeroBased != 0 {
		return nil, keyType
	}
	n := &binding{
		extent: extent{key: key, pd: mw.pd, base: b.Addr, length: b.Length, access: b.Access},
		mr:     b.MR,
		reg:    reg,
		addr:   reg.addr + (b.Addr - reg.base),
	}
	if b.Access&AccessZeroBased != 0 {
		n.base = 0
	}
	if mw.typ == MWType2 {
		n.qp = q
	}
	b.MR.windows++
	return n, keyOK
}

// localInvalidate executes a LOCAL INV work request.
func (q *QP) localInvalidate(rkey wire.RKey) WCStatus {
	if why := q.invalidate(rkey); why != keyOK {
		q.refuseKey(uint32(rkey), 0, 0, 0, why)
		return WCMWBindErr // memory management operation error
	}
	return WCSuccess
}

// remoteInvalidate executes the invalidation of a SEND with invalidate. The caller
// has released its regionRefs.
func (q *QP) remoteInvalidate(rkey wire.RKey) keyReason { return q.invalidate(rkey) }

// invalidate frees a bound type 2 window of this QP. Type 1 windows cannot be
// invalidated. Neither can regions, because gorxe has no fast registration (IBA
// 10.6.5, o10-37.2.26).
func (q *QP) invalidate(rkey wire.RKey) keyReason {
	k := q.dev.lookupKey(uint32(rkey))
	switch {
	case k == nil:
		return keyNotFound
	case k.mw == nil || k.mw.typ != MWType2:
		return keyType
	}
	mw := k.mw
	mw.mu.Lock()
	defer mw.mu.Unlock()
	b := mw.bound.Load()
	if b == nil {
		return keyState
	}
	if r := b.check(q, q.pd, uint32(rkey), b.base, 0, 0); r != keyOK {
		return r
	}
	mw.set(nil)
	return keyOK
}
