package rxe

import "github.com/gorxe/gorxe/wire"

// Tap sees what a device does. Its functions may be called with a QP locked, and must not block or
// call back into the device.
type Tap struct {
	// Packets sees the packets that pass between QPs of the device, which reach no Link. Such
	// packets are formed one by one while there is a Tap, and need not be formed without.
	Packets func(b *wire.Burst)
	// Work sees work requests; nil: nothing does.
	Work WorkTap
}

// WorkTap sees the work requests of all QPs of a device.
type WorkTap interface {
	// Posted sees a send work request that was queued.
	Posted(q *QP, id uint64, op WROpcode, bytes uint32)
	// Began sees that a send work request got its PSNs. route and peer are where its packets go.
	Began(q *QP, id uint64, first, last wire.PSN, route *wire.Route, peer wire.QPN)
	// Completed sees the end of a work request, also if no completion is pushed for it.
	Completed(q *QP, wc WC, receive bool)
}

// SetTap sets the device's Tap, in place of the one before; nil: none. Packets that are on their
// way may still be seen by that one, or by none.
func (d *Device) SetTap(t *Tap) { d.tap.Store(t) }

// tapped reports whether packets between QPs of the device are seen.
func (d *Device) tapped() bool { return d.tap.Load() != nil }

// work returns what sees work requests; nil: nothing does.
func (d *Device) work() WorkTap {
	if t := d.tap.Load(); t != nil {
		return t.Work
	}
	return nil
}

// began notes that the work request at hand got its PSNs.
func (q *QP) began(wqe *sendEntry) {
	if timed(q.send.cur) {
		wqe.began = q.Now()
	}
	if w := q.dev.work(); w != nil {
		q.tell(w, wqe)
	}
}

// tell tells that a work request got its PSNs.
func (q *QP) tell(w WorkTap, wqe *sendEntry) {
	route, peer := q.route, q.attr.DestQPN
	if q.typ == QPUD {
		route, peer = wqe.to.route, wqe.to.num
	}
	w.Began(q, wqe.id, wqe.first, wqe.last, route, peer)
}
