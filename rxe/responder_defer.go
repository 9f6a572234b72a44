package rxe

import "github.com/gorxe/gorxe/wire"

// READ responses read memory when they are sent. So a request that changes memory
// waits until earlier READs have been answered (IBA 9.5). The kernel's rxe_resp.c
// finishes a READ before it takes the next request, too. That may take long: a READ
// has up to 2 GiB, and the responder sends it in quanta. The thread that received the request
// also receives the packets of other QPs, so it does not wait. It keeps the request,
// and those that follow it, and the thread that sends the last READ response
// executes them.
//
// Only requests in sequence are kept. A duplicate of an executed request changes no
// memory and is answered at once, and a response to this QP's own requests is not
// delayed either.

// deferral holds requests that wait for READs, in sequence.
type deferral struct {
	list    inbox
	next    wire.PSN // of the request that may follow the list
	running bool     // the list is being executed
	gap     bool     // a request beyond next came: the peer must send next again
	again   bool     // a request in the list came again: its peer wants an ACK
	psn     wire.PSN // of that request
}

func (d *deferral) empty() bool { return d.list.first == nil }

// readsWait reports whether the responses to a READ wait.
func (r *responder) readsWait() bool {
	for i := range r.queue {
		if r.queue[i].kind == respondRead {
			return true
		}
	}
	return false
}

// followsReads reports whether a request must not be executed before earlier READs
// are answered.
func followsReads(info *wire.OpInfo) bool { return !info.Has(wire.OpRead | wire.OpFlush) }

// mustWait reports whether a request has to wait for READs. It first sends as many
// READ responses as may be sent now.
func (r *responder) mustWait(q *QP, pkt packet, st *step) bool {
	d := &r.deferred
	switch ahead := pkt.PSN().Diff(r.psn); {
	case d.running || r.ending || ahead < 0:
		return false
	case !d.empty():
		return true
	case len(r.queue) == 0 || ahead > 0:
		return false
	}
	return r.readsBefore(q, pkt.Info(), st)
}

// readsBefore reports whether READs must be answered before a request of this kind.
// It first sends what may be sent now.
func (r *responder) readsBefore(q *QP, info *wire.OpInfo, st *step) bool {
	if !followsReads(info) || !r.readsWait() {
		return false
	}
	r.sendResponses(q, st)
	return q.attr.State != QPErr && r.readsWait()
}

// mayDefer reports whether a request that must wait is the next one in sequence. It
// notes what the peer has to be told about others.
func (r *responder) mayDefer(q *QP, pkt packet, st *step) bool {
	d := &r.deferred
	if d.empty() {
		d.next, d.gap, d.again = r.psn, false, false
	}
	switch ahead := pkt.PSN().Diff(d.next); {
	case ahead > 0:
		d.gap = true
		q.dev.counters.OutOfSeqDrop.Add(uint64(pkt.count))
	case ahead < 0:
		q.dev.counters.DuplicateRequest.Add(uint64(pkt.count))
		q.tallies.stats.Duplicates.Add(uint64(pkt.count))
		if pkt.Info().Has(messageKind) {
			d.again, d.psn = true, pkt.PSN()
		}
		r.dropOutdated(len(r.queue), st.now)
	default:
		return true
	}
	return false
}

// deferCopy keeps a copy of the packet, whose bytes belong to the link.
func (r *responder) deferCopy(q *QP, pkt packet, dg *wire.Datagram) {
	d := &r.deferred
	if last := d.list.last; last == nil || last.super.count > 0 || !last.extend(dg) {
		if !r.deferItem(q, itemFromDatagram(dg)) {
			return
		}
	}
	d.follow(q, pkt)
}

// deferItem keeps an item, or drops it when there is no room.
func (r *responder) deferItem(q *QP, item *inboxItem) bool {
	pool, size := &q.dev.pools.deferred, item.memory()
	if limit := pool.take(size, true); r.deferred.list.bytes+size > limit {
		pool.give(size)
		q.dropOverrun(item)
		return false
	}
	item.charged = size
	r.deferred.list.add(item)
	return true
}

// deferSuperPacket defers a super-packet that must wait for READs, and reports
// whether it must.
func (q *QP) deferSuperPacket(item *inboxItem, st *step) bool {
	r := &q.resp
	if len(r.queue) == 0 && r.deferred.empty() {
		return false
	}
	whole, err := wire.Parse(item.buf)
	if err != nil || !whole.Info().Has(wire.OpRequest) || q.refusal(whole, &item.from) != nil {
		return false
	}
	pkt := packet{whole, item.super.count}
	if item.super.mtu != q.mtu() || !r.mustWait(q, pkt, st) {
		return false
	}
	if !r.mayDefer(q, pkt, st) {
		item.free()
	} else if r.deferItem(q, item) {
		r.deferred.follow(q, pkt)
	}
	return true
}

// follow moves next past a request that was deferred.
func (d *deferral) follow(q *QP, pkt packet) {
	count := pkt.count
	if pkt.Info().Has(wire.OpRead) && uint64(pkt.DMALen()) <= q.maxMessage {
		count = readPackets(pkt.DMALen(), q.mtu())
	}
	d.next, d.gap = d.next.Add(count), false
}

// pop takes the first item off the list.
func (d *deferral) pop() *inboxItem {
	item := d.list.first
	d.list.first = item.next
	if item.next = nil; d.list.first == nil {
		d.list.last = nil
	}
	return item
}

// putBack puts an item that pop returned before the others again.
func (d *deferral) putBack(item *inboxItem) {
	item.next = d.list.first
	d.list.first = item
	if d.list.last == nil {
		d.list.last = item
	}
}

// release takes an item's memory off the account and frees it. Nothing may refer to
// its bytes any more.
func (r *responder) release(q *QP, item *inboxItem) {
	r.deferred.list.bytes -= item.charged
	q.dev.pools.deferred.give(item.charged)
	item.free()
}

// dropDeferred forgets all deferred requests.
func (r *responder) dropDeferred(q *QP) {
	for !r.deferred.empty() {
		r.release(q, r.deferred.pop())
	}
}

// runDeferred executes deferred requests until one has to wait again. It reports
// whether it executed any.
func (r *responder) runDeferred(q *QP, st *step) (some bool) {
	d := &r.deferred
	if d.empty() {
		return false
	}
	var done inbox
	for waits := false; !waits && !d.empty(); {
		item := d.pop()
		before := item.at
		if waits = !r.runItem(q, item, st); waits && q.attr.State != QPErr {
			some = some || item.at > before
			d.putBack(item)
			break
		}
		some = true
		done.add(item)
	}
	if d.empty() {
		r.endDeferred(q, st)
	}
	r.flushPayload(q, st)
	for item := done.first; item != nil; {
		next := item.next
		r.release(q, item)
		item = next
	}
	return some
}

// runItem executes the requests of a deferred item. It reports false when one has to
// wait again; the item remembers which.
func (r *responder) runItem(q *QP, item *inboxItem, st *step) bool {
	d := &r.deferred
	if item.super.count > 0 {
		return r.runSuperPacket(q, item, st)
	}
	dg := item.from
	for item.at < len(item.ends) {
		start := 0
		if item.at > 0 {
			start = int(item.ends[item.at-1])
		}
		dg.Data = item.buf[start:item.ends[item.at]]
		pkt, err := wire.Parse(dg.Data)
		if err == nil && r.readsBefore(q, pkt.Info(), st) {
			return false
		}
		item.at++
		if err != nil || q.refusal(pkt, &dg) != nil {
			q.tallies.stats.Dropped.Add(1) // the QP has failed since
			continue
		}
		d.running = true
		r.request(q, packet{pkt, 1}, &dg, st)
		d.running = false
	}
	return true
}

// runSuperPacket is runItem for a super-packet.
func (r *responder) runSuperPacket(q *QP, item *inboxItem, st *step) bool {
	pkt, err := wire.Parse(item.buf)
	if err == nil && r.readsBefore(q, pkt.Info(), st) {
		return false
	}
	r.deferred.running = true
	if !q.receiveSuperPacket(item, st) {
		cut := item.segment()
		q.unpack(cut, st)
		r.flushPayload(q, st)
		cut.free()
	}
	r.deferred.running = false
	return true
}

// endDeferred tells the peer what it has to know once nothing is deferred any more.
func (r *responder) endDeferred(q *QP, st *step) {
	d := &r.deferred
	if q.attr.State == QPErr || r.ending {
		return
	}
	if d.gap {
		r.nakSequence(q, st)
	}
	// A response behind that request has acknowledged it already.
	if last := r.psn.Sub(1); d.again && !r.nakSent && r.history.before(d.psn, r.psn) == last {
		r.ack = acking{owed: true}
	}
}
