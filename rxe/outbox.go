package rxe

import (
	"sync"

	"github.com/gorxe/gorxe/wire"
)

// The outbox collects what one run-to-completion step sends. Packets are built in
// place, next to each other, so that a run of packets of one size to one
// destination is one Burst. A link sends a burst with one system call.

type outbox struct {
	dev    *Device
	buf    []byte
	other  []byte // buf is one of two memories, of outboxBytes and wideBytes; this is the other one, nil if it was never used
	bursts []wire.Burst
	start  int  // of the open burst, in buf
	count  int  // packets in the open burst
	closed bool // the open burst takes no more packets: its last one was shorter

	now        Time
	sinceYield int       // bytes sent since this device's inboxes were run
	readData   int       // bytes of READ responses that this step may still send
	in         spanBatch // payloads that wait to be gathered into buf
	message    message   // that is built
	sent, rcvd packetTally
}

var outboxPool = sync.Pool{New: func() any {
	return &outbox{
		buf:    make([]byte, 0, outboxBytes),
		bursts: make([]wire.Burst, 0, maxBursts),
	}
}}

func (d *Device) getOutbox() *outbox {
	o := outboxPool.Get().(*outbox)
	o.dev = d
	o.now = d.cfg.Clock.Now()
	o.readData = readStepBytes
	return o
}

// room reports whether a packet of n bytes (without ICRC) to r can be added without
// a flush.
func (o *outbox) room(n int) bool {
	return len(o.buf)+lineBytes+n+wire.ICRCLen <= cap(o.buf) && len(o.bursts) < maxBursts
}

// reserve makes room for packets that are built before their payload is read, so that none of them causes a
// flush. They are in so many bursts, and take up so many bytes with their ICRCs and gaps. An empty outbox has
// wideBytes of memory afterwards if memory is that, and outboxBytes otherwise.
func (o *outbox) reserve(bytes, bursts, memory int) {
	if most := cap(o.buf); len(o.bursts) > 0 {
		if memory == burstBytes {
			most = memory
		}
		if len(o.buf)+bytes > most || len(o.bursts)+bursts > maxBursts {
			o.flush()
		}
	}
	if len(o.bursts) == 0 && (memory == wideBytes) != o.wide() {
		o.exchange()
	}
}

// free returns the room for packets in the outbox, or in an empty one if it has not the memory that they want.
func (o *outbox) free(memory int) int {
	switch {
	case len(o.bursts) == 0, memory > cap(o.buf):
		return memory
	case memory == burstBytes:
		return memory - len(o.buf)
	default:
		return cap(o.buf) - len(o.buf)
	}
}

// wide reports whether the outbox has room for several long messages.
func (o *outbox) wide() bool { return cap(o.buf) > outboxBytes }

// exchange makes an empty outbox wide or narrow.
func (o *outbox) exchange() {
	if o.other == nil { // an outbox begins narrow
		o.other = make([]byte, 0, wideBytes)
	}
	o.buf, o.other = o.other[:0], o.buf[:0]
}

// packet returns n bytes (headers, payload and pad) for the caller to fill in; head of
// them are headers. It flushes first when there is no room: packets that it returned
// before must be complete by then.
func (o *outbox) packet(r *wire.Route, head, n int) []byte {
	if !o.room(n) {
		o.flush()
	}
	size := n + wire.ICRCLen
	at := len(o.buf)
	if !o.extend(r, at, size) {
		at = lineUp(at+head) - head
		o.bursts = append(o.bursts, wire.Burst{Route: r, Buf: o.buf[at : at+size : at+size], Seg: size})
		o.start, o.count, o.closed = at, 1, false
	}
	o.buf = o.buf[:at+size]
	return o.buf[at : at+n : at+n]
}

func (o *outbox) extend(r *wire.Route, at, size int) bool {
	if len(o.bursts) == 0 || o.closed || o.count == burstPackets {
		return false
	}
	b := &o.bursts[len(o.bursts)-1]
	if b.Route != r || size > b.Seg || at+size-o.start > burstBytes {
		return false
	}
	b.Buf = o.buf[o.start : at+size : at+size]
	o.count++
	o.closed = size < b.Seg
	return true
}

// outboxMark is a position in the outbox. rewind takes back the packets built
// since, when their payload cannot be read.
type outboxMark struct {
	buf, bursts, start, count, last int
	closed                          bool
}

func (o *outbox) mark() outboxMark {
	m := outboxMark{buf: len(o.buf), bursts: len(o.bursts), start: o.start, count: o.count, closed: o.closed}
	if m.bursts > 0 {
		m.last = len(o.bursts[m.bursts-1].Buf)
	}
	return m
}

func (o *outbox) rewind(m outboxMark) {
	o.buf, o.bursts = o.buf[:m.buf], o.bursts[:m.bursts]
	o.start, o.count, o.closed = m.start, m.count, m.closed
	if m.bursts > 0 {
		b := &o.bursts[m.bursts-1]
		b.Buf = b.Buf[:m.last:m.last]
	}
}

// flush sends what was collected: to the link, or to the inboxes of this device's
// own QPs.
func (o *outbox) flush() {
	o.countPackets()
	if len(o.bursts) > 0 {
		o.dev.transmit(o)
	}
	clear(o.bursts)
	o.buf, o.bursts = o.buf[:0], o.bursts[:0]
	o.start, o.count, o.closed = 0, 0, false
}

// done flushes, runs the inboxes of this device that have something, and returns
// the outbox to its pool. No QP may be locked.
func (o *outbox) done() {
	o.flush()
	o.dev.deliver(o)
	o.close()
}

// posted is done for a program's call. The device's owner may want deliveries to
// other programs to wait (Config.OnDeliver).
func (o *outbox) posted() {
	f := o.dev.cfg.OnDeliver
	if f == nil {
		o.done()
		return
	}
	o.flush()
	if !o.dev.runQueue.empty() {
		f()
	}
	o.close()
}

// close returns an empty outbox to its pool. Outboxes in the pool are narrow, so what the next user's packets cost does
// not depend on the last user.
func (o *outbox) close() {
	o.countPackets()
	if o.wide() {
		o.exchange()
	}
	o.dev, o.sinceYield, o.message = nil, 0, message{}
	outboxPool.Put(o)
}
