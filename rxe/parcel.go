package rxe

import (
	"sync"

	"github.com/gorxe/gorxe/wire"
)

// parcel is packets of one flow, or a train of them, left in a QP's inbox.
type parcel struct {
	next *parcel // in the inbox
	buf  []byte
	ends []int32       // of each packet in buf
	gap  int           // bytes between packets
	from wire.Datagram // all but Data
	form trainForm     // of a train, which has all of buf
	// counted: the packets are in the device's counters already.
	counted bool
}

const (
	smallParcel = 4 << 10
	// largeParcel holds a full burst, and a group of packets however many.
	largeParcel = groupBytes + groupPackets*(maxHeader+wire.ICRCLen)
)

var (
	smallParcels = sync.Pool{New: func() any { return &parcel{buf: make([]byte, 0, smallParcel)} }}
	largeParcels = sync.Pool{New: func() any { return &parcel{buf: make([]byte, 0, largeParcel)} }}
)

// newParcel is an empty one with room for n bytes, or for as many as there can
// be.
func newParcel(n int) *parcel {
	pool := &largeParcels
	if n <= smallParcel {
		pool = &smallParcels
	}
	p := pool.Get().(*parcel)
	p.buf, p.ends = p.buf[:0], p.ends[:0]
	p.next, p.gap, p.counted, p.form = nil, 0, false, trainForm{}
	return p
}

// free gives the parcel back. Nothing may refer to its bytes any more.
func (p *parcel) free() {
	p.next = nil
	if cap(p.buf) > smallParcel {
		largeParcels.Put(p)
	} else {
		smallParcels.Put(p)
	}
}

// memory is what the parcel weighs in an inbox.
func (p *parcel) memory() int { return cap(p.buf) + 4*cap(p.ends) }

// count is how many packets it holds or stands for.
func (p *parcel) count() int { return len(p.ends) + int(p.form.n) }

// datagramOn is a packet on a route, without its data.
func datagramOn(r *wire.Route) wire.Datagram {
	return wire.Datagram{Src: r.Src, Dst: r.Dst, SrcPort: r.SrcPort,
		TrafficClass: r.TrafficClass, HopLimit: r.HopLimit}
}

// burstParcel holds packets that this device built, seg bytes each with the
// room for their ICRC.
func burstParcel(buf []byte, seg int, r *wire.Route) *parcel {
	p := newParcel(len(buf))
	p.buf = append(p.buf, buf...)
	p.gap = wire.ICRCLen
	p.from = datagramOn(r)
	for at := 0; at < len(buf); at += seg {
		p.ends = append(p.ends, int32(min(at+seg, len(buf))-wire.ICRCLen))
	}
	return p
}

// datagramParcel begins a parcel with a received packet.
func datagramParcel(dg *wire.Datagram) *parcel {
	p := newParcel(4 * len(dg.Data)) // more may follow
	p.from = *dg
	p.from.Data = nil
	p.counted = true
	p.ends = append(p.ends, int32(len(dg.Data)))
	p.buf = append(p.buf, dg.Data...)
	return p
}

// extend adds a received packet if it came the same way and fits.
func (p *parcel) extend(dg *wire.Datagram) bool {
	f := &p.from
	if len(p.buf)+len(dg.Data) > cap(p.buf) || f.Src != dg.Src || f.Dst != dg.Dst ||
		f.SrcPort != dg.SrcPort || f.TrafficClass != dg.TrafficClass || f.HopLimit != dg.HopLimit {
		return false
	}
	p.buf = append(p.buf, dg.Data...)
	p.ends = append(p.ends, int32(len(p.buf)))
	return true
}

// unpack handles the packets of a parcel. The caller holds the QP.
func (q *QP) unpack(l *parcel, o *outbox) {
	dg := l.from
	at := 0
	for _, end := range l.ends {
		dg.Data = l.buf[at:end]
		at = int(end) + l.gap
		p, err := wire.Parse(dg.Data)
		if err == nil { // or it would not be here
			q.packet(p, &dg, o)
		}
	}
	if !l.counted {
		q.dev.counters.RcvdPkts.Add(uint64(len(l.ends)))
	}
}
