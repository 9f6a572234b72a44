package rocev2

import "time"

// QP 1 takes packets of any host, so that hosts can connect. The senders of management
// datagrams repeat them, so some of a flood of them may pass, chosen by chance.
// thinning is how many packets to QP 1 pass.
type thinning struct {
	thinned uint8 // one in 2^thinned passes
	passed  int   // since the time since
	since   time.Time
	relax   *time.Timer // runs while thinned is not 0
}

// count counts packets that passed, and reports whether fewer shall pass from now on. Crowded
// reports whether the queue fills faster than it is read: a slow reader sees no high rate.
func (t *thinning) count(n int, now time.Time, crowded func() bool) bool {
	t.passed += n
	if t.passed < managementBatch {
		return false
	}
	fast := now.Sub(t.since) < time.Duration(t.passed)*managementGap
	t.passed, t.since = 0, now
	if t.thinned == maxThinning || !fast && !crowded() {
		return false
	}
	t.thinned += thinningStep
	return true
}

// isManagement reports whether a packet is for QP 1.
func isManagement(pkt []byte) bool {
	return len(pkt) >= minPacket && pkt[5] == 0 && pkt[6] == 0 && pkt[7] == managementQPN
}

// management counts packets to QP 1 that a reader got.
func (f *filter) management(rx *receiver, n int) {
	f.change(func() bool {
		if !f.count(n, time.Now(), rx.crowded) {
			return false
		}
		if f.relax == nil {
			f.relax = time.AfterFunc(thinningPeriod, f.thinLess)
		}
		return true
	})
}

// crowded reports whether half of the socket's room is taken.
func (r *receiver) crowded() (is bool) {
	_ = r.control(func(fd int) { // fails if it was closed
		info, err := socketMemory(fd)
		is = err == nil && info.queued > info.room/2
	})
	return is
}

// thinLess lets twice as many packets to QP 1 pass.
func (f *filter) thinLess() {
	f.change(func() bool {
		if f.relax == nil {
			return false // closed
		}
		if f.thinned--; f.thinned > 0 {
			f.relax.Reset(thinningPeriod)
		} else {
			f.relax = nil
		}
		return true
	})
}

// close ends the timer.
func (f *filter) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.relax != nil {
		f.relax.Stop()
		f.relax = nil
	}
}
