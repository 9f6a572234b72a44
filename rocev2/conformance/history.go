package conformance

import (
	"github.com/gorxe/gorxe/wire"
)

// history is of the requests of one queue pair: the last packets by PSN, and the last READs by
// their ranges.
type history struct {
	ring    []record
	reads   []readRequest // a ring of maxReads, if there are any
	readPos int
	holes   []hole
}

const (
	minHistory = 16
	maxHistory = 8192
	maxReads   = 64
	maxHoles   = 16
	// historyBudget bounds the records of all flows together: some 100 MB.
	historyBudget = 1 << 20
	// staleAfter is for how many packets of the capture a record is valid, because
	// PSNs repeat.
	staleAfter = 1 << 22
)

type recordFlags uint8

const (
	recAckReq   recordFlags = 1 << iota
	recOffset               // off is known
	recCounted              // msgs is known
	recAnswered             // an atomic whose value is known; off and total hold it
	recResent               // sent again since
)

// record is one request packet.
type record struct {
	psn     wire.PSN
	op      wire.Opcode
	flags   recordFlags
	id      uint16 // IP identification
	life    uint32
	payload uint32
	off     uint32 // bytes of its message so far, this packet included
	total   uint32 // bytes of its message, if a RETH gave them
	srqn    uint32 // of XRC
	epoch   uint32
	msgs    uint32 // messages of the epoch that ended up to this packet
	packet  int    // in which it was first seen
	last    int    // in which it was last seen
	at      int64  // nanoseconds, of last
}

// readRequest is a READ: it takes as many PSNs as its response has packets.
type readRequest struct {
	psn     wire.PSN
	length  uint32
	va      uint64
	rkey    wire.RKey
	life    uint32
	packet  int
	partial bool   // may be the rest of an earlier one
	seen    uint32 // response packets seen: one past the last
}

// span returns how many PSNs a READ takes. It returns false if that depends on the path
// MTU and that is not known yet.
func (q *readRequest) span(mtu int) (n uint32, known bool) {
	switch {
	case q.length <= 256:
		return 1, true
	case mtu == 0:
		return 1, false
	}
	return uint32((uint64(q.length) + uint64(mtu) - 1) / uint64(mtu)), true
}

// at returns the record of a PSN, nil if there is none.
func (r *requests) at(psn wire.PSN, now int) *record {
	if len(r.ring) == 0 {
		return nil
	}
	e := &r.ring[int(psn)&(len(r.ring)-1)]
	if e.psn != psn || e.life != r.life || now-e.packet > staleAfter {
		return nil
	}
	return e
}

// put makes room for the record of a PSN.
func (r *requests) put(c *Checker, psn wire.PSN) *record {
	if len(r.ring) == 0 {
		r.ring = make([]record, minHistory)
		c.budget -= minHistory
	}
	e := &r.ring[int(psn)&(len(r.ring)-1)]
	if e.life == r.life && e.psn != psn && r.wants(e.psn) && len(r.ring) < maxHistory && c.budget >= len(r.ring) {
		r.grow(c)
		e = &r.ring[int(psn)&(len(r.ring)-1)]
	}
	return e
}

// wants reports whether a record that would be overwritten is still needed. It is
// until it is acknowledged or, if there are no acknowledgements, while it is one of
// the last few.
func (r *requests) wants(psn wire.PSN) bool {
	if r.ackedKnown {
		return !psn.Less(r.acked)
	}
	return len(r.ring) < 16*minHistory
}

func (r *requests) grow(c *Checker) {
	old := r.ring
	c.budget -= len(old)
	r.ring = make([]record, 2*len(old))
	for i := range old {
		if old[i].life == r.life {
			r.ring[int(old[i].psn)&(len(r.ring)-1)] = old[i]
		}
	}
}

// read returns the READ whose range has psn, the last one sent if there are
// several. known is false if a READ begins before psn whose range is not known.
func (r *requests) read(psn wire.PSN, mtu, now int) (q *readRequest, known bool) {
	known = true
	for i := range r.reads {
		e := &r.reads[i]
		if e.life != r.life || now-e.packet > staleAfter || psn.Less(e.psn) {
			continue
		}
		span, ok := e.span(mtu)
		d := uint32(psn.Diff(e.psn))
		switch {
		case d < span:
			if q == nil || q.packet <= e.packet {
				q = e
			}
		case !ok && d < (e.length+255)/256:
			known = false
		}
	}
	return q, known
}

// anyRead returns nil if fits is true for any READ whose range has psn. Otherwise it
// returns the last of these READs.
func (r *requests) anyRead(psn wire.PSN, mtu, now int, fits func(q *readRequest, off, span uint32) bool) *readRequest {
	var bad *readRequest
	for i := range r.reads {
		e := &r.reads[i]
		if e.life != r.life || now-e.packet > staleAfter || psn.Less(e.psn) {
			continue
		}
		off := uint32(psn.Diff(e.psn))
		span, _ := e.span(mtu)
		if off >= span {
			continue
		}
		if fits(e, off, span) {
			return nil
		}
		if bad == nil || bad.packet < e.packet {
			bad = e
		}
	}
	return bad
}

// resolve computes the range of the READ that was sent last, once the path MTU is
// known.
func (r *requests) resolve(mtu int) {
	if len(r.reads) == 0 {
		return
	}
	q := &r.reads[(r.readPos+maxReads-1)%maxReads]
	if r.nextSure || q.life != r.life || q.psn.Next() != r.next {
		return
	}
	span, _ := q.span(mtu)
	r.next, r.nextSure = q.psn.Add(span), true
}

// ending returns the READ whose range ends just before psn.
func (r *requests) ending(psn wire.PSN, mtu, now int) *readRequest {
	for i := range r.reads {
		e := &r.reads[i]
		if e.life != r.life || now-e.packet > staleAfter || !e.psn.Less(psn) {
			continue
		}
		if span, ok := e.span(mtu); ok && e.psn.Add(span) == psn {
			return e
		}
	}
	return nil
}

// hole is a range of PSNs that were not seen: from is the first, and to follows the
// last.
type hole struct {
	from, to wire.PSN
	packet   int // at which it was noticed
}

// fill removes psn from the holes, and reports whether it was in one.
func (r *requests) fill(psn wire.PSN, span uint32) bool {
	end := psn.Add(span)
	for i := range r.holes {
		h := &r.holes[i]
		if psn.Less(h.from) || !psn.Less(h.to) {
			continue
		}
		rest := hole{from: end, to: h.to, packet: h.packet}
		h.to = psn
		empty := h.to == h.from
		switch {
		case empty && rest.from.Less(rest.to):
			*h = rest
		case empty:
			r.holes = append(r.holes[:i], r.holes[i+1:]...)
		case rest.from.Less(rest.to) && len(r.holes) < maxHoles:
			r.holes = append(r.holes, rest)
		}
		return true
	}
	return false
}
