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
// admissionDelay: then all that wait come in, and those before are not counted any more.
const (
	defaultActiveQPs = 64
	admissionDelay   = Time(250 * time.Microsecond)
)

// admission counts those that are in, and holds the line. A QP's place is 0 while it
// has nothing under way, epochWaiting in the line, else the epoch in which it came in.
type admission struct {
	limit int

	mu      sync.Mutex // before those of timerHeap and deliveries
	epoch   uint32
	active  int // QPs that came in, in this epoch
	waiting qpList
	armed   bool // the clock looks after the first in the line
}

const epochWaiting = math.MaxUint32

// requestAdmission says whether the requester may begin, or go on. The caller holds the QP.
func (q *QP) requestAdmission(now Time) bool {
	if p := q.activeEpoch.Load(); p != 0 {
		return p != epochWaiting
	}
	return q.typ != QPRC || q.peerIsLocal() || q.dev.admission.admit(q, now)
}

// releaseAdmission gives up the place of a QP that has nothing under way any more. The
// caller holds the QP.
func (q *QP) releaseAdmission() {
	p := q.activeEpoch.Load()
	if p == 0 || p == epochWaiting || q.send.una != q.send.psn {
		return
	}
	q.activeEpoch.Store(0)
	q.dev.admission.release(q.dev, p)
}

// admit reports whether there is a place; if not, q is in the line.
func (a *admission) admit(q *QP, now Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.active < a.limit && a.waiting.empty() {
		a.active++
		q.activeEpoch.Store(a.epoch)
		return true
	}
	q.activeEpoch.Store(epochWaiting)
	q.waitingSince = now
	a.waiting.push(q)
	a.arm(q.dev)
	return false
}

// release takes one off that came in in that epoch.
func (a *admission) release(d *Device, epoch uint32) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if epoch != a.epoch {
		return
	}
	if a.active--; a.active <= a.limit/2 {
		for a.active < a.limit && !a.waiting.empty() {
			a.admitNext(d)
		}
	}
}

// admitNext lets the first in the line in, and has somebody send for it. The caller
// holds mu.
func (a *admission) admitNext(d *Device) {
	q := a.waiting.pop()
	q.activeEpoch.Store(a.epoch)
	a.active++
	d.runQueue.resume(q)
}

// arm sets the deadline of the first in the line. The caller holds mu.
func (a *admission) arm(d *Device) {
	if first := a.waiting.first(); first != nil && !a.armed {
		a.armed = true
		d.timers.setAdmission(first.waitingSince+admissionDelay, d.cfg.Clock)
	}
}

// expire is for that deadline.
func (a *admission) expire(d *Device, now Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.armed = false
	if first := a.waiting.first(); first != nil && first.waitingSince+admissionDelay <= now {
		if a.epoch++; a.epoch == epochWaiting {
			a.epoch = 1
		}
		for a.active = 0; !a.waiting.empty(); {
			a.admitNext(d)
		}
	}
	a.arm(d)
}
