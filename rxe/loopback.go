package rxe

import (
	"net/netip"

	"github.com/gorxe/gorxe/wire"
)

// Packets between QPs of one device never reach the link. The sender, with its
// own QP locked, leaves a copy in the receiver's inbox; after that lock is
// dropped the inbox is run. One thread at a time runs an inbox, so the order
// is the order of sending.

// transmit sends the outbox's bursts on their way.
func (d *Device) transmit(o *outbox) {
	remote := 0 // bursts[:remote] go to the link
	var dst netip.Addr
	local := false
	for i := range o.bursts {
		b := &o.bursts[i]
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
		o.bursts[remote] = *b
		remote++
	}
	if remote > 0 {
		d.cfg.Link.Send(o.bursts[:remote])
	}
}

// deliverLocal splits a burst by destination QP: UD packets over one address
// handle may go to several.
func (d *Device) deliverLocal(b *wire.Burst) {
	if d.cfg.Tap != nil {
		d.cfg.Tap(b)
	}
	for from := 0; from < len(b.Buf); {
		to := from + b.Seg
		dest := destQP(b.Buf[from:])
		for to < len(b.Buf) && destQP(b.Buf[to:]) == dest {
			to += b.Seg
		}
		to = min(to, len(b.Buf))
		item := itemFromBurst(b.Buf[from:to], b.Seg, b.Route)
		if q := d.lookupQP(dest); q != nil {
			q.enqueue(item)
		} else {
			d.counters.BadQPN.Add(uint64(item.count()))
			item.free()
		}
		from = to
	}
}

// multicastLocal gives every attached QP of this device, the sender's own
// among them, its copy (IBA 10.5.2.1).
func (d *Device) multicastLocal(b *wire.Burst) {
	for _, q := range d.mcastMembers(wire.GIDFromAddr(b.Route.Dst)) {
		q.enqueue(itemFromBurst(b.Buf, b.Seg, b.Route))
	}
}

// destQP reads the destination QPN of a packet that this device built.
func destQP(b []byte) wire.QPN {
	return wire.QPN(uint32(b[5])<<16 | uint32(b[6])<<8 | uint32(b[7]))
}
