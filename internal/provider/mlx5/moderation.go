package mlx5

import (
	"time"

	"golang.org/x/sys/unix"
)

// moderation has completion events wait for more completions (ibv_modify_cq). It belongs to a
// cqRing, whose mu guards it.
type moderation struct {
	work  interface{ Background(func()) }
	count uint32        // completions; 0 and 1: events do not wait
	most  time.Duration // how long an event waits; 0: without an end
	timer *time.Timer   // runs while an event waits; nil: none does
	wait  uint32        // counts the waits
	over  bool          // an event has waited long enough
}

// Moderate implements provider.Moderated (hw/mlx5/cq.c: mlx5_ib_modify_cq).
func (q *completionQueue) Moderate(count, micros uint16) error {
	if micros > maxCQPeriod {
		return unix.ERANGE
	}
	q.ring.mu.Lock()
	m := &q.ring.events
	m.stop()
	m.count, m.most = uint32(count), time.Duration(micros)*cqPeriod
	q.ring.mu.Unlock()
	if q.ring.notify != nil {
		q.ring.lookAtArm() // an event may have waited
	}
	return nil
}

// waits reports whether an event for n completions has to wait. overdue is called when it need not
// any more; it may block.
func (m *moderation) waits(n uint32, overdue func(wait uint32)) bool {
	if n >= m.count || m.over {
		m.stop()
		return false
	}
	if m.timer == nil && m.most > 0 {
		wait := m.wait
		m.timer = time.AfterFunc(m.most, func() { m.work.Background(func() { overdue(wait) }) })
	}
	return true
}

// stop ends the wait of an event.
func (m *moderation) stop() {
	if m.timer != nil {
		m.timer.Stop()
	}
	m.timer, m.over = nil, false
	m.wait++
}

// overdue gives the program an event that has waited long enough.
func (r *cqRing) overdue(wait uint32) {
	r.mu.Lock()
	still := r.events.wait == wait
	r.events.over = still
	r.mu.Unlock()
	if still {
		r.lookAtArm()
	}
}
