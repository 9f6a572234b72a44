package rxe

import (
	"math"
	"sync"
	"sync/atomic"
)

// A system call moves as many packets as are ready. Those of one QP come together
// because its window closes: what is posted meanwhile leaves at once when an
// acknowledgement opens it. A thousand QPs with one message each never close their
// windows. They would send one packet per call.
//
// So the device has a window too: a number of active QPs, which are RC QPs with
// requests outstanding to other devices. Further QPs go on a waiting list. When
// half of the active QPs are done, as many are admitted together. The thread that
// processed the acknowledgements then sends for all of them.
//
// A QP that is active never waits: a few busy QPs, however much they send, are not
// slowed down. Peers that do not answer delay others by admissionDelay at most.
// Then every QP on the list is admitted, and the earlier ones no longer count.

// admission counts the active QPs and keeps the waiting list. A QP's activeEpoch is
// 0 while it has nothing outstanding, and epochWaiting while it is on the list.
// Otherwise it is the epoch in which the QP was admitted.
type admission struct {
	limit int

	mu      sync.Mutex // taken before those of timerHeap and runQueue
	epoch   uint32
	active  int // QPs admitted in this epoch
	waiting qpList
	armed   bool // a deadline is set for the first QP on the list
}

// admissionState is what a QP has of the admission.
type admissionState struct {
	activeEpoch  atomic.Uint32 // 0: nothing outstanding
	waitingSince Time          // since when it is on the waiting list; under admission.mu
}

const epochWaiting = math.MaxUint32

// lacksAdmission reports whether the requester needs an admission and has none. The caller has
// locked the QP.
func (q *QP) lacksAdmission() bool {
	if p := q.activeEpoch.Load(); p != 0 {
		return p == epochWaiting
	}
	return q.reliable && !q.peerIsLocal()
}

// releaseAdmission makes a QP inactive that has nothing outstanding any more. The
// caller has locked the QP.
func (q *QP) releaseAdmission() {
	p := q.activeEpoch.Load()
	if p == 0 || p == epochWaiting || q.send.una != q.send.psn {
		return
	}
	q.activeEpoch.Store(0)
	q.dev.admission.release(q.dev, p)
}

// admit makes q active if there is room. Otherwise it puts q on the list and
// reports false.
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

// release subtracts one QP that was admitted in that epoch.
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

// admitNext admits the first QP on the list and has some thread send for it. The
// caller holds mu.
func (a *admission) admitNext(d *Device) {
	q := a.waiting.pop()
	q.activeEpoch.Store(a.epoch)
	a.active++
	d.runQueue.resume(q)
}

// arm sets the deadline of the first QP on the list. The caller holds mu.
func (a *admission) arm(d *Device) {
	if first := a.waiting.first(); first != nil && !a.armed {
		a.armed = true
		d.timers.setAdmission(first.waitingSince+admissionDelay, d.cfg.Clock)
	}
}

// expire handles that deadline.
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
