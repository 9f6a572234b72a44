package rxe

import (
	"net/netip"
)

// spareNumbers is how many numbers with the right mark there are at least for each queue
// pair, so that a peer that knows the mark still has to guess.
const spareNumbers = 4

// newQPN draws the number of a queue pair, with the mark of its type. If there are many queue
// pairs, it first gives more numbers the mark. numTable.insert calls it, with the table locked.
func (d *Device) newQPN(typ QPType) uint32 {
	if d.mark.Bits > 1 && d.qps.count >= d.mark.Numbers()/spareNumbers {
		d.mark.Bits--
		if d.cfg.Filter != nil {
			d.cfg.Filter.SetMark(d.mark)
		}
	}
	marked := d.mark.Connected
	if typ == QPUD {
		marked = d.mark.Datagram
	}
	return d.random.qpn(marked)
}

// setPeer tells the filter from which address the QP takes packets; the zero Addr: from none.
// The caller has locked the QP.
func (q *QP) setPeer(addr netip.Addr) {
	f := q.dev.cfg.Filter
	if f == nil || addr == q.peer {
		return
	}
	if addr.IsValid() {
		f.AddPeer(addr)
	}
	if q.peer.IsValid() {
		f.RemovePeer(q.peer)
	}
	q.peer = addr
}
