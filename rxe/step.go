package rxe

import (
	"sync"

	"github.com/gorxe/gorxe/wire"
)

// step is what a thread does between two times when it has no QP locked to begin with: a call of a
// program, a batch of received packets, a deadline. It is run to completion. It has the time when
// it began, what it may still do, what it counts, and the outbox with what it sends.
type step struct {
	outbox
	dev *Device
	now Time

	sinceYield int // bytes sent since this device's inboxes were run
	readData   int // bytes of READ responses that it may still send
	sent, rcvd packetTally

	in      spanBatch  // payloads that wait to be gathered into the outbox
	message message    // that is built
	frames  []FrameOut // raw ones, for a port
}

var stepPool = sync.Pool{New: func() any { return &step{outbox: newOutbox()} }}

func (d *Device) newStep() *step {
	st := stepPool.Get().(*step)
	st.dev = d
	st.now = d.cfg.Clock.Now()
	st.readData = readStepBytes
	return st
}

// reserve makes room for packets that are built before their payload is read, so that none of them
// causes a flush. They are in so many bursts, and take up so many bytes with their ICRCs and gaps.
// An empty outbox has wideBytes of memory afterwards if memory is that, and outboxBytes otherwise.
func (st *step) reserve(bytes, bursts, memory int) {
	if !st.fits(bytes, bursts, memory) {
		st.flush()
	}
	st.prepare(memory)
}

// packet returns n bytes (headers, payload and pad) of the outbox for the caller to fill in; head
// of them are headers. It flushes first when there is no room: packets that it returned before must
// be complete by then.
func (st *step) packet(r *wire.Route, head, n int) []byte {
	if !st.room(n) {
		st.flush()
	}
	return st.add(r, head, n)
}

// flush sends what was collected: to the link, or to the inboxes of this device's
// own QPs.
func (st *step) flush() {
	st.countPackets()
	if len(st.bursts) > 0 {
		st.dev.transmit(st)
	}
	st.clear()
}

// done flushes, runs the inboxes of this device that have something, and ends the step. No QP may
// be locked.
func (st *step) done() {
	st.flush()
	st.dev.deliver(st)
	st.close()
}

// posted is done for a program's call. The device's owner may want deliveries to
// other programs to wait (Config.OnDeliver).
func (st *step) posted() {
	f := st.dev.cfg.OnDeliver
	if f == nil {
		st.done()
		return
	}
	st.flush()
	if !st.dev.runQueue.empty() {
		f()
	}
	st.close()
}

// close returns the step to its pool, with its outbox empty. Outboxes in the pool are narrow, so
// what the next user's packets cost does not depend on the last user.
func (st *step) close() {
	st.countPackets()
	if st.wide() {
		st.exchange()
	}
	st.dev, st.sinceYield, st.message = nil, 0, message{}
	stepPool.Put(st)
}
