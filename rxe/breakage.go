package rxe

// Breakage is what breaks with a work request, beside its QP.
type Breakage uint8

const (
	BreaksNothing Breakage = iota
	BreaksCQ               // where the work request would complete: EventCQErr
	BreaksSRQ              // where the receive work request was: EventSRQErr
)

// breakDown puts the queue in error for good. Each QP that completes here fails with its next
// completion (IBA 11.6.3).
func (c *CQ) breakDown() {
	c.mu.Lock()
	again := c.failed || c.dead
	c.failed = true
	c.mu.Unlock()
	if !again {
		c.dev.event(Event{Type: EventCQErr, CQ: c})
	}
}

// breakDown puts the queue in error for good. Each QP of it fails when it needs a receive work
// request (IBA 11.6.3).
func (s *SRQ) breakDown() {
	s.mu.Lock()
	again := s.failed || s.dead
	s.failed = true
	s.mu.Unlock()
	if !again {
		s.dev.event(Event{Type: EventSRQErr, SRQ: s})
	}
}

// broken reports whether the queue is in error.
func (s *SRQ) broken() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.failed
}

// reachLimit raises the limit event, whether or not the limit is reached, and disarms it.
func (s *SRQ) reachLimit() {
	s.mu.Lock()
	s.attr.Limit = 0
	s.mu.Unlock()
	s.dev.event(Event{Type: EventSRQLimitReached, SRQ: s})
}

// breakRecv breaks what the receive work requests of a QP, which is locked, depend on.
func (q *QP) breakRecv(b Breakage) {
	if b == BreaksSRQ && q.srq != nil {
		q.srq.breakDown()
		return
	}
	q.recvCQ.breakDown()
}

// FailQPs takes the QPs of an owner to ERR, as when the device fails. QPs in RESET stay there.
func (d *Device) FailQPs(owner any) {
	d.qps.each(func(_ uint32, q *QP) {
		if q.owner == owner {
			_ = q.Modify(&QPAttr{State: QPErr}, QPAttrState) // it may be in RESET, or destroyed
		}
	})
}

// HasSRQ reports whether the QP takes its receive work requests from an SRQ. It takes no lock.
func (q *QP) HasSRQ() bool { return q.typ == QPXRCTgt || q.srq != nil }
