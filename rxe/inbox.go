package rxe

import (
	"sync"

	"github.com/gorxe/gorxe/wire"
)

// inboxItem holds packets of one flow, or one super-packet, in a QP's inbox.
type inboxItem struct {
	next    *inboxItem // in the inbox
	store   []byte     // where buf is
	buf     []byte
	ends    []int32       // end of each packet in buf
	trailer int           // bytes between packets
	from    wire.Datagram // all but Data
	super   superPacket   // how a super-packet was made, which fills all of buf
	at      int           // packets that were executed, of a deferred item
	charged int           // bytes of a deferred item that count in runQueue.deferredBytes
	// counted: the device's counters include the packets already.
	counted bool
}

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

// memory returns how many bytes the item uses up of an inbox's limit.
func (item *inboxItem) memory() int { return len(item.store) + endBytes*cap(item.ends) }

// count returns how many packets the item holds or stands for.
func (item *inboxItem) count() int { return len(item.ends) + int(item.super.count) }

// datagramFor returns a packet on a route, without its data.
func datagramFor(r *wire.Route) wire.Datagram {
	return wire.Datagram{Src: r.Src, Dst: r.Dst, SrcPort: r.SrcPort,
		TrafficClass: r.TrafficClass, HopLimit: r.HopLimit, SrcQP: r.SrcQP}
}

// itemFromBurst copies packets that this device built. Each takes seg bytes, with
// the room for its ICRC.
func itemFromBurst(buf []byte, seg int, r *wire.Route) *inboxItem {
	item := newItem(len(buf))
	item.buf = append(item.buf, buf...)
	item.divide(seg, r)
	return item
}

// divide says that buf holds packets of a route. Each takes seg bytes, with the room for its ICRC.
func (item *inboxItem) divide(seg int, r *wire.Route) {
	item.trailer = wire.ICRCLen
	item.from = datagramFor(r)
	for at := 0; at < len(item.buf); at += seg {
		item.ends = append(item.ends, int32(min(at+seg, len(item.buf))-wire.ICRCLen))
	}
}

// itemFromDatagram begins an item with a received packet.
func itemFromDatagram(dg *wire.Datagram) *inboxItem {
	item := newItem(itemPackets * len(dg.Data)) // more may follow
	item.from = *dg
	item.from.Data = nil
	item.counted = true
	item.ends = append(item.ends, int32(len(dg.Data)))
	item.buf = append(item.buf, dg.Data...)
	return item
}

// extend adds a received packet if it came the same way and fits.
func (item *inboxItem) extend(dg *wire.Datagram) bool {
	f := &item.from
	if len(item.buf)+len(dg.Data) > cap(item.buf) || f.Src != dg.Src || f.Dst != dg.Dst ||
		f.SrcPort != dg.SrcPort || f.TrafficClass != dg.TrafficClass || f.HopLimit != dg.HopLimit {
		return false
	}
	item.buf = append(item.buf, dg.Data...)
	item.ends = append(item.ends, int32(len(item.buf)))
	return true
}

// unpack handles the packets of an item. The caller has locked the QP.
func (q *QP) unpack(item *inboxItem, st *step) {
	dg := item.from
	at := 0
	for _, end := range item.ends {
		dg.Data = item.buf[at:end]
		at = int(end) + item.trailer
		pkt, err := wire.Parse(dg.Data)
		if err != nil { // a link that sees loopback has damaged it
			q.dev.counters.Malformed.Add(1)
			continue
		}
		q.packet(pkt, &dg, st)
	}
	if !item.counted {
		q.dev.counters.RcvdPkts.Add(uint64(len(item.ends)))
	}
}

// inbox is a queue of items.
type inbox struct {
	first, last *inboxItem
	bytes       int // of memory
}

func (in *inbox) add(item *inboxItem) {
	if in.last == nil {
		in.first = item
	} else {
		in.last.next = item
	}
	in.last = item
	in.bytes += item.memory()
}

// free frees all items. Nothing may refer to their bytes any more.
func (in *inbox) free() {
	for item := in.first; item != nil; {
		next := item.next
		item.free()
		item = next
	}
}

// enqueue puts an item into the inbox, or drops it when the inbox is full. It puts
// the QP on the run queue, unless a thread has locked the QP: that thread looks
// into the inbox before it unlocks.
func (q *QP) enqueue(item *inboxItem) {
	all, size := &q.dev.runQueue.inboxBytes, int64(item.memory())
	limit := inboxLimit
	switch have := all.Add(size); {
	case have > inboxesScarceAbove:
		limit = inboxLimitScarce
	case have <= inboxLimitUnreliable && q.typ != QPRC:
		limit = inboxLimitUnreliable
	}
	full, list := q.gate.enqueue(item, limit)
	if full {
		all.Add(-size)
		q.dropOverrun(item)
		return
	}
	if list {
		q.dev.runQueue.add(q)
	}
}

func (g *gate) enqueue(item *inboxItem, limit int) (full, list bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed || g.inbox.bytes+item.memory() > limit {
		return true, false
	}
	g.inbox.add(item)
	g.queuedBytes.Store(int64(g.inbox.bytes))
	list = g.state.Or(gateQueued)&gateLocked == 0 && !g.listed
	g.listed = g.listed || list
	return false, list
}

// dropOverrun counts an item that did not fit, and frees it.
func (q *QP) dropOverrun(item *inboxItem) {
	n := uint64(item.count())
	q.stats.Dropped.Add(n)
	q.dev.counters.InboxFull.Add(n)
	item.free()
}

// runInbox works through what was queued, as one visit. The caller has locked the
// QP.
func (q *QP) runInbox(st *step) {
	in, due := q.gate.takeInbox()
	q.dev.runQueue.inboxBytes.Add(int64(-in.bytes))
	var done inbox // its bytes are used until the visit ends
	for item := in.first; item != nil; {
		next := item.next
		item.next = nil
		switch {
		case item.super.count == 0:
			q.unpack(item, st)
			done.add(item)
		case q.deferSuperPacket(item, st):
		case q.receiveSuperPacket(item, st):
			done.add(item)
		default:
			cut := item.segment()
			q.unpack(cut, st)
			done.add(item)
			done.add(cut)
		}
		item = next
	}
	if due {
		st.now = q.dev.cfg.Clock.Now()
		q.deadlines(st)
	}
	q.endVisit(st)
	done.free()
}
