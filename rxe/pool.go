package rxe

import (
	"sync"
	"sync/atomic"
)

// Packets wait for a QP that is locked, for READs that come before them, or because chaos wants it.
// Each kind has a pool, which counts their memory, of all QPs of the device. Their bytes are in
// items.

// pools are those of a device.
type pools struct{ inboxes, deferred, late pool }

// pool counts memory, in bytes.
type pool struct {
	used atomic.Int64
	ladder
}

// ladder are the limits for what one QP may have in a pool, by what all have. Only QPs whose
// threads are blocked by program memory get to the lower ones.
type ladder struct {
	each          int64
	eachPlentiful int64 // for UC and UD, up to plentiful; 0: each
	plentiful     int64
	eachScarce    int64 // above scarceAbove
	scarceAbove   int64
	most          int64 // above it nobody may have more; 0: no such limit
}

func (p *pools) init() {
	p.inboxes.ladder = ladder{each: inboxLimit, eachPlentiful: inboxLimitUnreliable, plentiful: inboxLimitUnreliable,
		eachScarce: inboxLimitScarce, scarceAbove: inboxesScarceAbove}
	p.deferred.ladder = ladder{each: deferredLimit, eachScarce: deferredLimitScarce, scarceAbove: deferredScarceAbove, most: deferredLimitAll}
	p.late.ladder = ladder{each: lateWritesLimit, eachScarce: lateWritesLimit, scarceAbove: lateWritesLimitAll, most: lateWritesLimitAll}
}

// take takes n bytes. It returns how many a QP may have in all. One that would have more gives them
// back.
func (p *pool) take(n int, reliable bool) (limit int) {
	switch have := p.used.Add(int64(n)); {
	case p.most != 0 && have > p.most:
		return 0
	case have > p.scarceAbove:
		return int(p.eachScarce)
	case have <= p.plentiful && !reliable:
		return int(p.eachPlentiful)
	default:
		return int(p.each)
	}
}

func (p *pool) give(n int) { p.used.Add(-int64(n)) }

var (
	smallItems = sync.Pool{New: func() any { return &inboxItem{store: make([]byte, smallItemBytes)} }}
	largeItems = sync.Pool{New: func() any { return &inboxItem{store: make([]byte, largeItemBytes)} }}
)

// newItem returns an empty item with room for n bytes, or for the most that there
// can be.
func newItem(n int) *inboxItem {
	pool := &largeItems
	if n <= smallItemBytes {
		pool = &smallItems
	}
	item := pool.Get().(*inboxItem)
	item.buf, item.ends = item.store[:0], item.ends[:0]
	item.next, item.at, item.trailer, item.counted, item.super = nil, 0, 0, false, superPacket{}
	return item
}

// free gives the item back. Nothing may refer to its bytes any more.
func (item *inboxItem) free() {
	item.next = nil
	if len(item.store) > smallItemBytes {
		largeItems.Put(item)
	} else {
		smallItems.Put(item)
	}
}

// memory returns how many bytes the item uses up of a pool.
func (item *inboxItem) memory() int { return len(item.store) + endBytes*cap(item.ends) }
