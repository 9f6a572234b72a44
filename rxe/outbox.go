package rxe

import "github.com/gorxe/gorxe/wire"

// The outbox collects what one run-to-completion step sends. Packets are built in
// place, next to each other, so that a run of packets of one size to one
// destination is one Burst. A link sends a burst with one system call.
type outbox struct {
	buf []byte
	// buf is one of two memories, of outboxBytes and wideBytes; this is the other one, nil if it
	// was never used
	other  []byte
	bursts []wire.Burst
	start  int  // of the open burst, in buf
	count  int  // packets in the open burst
	closed bool // the open burst takes no more packets: its last one was shorter
}

func newOutbox() outbox {
	return outbox{buf: make([]byte, 0, outboxBytes), bursts: make([]wire.Burst, 0, maxBursts)}
}

// fits reports whether packets fit that take up so many bytes and bursts, of an outbox with that
// memory.
func (ob *outbox) fits(bytes, bursts, memory int) bool {
	most := cap(ob.buf)
	if memory == burstBytes {
		most = memory
	}
	return len(ob.bursts) == 0 || len(ob.buf)+bytes <= most && len(ob.bursts)+bursts <= maxBursts
}

// prepare gives an empty outbox the memory that is wanted.
func (ob *outbox) prepare(memory int) {
	if len(ob.bursts) == 0 && (memory == wideBytes) != ob.wide() {
		ob.exchange()
	}
}

// room reports whether a packet of n bytes (without ICRC) to r can be added without
// a flush.
func (ob *outbox) room(n int) bool {
	return len(ob.buf)+lineBytes+n+wire.ICRCLen <= cap(ob.buf) && len(ob.bursts) < maxBursts
}

// free returns the room for packets in the outbox, or in an empty one if it has not the memory that
// they want.
func (ob *outbox) free(memory int) int {
	switch {
	case len(ob.bursts) == 0, memory > cap(ob.buf):
		return memory
	case memory == burstBytes:
		return memory - len(ob.buf)
	default:
		return cap(ob.buf) - len(ob.buf)
	}
}

// wide reports whether the outbox has room for several long messages.
func (ob *outbox) wide() bool { return cap(ob.buf) > outboxBytes }

// exchange makes an empty outbox wide or narrow.
func (ob *outbox) exchange() {
	if ob.other == nil { // an outbox begins narrow
		ob.other = make([]byte, 0, wideBytes)
	}
	ob.buf, ob.other = ob.other[:0], ob.buf[:0]
}

// add returns n bytes (headers, payload and pad) for the caller to fill in; head of them are
// headers. There must be room.
func (ob *outbox) add(r *wire.Route, head, n int) []byte {
	size := n + wire.ICRCLen
	at := len(ob.buf)
	if !ob.extend(r, at, size) {
		at = lineUp(at+head) - head
		ob.bursts = append(ob.bursts, wire.Burst{Route: r, Buf: ob.buf[at : at+size : at+size], Seg: size})
		ob.start, ob.count, ob.closed = at, 1, false
	}
	ob.buf = ob.buf[:at+size]
	return ob.buf[at : at+n : at+n]
}

// clear makes the outbox empty.
func (ob *outbox) clear() {
	clear(ob.bursts)
	ob.buf, ob.bursts = ob.buf[:0], ob.bursts[:0]
	ob.start, ob.count, ob.closed = 0, 0, false
}

func (ob *outbox) extend(r *wire.Route, at, size int) bool {
	if len(ob.bursts) == 0 || ob.closed || ob.count == burstPackets {
		return false
	}
	b := &ob.bursts[len(ob.bursts)-1]
	if b.Route != r || size > b.Seg || at+size-ob.start > burstBytes {
		return false
	}
	b.Buf = ob.buf[ob.start : at+size : at+size]
	ob.count++
	ob.closed = size < b.Seg
	return true
}

// outboxMark is a position in the outbox. rewind takes back the packets built
// since, when their payload cannot be read.
type outboxMark struct {
	buf, bursts, start, count, last int
	closed                          bool
}

func (ob *outbox) mark() outboxMark {
	m := outboxMark{buf: len(ob.buf), bursts: len(ob.bursts), start: ob.start, count: ob.count, closed: ob.closed}
	if m.bursts > 0 {
		m.last = len(ob.bursts[m.bursts-1].Buf)
	}
	return m
}

func (ob *outbox) rewind(m outboxMark) {
	ob.buf, ob.bursts = ob.buf[:m.buf], ob.bursts[:m.bursts]
	ob.start, ob.count, ob.closed = m.start, m.count, m.closed
	if m.bursts > 0 {
		b := &ob.bursts[m.bursts-1]
		b.Buf = b.Buf[:m.last:m.last]
	}
}
