package rxe

import "errors"

// A receive work request completes late, so that completions of two queue pairs come in any
// order. Those of one receive queue keep theirs. What a completion promises is in memory by then:
// its message, and all earlier requests of the queue pair (IBA 9.5).

// lateWC is the completion of a receive work request.
type lateWC struct {
	wc        WC
	solicited bool
	due       Time
	after     uint64 // what was received before it, as lateWrites counts
}

// receive completes a receive work request, late or now. It reports false if the QP has failed.
func (c *chaos) receive(q *QP, wc *WC, solicited bool, st *step) bool {
	late := lateWC{wc: *wc, solicited: solicited, due: st.now + Time(c.draw(lateReceive)), after: c.writes.seq}
	if n := len(c.wcs); n > 0 {
		late.due = max(late.due, c.wcs[n-1].due)
	}
	c.wcs = append(c.wcs, late)
	for len(c.wcs) > 0 && (c.wcs[0].due <= st.now || len(c.wcs) > lateReceives) {
		if !c.receiveDone(q, st) {
			return false
		}
	}
	return true
}

// receiveDone pushes the oldest completion that waits. It reports false if the QP has failed.
func (c *chaos) receiveDone(q *QP, st *step) bool {
	if err := c.writes.place(through(c.wcs[0].after)); err != nil {
		c.failed(q, err, st)
		return false
	}
	late := c.wcs[0]
	c.wcs = append(c.wcs[:0], c.wcs[1:]...)
	if !q.pushRecv(&late.wc, late.solicited) {
		q.resp.end(q, faultOverflow, q.resp.psn, q.resp.msn, st)
		return false
	}
	return true
}

// failed takes the QP to ERR after data that was acknowledged could not be written.
func (c *chaos) failed(q *QP, err error, st *step) {
	for i := range c.wcs {
		id := c.wcs[i].wc.ID
		c.wcs[i].wc = WC{ID: id, Status: WCFlushErr, Opcode: WCRecv, QPN: q.qpn}
	}
	var at *placeError
	if errors.As(err, &at) {
		q.resp.end(q, at.pend.fault().inMemory(err), at.pend.psn, at.pend.msn, st)
	}
}
