package rxe

import (
	"math"
	"sync"
	"time"
)

// A system call moves as many packets as there are. Those of one QP come together
// because its window closes: what is posted meanwhile leaves at once when an
// acknowledgement opens it. A thousand QPs with one message each never close their
// windows, and would send a packet a call.
//
// So the device has a window too: a number of RC QPs that have something under way
// to other devices, the crowd. Beyond it, a QP that begins waits in line. When half
// of the crowd has gone, their successors come in together, and whoever took in the
// acknowledgements sends for all of them.
//
// A QP that has begun is not held up: few busy ones, however much they send, stand
// in nobody's way. Nor do those whose peer does not answer, for longer than
// crowdStep: then all that wait come in, and those before are not counted any more.
const (
	crowdLimit = 64
	crowdStep  = Time(250 * time.Microsecond)
)

// crowd counts those that are in, and holds the line. A QP's place is 0 while it
// has nothing under way, crowdWaits in the line, else the epoch in which it came in.
type crowd struct {
	limit int

	mu    sync.Mutex // before those of timerHeap and deliveries
	epoch uint32
	in    int // QPs that came in, in this epoch
	line  qpList
	timed bool // the clock looks after the first in the line
}

const crowdWaits = math.MaxUint32

// admitted says whether the requester may begin, or go on. The caller holds the QP.
func (q *QP) admitted(now Time) bool {
	if p := q.place.Load(); p != 0 {
		return p != crowdWaits
	}
	return q.typ != QPRC || q.local() || q.dev.crowd.enter(q, now)
}

// leaveCrowd gives up the place of a QP that has nothing under way any more. The
// caller holds the QP.
func (q *QP) leaveCrowd() {
	p := q.place.Load()
	if p == 0 || p == crowdWaits || q.comp.una != q.req.psn {
		return
	}
	q.place.Store(0)
	q.dev.crowd.leave(q.dev, p)
}

// enter reports whether there is a place; if not, q is in the line.
func (c *crowd) enter(q *QP, now Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.in < c.limit && c.line.empty() {
		c.in++
		q.place.Store(c.epoch)
		return true
	}
	q.place.Store(crowdWaits)
	q.waits = now
	c.line.push(q)
	c.time(q.dev)
	return false
}

// leave takes one off that came in in that epoch.
func (c *crowd) leave(d *Device, epoch uint32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if epoch != c.epoch {
		return
	}
	if c.in--; c.in <= c.limit/2 {
		for c.in < c.limit && !c.line.empty() {
			c.admit(d)
		}
	}
}

// admit lets the first in the line in, and has somebody send for it. The caller
// holds mu.
func (c *crowd) admit(d *Device) {
	q := c.line.pop()
	q.place.Store(c.epoch)
	c.in++
	d.local.resume(q)
}

// time sets the deadline of the first in the line. The caller holds mu.
func (c *crowd) time(d *Device) {
	if first := c.line.first(); first != nil && !c.timed {
		c.timed = true
		d.timers.setCrowd(first.waits+crowdStep, d.cfg.Clock)
	}
}

// expire is for that deadline.
func (c *crowd) expire(d *Device, now Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.timed = false
	if first := c.line.first(); first != nil && first.waits+crowdStep <= now {
		if c.epoch++; c.epoch == crowdWaits {
			c.epoch = 1
		}
		for c.in = 0; !c.line.empty(); {
			c.admit(d)
		}
	}
	c.time(d)
}
