package rxe

import "github.com/gorxe/gorxe/wire"

// numberKind is which mark the number of a queue pair has.
type numberKind uint8

const (
	numberListed   numberKind = iota // connected, and the filter compares with the peer's address
	numberUnlisted                   // connected, and packets of all addresses pass
	numberUD
)

// newQPN draws the free number of a queue pair, with the mark of its kind. If there are many queue
// pairs, it first gives more numbers the mark. numTable.insert calls it, with the table locked.
func (d *Device) newQPN(kind numberKind) uint32 {
	if d.mark.Bits > minMarkBits && d.qps.count >= d.mark.Numbers()/spareNumbers {
		d.setMarkBits(d.mark.Bits - 1)
	}
	for {
		num := d.random.qpn(marked(d.mark, kind))
		if d.qps.lookup(num) == nil {
			d.marked[d.bitsOf(kind, num)]++
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
	d.marked[d.bitsOf(q.number, uint32(q.qpn))]--
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
func (d *Device) bitsOf(kind numberKind, num uint32) uint8 {
	m := d.cfg.Mark
	for m.Bits > 0 && !marked(m, kind)(wire.QPN(num)) {
		m.Bits--
	}
	return m.Bits
}

func marked(m wire.QPNMark, kind numberKind) func(wire.QPN) bool {
	switch kind {
	case numberUD:
		return m.Datagram
	case numberUnlisted:
		return m.Unlisted
	default:
		return m.Connected
	}
}
