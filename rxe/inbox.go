package rxe

import "github.com/gorxe/gorxe/wire"

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
	charged int           // bytes of a deferred item that count in pools.deferred
	frame   FrameInfo     // of a frame, for a QPRaw
	// counted: the device's counters include the packets already.
	counted bool
}

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
	if q.facts.frames != nil {
		q.unpackFrame(item, st)
		return
	}
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
	pool, size := &q.dev.pools.inboxes, item.memory()
	limit := pool.take(size, q.reliable)
	full, list := q.gate.enqueue(item, limit)
	if full {
		pool.give(size)
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
	q.tallies.stats.Dropped.Add(n)
	q.dev.counters.InboxFull.Add(n)
	item.free()
}

// runInbox works through what was queued, as one visit. The caller has locked the
// QP.
func (q *QP) runInbox(st *step) {
	in, due := q.gate.takeInbox()
	q.dev.pools.inboxes.give(in.bytes)
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
