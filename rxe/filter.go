package rxe

import (
	"net/netip"

	"github.com/gorxe/gorxe/wire"
)

// spareNumbers is how many numbers with the right mark there are at least for each queue
// pair, so that a peer that knows the mark still has to guess.
const spareNumbers = 4

// maxMarkBits bounds Config.Mark.Bits.
const maxMarkBits = 8

// newQPN draws the free number of a queue pair, with the mark of its type. If there are many queue
// pairs, it first gives more numbers the mark. numTable.insert calls it, with the table locked.
func (d *Device) newQPN(typ QPType) uint32 {
	if d.mark.Bits > 1 && d.qps.count >= d.mark.Numbers()/spareNumbers {
		d.setMarkBits(d.mark.Bits - 1)
	}
	for {
		num := d.random.qpn(marked(d.mark, typ))
		if d.qps.lookup(num) == nil {
			d.marked[d.bitsOf(typ, num)]++
			return num
		}
	}
}

// freeQPN gives back the number of a queue pair. When few are left, and all of them have numbers
// that keep their mark, fewer numbers have it again.
func (d *Device) freeQPN(q *QP) {
	d.qps.remove(uint32(q.qpn))
	d.qps.mu.Lock()
	defer d.qps.mu.Unlock()
	d.marked[d.bitsOf(q.typ, uint32(q.qpn))]--
	bits := d.mark.Bits
	for bits < d.cfg.Mark.Bits && d.marked[bits] == 0 {
		more := d.mark
		more.Bits = bits + 1
		// Half of what newQPN bears, so that the bits do not change with each queue pair.
		if d.qps.count >= more.Numbers()/spareNumbers/2 {
			break
		}
		bits++
	}
	if bits != d.mark.Bits {
		d.setMarkBits(bits)
	}
}

// setMarkBits changes how many numbers have a mark. The table is locked.
func (d *Device) setMarkBits(bits uint8) {
	d.mark.Bits = bits
	if d.cfg.Filter != nil {
		d.cfg.Filter.SetMark(d.mark)
	}
}

// bitsOf returns with how many bits of the mark a number is marked.
func (d *Device) bitsOf(typ QPType, num uint32) uint8 {
	m := d.cfg.Mark
	for m.Bits > 0 && !marked(m, typ)(wire.QPN(num)) {
		m.Bits--
	}
	return m.Bits
}

func marked(m wire.QPNMark, typ QPType) func(wire.QPN) bool {
	if typ == QPUD {
		return m.Datagram
	}
	return m.Connected
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
