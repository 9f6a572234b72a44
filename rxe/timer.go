package rxe

import (
	"sync"
	"time"
)

// Each QP has at most one entry in its device's heap of deadlines, at or before its
// earliest deadline. Most deadlines only move later (every ACK does that). Such a
// move does not touch the heap: when the entry comes due, the QP is entered again.
// So a message costs no heap operation.

// ackTimeout returns 4.096 µs << code; 0 means never (IBA 11.2.4.2).
func ackTimeout(code uint8) time.Duration {
	if code == 0 {
		return 0
	}
	return max(4096*time.Nanosecond<<(code&31), minAckTimeout)
}

// qpTimer is one QP's entry in its device's heap.
type qpTimer struct {
	queuedAt Time // the entry's time as far as this QP knows; 0: none; under the QP's lock

	heapIndex int  // in the heap, 1-based; 0: not in it; under timerHeap.mu
	heapTime  Time // under timerHeap.mu
}

// clearDeadlines turns every deadline of the QP off.
func (q *QP) clearDeadlines() {
	q.send.clearDeadlines()
	q.resp.pace.until, q.resp.held.until, q.resp.late.until = 0, 0, 0
}

// nextDeadline returns the earliest deadline of the QP; 0 is none.
func (q *QP) nextDeadline() Time {
	next := earlier(
		earlier(earlier(q.send.retransmitAt, q.send.rnrUntil), earlier(q.send.pausedUntil, q.send.completeAt)),
		earlier(earlier(q.resp.pace.until, q.resp.held.until), q.resp.late.until))
	if q.chaos != nil {
		next = earlier(next, q.chaos.next())
	}
	return next
}

// earlier returns the earlier of two deadlines; 0 is none. 0 becomes the latest time
// of all, without a branch.
func earlier(a, b Time) Time { return Time(min(uint64(a)-1, uint64(b)-1) + 1) }

// schedule makes sure that the QP runs at its next deadline. The caller has locked
// the QP.
func (q *QP) schedule() {
	next := q.nextDeadline()
	if next == 0 || (q.timer.queuedAt != 0 && q.timer.queuedAt <= next) {
		return
	}
	q.timer.queuedAt = next
	q.dev.timers.set(q, next, q.dev.cfg.Clock)
}

// Expire runs every deadline that is due. Several threads may call it at once. It
// waits for none of them: see gate. After expireReadBytes of READ responses it
// returns, with the clock armed for the rest.
func (d *Device) Expire() {
	st := d.newStep()
	if d.timers.admissionDue(st.now) {
		d.admission.expire(d, st.now)
	}
	for data := 0; data < expireReadBytes; {
		q := d.timers.popDue(st.now, d.cfg.Clock)
		if q == nil {
			break
		}
		if st.readData = readQuantumBytes; q.tryRun() {
			q.deadlines(st)
			data += readQuantumBytes - st.readData
			q.unlock(st)
			st.flush()
			d.deliver(st)
		}
	}
	st.done()
}

// deadlines does what is due at st.now. The caller has locked the QP.
func (q *QP) deadlines(st *step) {
	q.timer.queuedAt = 0
	if q.dead {
		return
	}
	if q.chaos != nil {
		q.chaos.expire(q, st)
	}
	s := &q.send
	if s.rnrUntil != 0 && s.rnrUntil <= st.now {
		s.rnrUntil = 0
	}
	if s.pausedUntil != 0 && s.pausedUntil <= st.now {
		s.pausedUntil = 0
	}
	if s.completeAt != 0 && s.completeAt <= st.now {
		s.completeAt = 0
		q.retire()
	}
	if s.retransmitAt != 0 && s.retransmitAt <= st.now {
		s.retransmitAt = 0
		q.comp.timeout(q)
	}
	if p := &q.resp.pace; p.until != 0 && p.until <= st.now {
		p.until = 0
		q.resumeReads(st)
	}
	q.runRequester(st)
	if h := &q.resp.held; h.until != 0 && h.until <= st.now {
		h.release(q, st)
	}
	if l := &q.resp.late; l.until != 0 && l.until <= st.now {
		q.look(st.now)
	}
	q.schedule()
}

// timerHeap is a binary heap of QPs by their entry's time.
type timerHeap struct {
	mu        sync.Mutex
	h         []*QP
	admission Time // deadline of the waiting list; 0: none
	wake      bool // Device.Wake was called, and Expire not since
}

// arm gives the clock the first deadline, if there is one.
func (t *timerHeap) arm(c Clock) {
	first := t.admission
	if len(t.h) > 0 && (first == 0 || t.h[0].timer.heapTime < first) {
		first = t.h[0].timer.heapTime
	}
	if t.wake {
		first = 1
	}
	if first != 0 {
		c.Arm(first)
	}
}

// Wake has the clock call Expire at once, which runs the inboxes of the device. It may be called
// with any lock of other devices held, and with a QP locked.
func (d *Device) Wake() {
	t := &d.timers
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.wake {
		t.wake = true
		t.arm(d.cfg.Clock)
	}
}

func (t *timerHeap) setAdmission(at Time, c Clock) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.admission = at
	t.arm(c)
}

// admissionDue reports whether the deadline of the waiting list has come, and
// clears it if so. It also ends Wake.
func (t *timerHeap) admissionDue(now Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.wake = false
	if t.admission == 0 || t.admission > now {
		return false
	}
	t.admission = 0
	return true
}

func (t *timerHeap) set(q *QP, at Time, c Clock) {
	t.mu.Lock()
	defer t.mu.Unlock()
	q.timer.heapTime = at
	if q.timer.heapIndex == 0 {
		t.h = append(t.h, q)
		q.timer.heapIndex = len(t.h)
	}
	t.up(q.timer.heapIndex - 1)
	t.down(q.timer.heapIndex - 1)
	if t.h[0] == q {
		t.arm(c)
	}
}

// popDue returns the first QP that is due. If there is none, it arms the clock for
// the first that is left.
func (t *timerHeap) popDue(now Time, c Clock) *QP {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.h) == 0 || t.h[0].timer.heapTime > now {
		t.arm(c)
		return nil
	}
	q := t.h[0]
	t.removeAt(0)
	t.arm(c) // at once, because the thread may not come back for it
	return q
}

// remove forgets a QP that is being destroyed.
func (t *timerHeap) remove(q *QP) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if q.timer.heapIndex != 0 {
		t.removeAt(q.timer.heapIndex - 1)
	}
}

func (t *timerHeap) removeAt(i int) {
	q, last := t.h[i], len(t.h)-1
	t.swap(i, last)
	t.h[last] = nil
	t.h = t.h[:last]
	q.timer.heapIndex = 0
	if i < last {
		t.up(i)
		t.down(i)
	}
}

func (t *timerHeap) swap(i, j int) {
	t.h[i], t.h[j] = t.h[j], t.h[i]
	t.h[i].timer.heapIndex, t.h[j].timer.heapIndex = i+1, j+1
}

func (t *timerHeap) less(i, j int) bool {
	a, b := t.h[i], t.h[j]
	return a.timer.heapTime < b.timer.heapTime || (a.timer.heapTime == b.timer.heapTime && a.qpn < b.qpn)
}

func (t *timerHeap) up(i int) {
	for i > 0 {
		parent := (i - 1) / 2
		if !t.less(i, parent) {
			return
		}
		t.swap(i, parent)
		i = parent
	}
}

func (t *timerHeap) down(i int) {
	for {
		child := 2*i + 1
		if child >= len(t.h) {
			return
		}
		if child+1 < len(t.h) && t.less(child+1, child) {
			child++
		}
		if !t.less(child, i) {
			return
		}
		t.swap(i, child)
		i = child
	}
}
