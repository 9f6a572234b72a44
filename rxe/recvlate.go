package rxe

// Requests posted in ERR are flushed (IBA 10.3.1.5). A receive queue in a program's memory is
// filled without a call of the device (librxe's post_recv), so the device has to look for receives
// that come late. It looks whenever the program uses the QP, or asks to be notified of completions
// of the QP's CQ. It also looks by itself, with pauses that grow with the time since the QP entered
// ERR. It looks often at first, when a program drains the QP. While a QP is left in ERR for a day,
// it looks some hundred times in all.

// lateLooks says when a QP in ERR is looked at next.
type lateLooks struct {
	until Time // 0: never
	since Time // since the QP entered ERR, or the program used it; 0: the QP is not looked at
}

// watchReceives begins to look for receives. The QP has entered ERR.
func (q *QP) watchReceives() {
	if q.rq == nil || q.rring != nil || q.resp.late.since != 0 {
		return // the QP has no queue of its own, or PostRecv flushes it
	}
	now := q.dev.cfg.Clock.Now()
	q.dev.lateQPs.Add(1)
	q.recvCQ.addLate(q)
	q.resp.late.since = now
	q.nextLook(now)
}

// unwatchReceives ends that: the QP leaves ERR.
func (q *QP) unwatchReceives() {
	if q.resp.late.since != 0 {
		q.resp.late = lateLooks{}
		q.dev.lateQPs.Add(-1)
		q.recvCQ.removeLate(q)
	}
}

// flushLate flushes what was posted since. The program uses the QP, so more may follow. The caller
// has locked the QP.
func (q *QP) flushLate() {
	if q.resp.late.since != 0 {
		now := q.dev.cfg.Clock.Now()
		q.resp.late.since = now
		q.resp.flushRecv(q)
		q.nextLook(now)
	}
}

// look flushes what was posted since, when the deadline has come.
func (q *QP) look(now Time) {
	if n, known := waitingIn(q.rq); !known || n > 0 {
		q.resp.late.since = now
		q.resp.flushRecv(q)
	}
	q.nextLook(now)
}

func (q *QP) nextLook(now Time) {
	l := &q.resp.late
	l.until = now + max(lateFirst, (now-l.since)/lateGrowth, Time(q.dev.lateQPs.Load())*lateEach)
	q.schedule()
}

func (c *CQ) addLate(q *QP) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.late == nil {
		c.late = make(map[*QP]struct{})
	}
	c.late[q] = struct{}{}
}

func (c *CQ) removeLate(q *QP) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.late, q)
}

// flushLate looks for receives of QPs in ERR that complete here. It waits for no QP.
func (c *CQ) flushLate() {
	var qps []*QP
	c.mu.Lock()
	for q := range c.late {
		if qps = append(qps, q); len(qps) == lateVisits {
			break // the deadlines of the others come
		}
	}
	c.mu.Unlock()
	for _, q := range qps {
		if q.tryRun() {
			q.flushLate()
			q.unlock(nil)
		}
	}
}
