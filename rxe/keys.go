package rxe

import (
	"sync/atomic"

	"github.com/gorxe/gorxe/wire"
)

// A key is a 24-bit index, drawn at random, above a variant byte in its low bits.
// The variant changes with each use of the index, so that a stale key is refused
// (IBA 10.6.3.3). Regions and windows share the indices.
const (
	variantBits = 8 // IBA 10.6.3.3
	variantMask = 1<<variantBits - 1
)

// keyReason says why a key gives no access. keyOK says that it does.
type keyReason uint8

const (
	keyOK       keyReason = iota
	keyNotFound           // no region or window has this index
	keyVariant            // stale: the variant byte differs
	keyState              // the window is not bound
	keyType               // a window where a region must be named, or the reverse
	keyPD                 // of another protection domain
	keyQP                 // a type 2 window bound on another QP
	keyAccess             // the right was not granted
	keyRange              // part of the range lies outside
)

var keyReasonNames = [...]string{
	keyOK:       "ok",
	keyNotFound: "no such key",
	keyVariant:  "stale key",
	keyState:    "window not bound",
	keyType:     "wrong kind of object",
	keyPD:       "wrong protection domain",
	keyQP:       "window bound on another QP",
	keyAccess:   "right not granted",
	keyRange:    "outside the range",
}

func (r keyReason) String() string {
	if int(r) < len(keyReasonNames) {
		return keyReasonNames[r]
	}
	return "unknown"
}

// keyObject is what a key index finds: a region or a window.
type keyObject struct {
	mr *MR
	mw *MW
}

func (d *Device) lookupKey(key uint32) *keyObject { return d.keys.lookup(key >> variantBits) }

// regionRef refers to a checked range of a region, and keeps the region from being
// deregistered until it is released. The zero regionRef is that of an empty range,
// which names no memory.
// That of DeviceAttr.NullLKey has memory and no region.
type regionRef struct {
	mr  *MR
	reg *region
	mem Memory
	va  uint64 // in mem
}

// release ends the access. It may be called once.
func (ref *regionRef) release() {
	if ref.reg != nil {
		ref.reg.uses.release()
		*ref = regionRef{}
	}
}

// extent is a range of addresses with rights. Regions and bound windows have one,
// and the check below looks at nothing else.
type extent struct {
	key    uint32 // with the variant byte
	pd     *PD
	qp     *QP    // type 2 windows: the only QP that may use the window; else nil
	base   uint64 // first address, as peers and work requests name it
	length uint64 // base+length does not pass 2^64
	access Access
}

// check decides alone whether a key gives access: may q use need on n bytes at va,
// through an extent found under key? pd is the domain of the queue whose work request is
// executed. Every requested right must be granted (IBA 10.6.3).
func (e *extent) check(q *QP, pd *PD, key uint32, va, n uint64, need Access) keyReason {
	off := va - e.base // wraps to more than length if va < base
	switch {
	case e.key != key:
		return keyVariant
	case e.pd != pd:
		return keyPD
	case e.qp != nil && e.qp != q:
		return keyQP
	case e.access&need != need:
		return keyAccess
	case off > e.length || n > e.length-off:
		return keyRange
	}
	return keyOK
}

// recvPD returns the domain of the receive queue: the SRQ's own, if there is one, because the
// SRQ's receives serve queue pairs of several domains (IBA 10.2.9.1).
func (q *QP) recvPD() *PD {
	if q.srq != nil {
		return q.srq.pd
	}
	return q.pd
}

// localAccess checks a piece of a scatter/gather list. pd is q.pd, or recvPD for a receive. need is
// 0 to read, and AccessLocalWrite to write. An empty piece is not checked.
func (q *QP) localAccess(pd *PD, s SGE, need Access) (regionRef, keyReason) {
	if s.Length == 0 {
		return regionRef{}, keyOK
	}
	ref, why := q.localKey(pd, s, need)
	q.checked(uint32(s.LKey), s.Addr, uint64(s.Length), need, why)
	return ref, why
}

func (q *QP) localKey(pd *PD, s SGE, need Access) (regionRef, keyReason) {
	k := q.dev.lookupKey(uint32(s.LKey))
	if k == nil {
		if s.LKey != 0 && s.LKey == q.dev.whole.attr.NullLKey {
			return regionRef{mem: nullMemory{}, va: s.Addr}, keyOK
		}
		return regionRef{}, keyNotFound
	}
	if k.mr == nil {
		return regionRef{}, keyType
	}
	return k.mr.access(q, pd, uint32(s.LKey), s.Addr, uint64(s.Length), need)
}

// remoteAccess checks the range that a request names. pd is the domain of the queue pair when it
// took the request. need is one or more of the remote rights and the flush rights. An empty range
// is not checked (C9-88).
func (q *QP) remoteAccess(pd *PD, rkey wire.RKey, va, n uint64, need Access) (regionRef, keyReason) {
	if n == 0 {
		return regionRef{}, keyOK
	}
	ref, why := q.remoteKey(pd, rkey, va, n, need)
	q.checked(uint32(rkey), va, n, need, why)
	return ref, why
}

// checked notes what a key allows, or refuses.
func (q *QP) checked(key uint32, va, n uint64, need Access, why keyReason) {
	if why != keyOK {
		q.refuseKey(key, va, n, need, why)
	} else if q.observer != nil {
		q.observer.Accessed(q, key, va, n, need)
	}
}

func (q *QP) remoteKey(pd *PD, rkey wire.RKey, va, n uint64, need Access) (regionRef, keyReason) {
	k := q.dev.lookupKey(uint32(rkey))
	if k == nil {
		return regionRef{}, keyNotFound
	}
	if k.mw != nil {
		return k.mw.access(q, pd, uint32(rkey), va, n, need)
	}
	return k.mr.access(q, pd, uint32(rkey), va, n, need)
}

// useCount counts the accesses in flight, so that a thread that ends an object's
// life can wait for them. Once it is dying it admits no more.
type useCount struct {
	n       atomic.Int64
	drained chan struct{} // made before dying is set
}

func (u *useCount) acquire() bool {
	for {
		n := u.n.Load()
		if n&useDying != 0 {
			return false
		}
		if u.n.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

func (u *useCount) release() {
	if u.n.Add(-1) == useDying {
		close(u.drained)
	}
}

// drain refuses further uses and waits until the last one has ended. It may be
// called once.
func (u *useCount) drain() {
	u.drained = make(chan struct{})
	if u.n.Add(useDying) != useDying {
		<-u.drained
	}
}
