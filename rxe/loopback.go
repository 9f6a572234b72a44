package rxe

import (
	"net/netip"

	"github.com/gorxe/gorxe/wire"
)

// Packets between QPs of one device do not reach the network. The thread that
// sends them has locked the sender's QP, so it only leaves a copy in the
// receiver's inbox (inbox.go). Once it has unlocked the sender, it runs that inbox
// (run_queue.go). One thread at a time runs an inbox, so packets are handled in
// the order in which they were sent.

// transmit sends the outbox's bursts on their way.
func (d *Device) transmit(st *step) {
	if f := d.intercept.Load(); f != nil && (*f).Wants(st.bursts) {
		(*f).Send(st.bursts)
		return
	}
	if d.deliverWhole(st) {
		return
	}
	if rest := d.Loopback(st.bursts); len(rest) > 0 {
		d.cfg.Link.Send(rest)
	}
}

// deliverWhole gives the outbox's memory to the inbox of a QP of this device, if all that the
// outbox holds is a large burst for this QP. So the burst is not copied. The outbox gets other
// memory.
func (d *Device) deliverWhole(st *step) bool {
	b := &st.bursts[0]
	if len(st.bursts) > 1 || st.wide() || len(b.Buf) <= smallItemBytes || d.tapped() || b.Damage != 0 || !d.localGID(b.Route.Dst) {
		return false
	}
	dest := destQP(b.Buf)
	for at := b.Seg; at < len(b.Buf); at += b.Seg {
		if destQP(b.Buf[at:]) != dest { // UD packets over one address handle
			return false
		}
	}
	item := newItem(largeItemBytes)
	item.store, st.buf = st.buf[:cap(st.buf)], item.store[:0]
	item.buf = b.Buf
	item.divide(b.Seg, b.Route)
	d.enqueueLocal(dest, item)
	return true
}

// Interceptor gets packets that the device sends, also those between its own QPs, one by one.
type Interceptor interface {
	// Send passes packets on with Loopback and with the link. It is called as Link.Send is.
	Send(bursts []wire.Burst)
	// Concerns reports whether Send gets the packets from the QP src to dest, which is 0 if it is
	// not one of this device. For other packets the device goes its fast ways. It is called with a
	// QP locked, for each message, and must not block.
	Concerns(src, dest wire.QPN) bool
	// Wants reports whether Concerns is true for one of the packets.
	Wants(bursts []wire.Burst) bool
}

// Intercept gives packets to f. A nil f ends that: then packets between QPs of the device need not
// be formed. Packets that were on their way go the old way.
func (d *Device) Intercept(f Interceptor) {
	if f == nil {
		d.intercept.Store(nil)
		return
	}
	d.intercept.Store(&f)
}

// intercepted reports whether the interceptor gets the packets between two QPs; dest is 0 if it is
// not one of this device.
func (d *Device) intercepted(src, dest wire.QPN) bool {
	f := d.intercept.Load()
	return f != nil && (*f).Concerns(src, dest)
}

// intercepted reports whether the interceptor gets what a connected QP sends to its peer on this
// device.
func (q *QP) intercepted() bool { return q.dev.intercepted(q.qpn, q.attr.DestQPN) }

// Loopback queues the packets that are for QPs of this device in their inboxes. It
// returns the bursts that the network has to carry, in order and in the same slice;
// a multicast burst is both. Intercept's function calls it. It
// may be called with a QP locked. A caller outside of that function calls Deliver
// afterwards.
func (d *Device) Loopback(bursts []wire.Burst) (network []wire.Burst) {
	remote := 0 // bursts[:remote] go to the network
	var dst netip.Addr
	local := false
	for i := range bursts {
		b := &bursts[i]
		if b.Route.Dst != dst {
			dst = b.Route.Dst
			local = d.localGID(dst)
		}
		switch {
		case dst.IsMulticast():
			d.multicastLocal(b)
		case local:
			d.deliverLocal(b)
			continue
		}
		bursts[remote] = *b
		remote++
	}
	return bursts[:remote]
}

// deliverLocal splits a burst by destination QP: UD packets over one address
// handle may go to several.
func (d *Device) deliverLocal(b *wire.Burst) {
	if t := d.tap.Load(); t != nil {
		t.Packets(b)
	}
	if b.Damage != 0 {
		d.counters.BadICRC.Add(uint64(b.N()))
		return
	}
	for from := 0; from < len(b.Buf); {
		to := min(from+b.Seg, len(b.Buf))
		if to-from < wire.BTHLen+wire.ICRCLen { // Intercept's function has cut it short
			d.counters.Malformed.Add(1)
			from = to
			continue
		}
		dest := destQP(b.Buf[from:])
		for to-from >= b.Seg && len(b.Buf)-to >= wire.BTHLen+wire.ICRCLen && destQP(b.Buf[to:]) == dest {
			to = min(to+b.Seg, len(b.Buf))
		}
		d.enqueueLocal(dest, itemFromBurst(b.Buf[from:to], b.Seg, b.Route))
		from = to
	}
}

// enqueueLocal queues an item for a QP of this device, or for the handler of queue
// pair 1.
func (d *Device) enqueueLocal(dest wire.QPN, item *inboxItem) {
	if dest == GSIQPN && d.cfg.GSI != nil {
		d.enqueueGSI(item)
		return
	}
	if q := d.lookupQP(dest); q != nil {
		q.enqueue(item)
		return
	}
	d.counters.BadQPN.Add(uint64(item.count()))
	item.free()
}

// multicastLocal gives every attached QP of this device, the sender's own included,
// its copy (IBA 10.5.2.1), but not one that wants none of its own.
func (d *Device) multicastLocal(b *wire.Burst) {
	if b.Damage != 0 {
		return // every copy is dropped
	}
	from := sourceQP(b.Buf)
	for _, q := range d.mcastMembers(wire.GIDFromAddr(b.Route.Dst)) {
		if q.facts.blockSelf && q.qpn == from {
			continue
		}
		q.enqueue(itemFromBurst(b.Buf, b.Seg, b.Route))
	}
}

// sourceQP reads the source QPN of a datagram (IBA 9.3.1); 0: the packet is too short.
func sourceQP(b []byte) wire.QPN {
	if len(b) < wire.BTHLen+wire.DETHLen {
		return 0
	}
	b = b[wire.BTHLen:]
	return wire.QPN(uint32(b[5])<<16 | uint32(b[6])<<8 | uint32(b[7]))
}

// destQP reads the destination QPN of a packet (IBA 9.2).
func destQP(b []byte) wire.QPN {
	return wire.QPN(uint32(b[5])<<16 | uint32(b[6])<<8 | uint32(b[7]))
}
