package rxe

import "github.com/gorxe/gorxe/wire"

// sgeBytes is the space of one SGE in a send WQE (struct rxe_sge). Inline data and the
// gather list share that space, so that asking for one gives as much of the other
// (rxe_qp_init_req does the same).
const sgeBytes = 16

// CreateQP makes a queue pair in RESET (ibv_create_qp). Its sizes are at least
// those asked for; Query returns them.
func (pd *PD) CreateQP(init QPInitAttr) (*QP, error) {
	if err := pd.checkInit("CreateQP", &init); err != nil {
		return nil, err
	}
	return pd.sub.newQP(pd, nil, init)
}

// newQP makes a queue pair of what has been checked. An XRC target has an XRC domain, others a
// protection domain.
func (s *Subdevice) newQP(pd *PD, x *XRCD, init QPInitAttr) (*QP, error) {
	const op = "CreateQP"
	d, facts := s.dev, factsOf[init.Type]
	if init.Type == QPUD && init.BlockSelfMulticast {
		facts = udBlockSelf
	}
	if init.Type == QPRaw {
		facts = &typeFacts{service: noService, frames: init.Frames}
	}
	q := &QP{
		qpMade: qpMade{
			dev: d, sub: s, maxMessage: s.maxMessage(), typ: init.Type, facts: facts, reliable: facts.reliable,
			sendCQ: init.SendCQ, xrcd: x, signalAll: init.SignalAll,
			onSendDone: init.OnSendDone, owner: init.Owner, faults: init.Faults, reports: init.Reports, observer: init.Observer,
			chaos: init.Chaos.forQP(&d.pools.late),
		},
		intake:  intake{srq: init.SRQ, recvCQ: init.RecvCQ, pd: pd},
		listing: listing{user: init.User},
		opens:   1,
	}
	q.gate.init()
	q.attr.Cap = s.roundCap(init.Cap)
	if err := q.claim(op); err != nil {
		return nil, err
	}
	q.sub.passed(LimitQPWR, LimitSGE, LimitInline)
	switch {
	case q.srq != nil, q.recvCQ == nil: // an XRC initiator or target has no receive queue
		q.attr.Cap.MaxRecvWR, q.attr.Cap.MaxRecvSGE = 0, 0
	case init.RecvRing != nil:
		q.rq = init.RecvRing
	default:
		q.rring = newRecvRing(q.attr.Cap.MaxRecvWR, q.attr.Cap.MaxRecvSGE)
		q.rq = q.rring
	}
	q.sq.init(q.attr.Cap)
	// Packets may find the QP as soon as it has a number. They wait in its inbox.
	q.lock()
	defer q.unlock(nil)
	q.number = d.kindOf(q)
	q.qpn = wire.QPN(d.qps.insert(q, func() uint32 { return d.newQPN(q.number) }))
	q.reset()
	q.publish()
	return q, nil
}

func (pd *PD) checkInit(op string, a *QPInitAttr) error {
	switch {
	case a.Type == QPXRCTgt:
		return invalid(op, "qp_type", "a target belongs to an XRC domain", "create it with the domain")
	case factsOf[a.Type] == nil:
		return &OpError{Op: op, Arg: "qp_type", Why: a.Type.String(), Err: ErrNotSupported}
	case a.SendCQ == nil || a.SendCQ.dev != pd.dev:
		return invalid(op, "send_cq", "is not of this device", "use a CQ of the PD's context")
	case a.Type == QPXRCIni:
		a.RecvCQ, a.SRQ, a.RecvRing = nil, nil, nil // ignored, as the kernel does (create_qp)
		return pd.sub.CheckQPCap(&a.Cap, true)
	case a.RecvCQ == nil || a.RecvCQ.dev != pd.dev:
		return invalid(op, "recv_cq", "is not of this device", "use a CQ of the PD's context")
	case a.SRQ != nil && a.SRQ.dev != pd.dev:
		return invalid(op, "srq", "is not of this device", "use an SRQ of the PD's context")
	case a.Type == QPRaw:
		if err := a.checkRaw(op); err != nil {
			return err
		}
	}
	if err := pd.dev.cfg.Quirks.checkType(op, a.Type); err != nil {
		return err
	}
	return pd.sub.CheckQPCap(&a.Cap, a.SRQ != nil)
}

// checkQPCap is Subdevice.CheckQPCap for these limits.
func (l *DeviceAttr) checkQPCap(c *QPCap, sharedRecv bool) error {
	const op = "CreateQP"
	switch {
	case c.MaxSendWR > l.MaxQPWR:
		return beyond(op, "cap.max_send_wr", uint64(c.MaxSendWR), "exceeds max_qp_wr", LimitQPWR, uint64(l.MaxQPWR))
	case c.MaxSendSGE > l.MaxSGE:
		return beyond(op, "cap.max_send_sge", uint64(c.MaxSendSGE), "exceeds max_sge", LimitSGE, uint64(l.MaxSGE))
	case c.MaxInlineData > l.MaxInlineData:
		return beyond(op, "cap.max_inline_data", uint64(c.MaxInlineData), "exceeds the device's limit", LimitInline, uint64(l.MaxInlineData))
	case !sharedRecv && c.MaxRecvWR > l.MaxQPWR:
		return beyond(op, "cap.max_recv_wr", uint64(c.MaxRecvWR), "exceeds max_qp_wr", LimitQPWR, uint64(l.MaxQPWR))
	case !sharedRecv && c.MaxRecvSGE > l.MaxSGE:
		return beyond(op, "cap.max_recv_sge", uint64(c.MaxRecvSGE), "exceeds max_sge", LimitSGE, uint64(l.MaxSGE))
	}
	return nil
}

// roundCap returns the sizes of a QP for which c was asked.
func roundCap(c QPCap) QPCap {
	space := max(c.MaxSendSGE*sgeBytes, (c.MaxInlineData+sgeBytes-1)&^(sgeBytes-1))
	c.MaxSendSGE, c.MaxInlineData = space/sgeBytes, space
	return c
}

// roundCap returns the sizes of a QP for which c, which has been checked, was asked.
func (s *Subdevice) roundCap(c QPCap) QPCap {
	r := roundCap(c)
	r.MaxSendSGE, r.MaxInlineData = min(r.MaxSendSGE, s.attr.MaxSGE), min(r.MaxInlineData, s.attr.MaxInlineData)
	return r
}

// claim counts the QP on everything it uses, or on nothing if it returns an error.
func (q *QP) claim(op string) error {
	d := q.dev
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.closed:
		return opErr(op, "device", ErrClosed)
	case q.pd != nil && q.pd.dead:
		return opErr(op, "pd", ErrClosed)
	case q.xrcd != nil && q.xrcd.opens == 0:
		return opErr(op, "xrcd", ErrClosed)
	case q.sendCQ != nil && q.sendCQ.dead:
		return opErr(op, "send_cq", ErrClosed)
	case q.recvCQ != nil && q.recvCQ.dead:
		return opErr(op, "recv_cq", ErrClosed)
	case q.srq != nil && q.srq.dead:
		return opErr(op, "srq", ErrClosed)
	}
	if err := q.sub.takeQP(op, q.typ); err != nil {
		return err
	}
	if q.chaos != nil {
		q.pd.addChaos(q)
		q.recvPD().addChaos(q)
	}
	q.use(1)
	return nil
}

// use adds n to the users of what the QP refers to. The caller holds dev.mu.
func (q *QP) use(n int) {
	if q.xrcd != nil { // it uses nothing of its intake, which changes
		q.xrcd.users += n
		return
	}
	q.pd.children += n
	q.sendCQ.users += n
	if q.recvCQ != nil {
		q.recvCQ.users += n
	}
	if q.srq != nil {
		q.srq.users += n
	}
}

// Query returns what was set, and what the QP was made from (ibv_query_qp).
func (q *QP) Query() (QPAttr, QPInitAttr, error) {
	q.lock()
	defer q.unlock(nil)
	if q.dead {
		return QPAttr{}, QPInitAttr{}, opErr("QueryQP", "qp", ErrClosed)
	}
	q.flushLate()
	attr := q.attr
	attr.CurState = attr.State
	init := QPInitAttr{Type: q.typ, SendCQ: q.sendCQ, Cap: attr.Cap, SignalAll: q.signalAll}
	if q.typ != QPXRCTgt {
		init.RecvCQ, init.SRQ = q.recvCQ, q.srq
	}
	return attr, init, nil
}

// Destroy frees the queue pair and its queued work, which does not complete (ibv_destroy_qp). It
// returns ErrBusy while the QP is attached to a multicast group or type 2A windows are bound on it.
// It waits for a thread that accesses memory on behalf of the QP, however long that takes. Of those
// that have opened an XRC target, only the last one frees it.
func (q *QP) Destroy() error {
	if !q.release() {
		return nil
	}
	return q.destroy()
}

// destroy is Destroy, even if other callers have opened the QP.
func (q *QP) destroy() error {
	d := q.dev
	if err := q.die(); err != nil {
		return err
	}

	d.timers.remove(q)
	q.unlist()
	d.freeQPN(q)
	d.mu.Lock()
	defer d.mu.Unlock()
	q.sub.giveQP(q.typ)
	if q.chaos != nil {
		delete(q.pd.chaos, q)
		delete(q.recvPD().chaos, q)
	}
	q.use(-1)
	return nil
}

// die empties the QP for good.
func (q *QP) die() error {
	const op = "DestroyQP"
	q.lock()
	defer q.unlock(nil)
	switch {
	case q.dead:
		return opErr(op, "qp", ErrClosed)
	case q.dev.whole.attr.Cap&CapMemWindowType2A != 0 && q.windows.Load() > 0:
		return opErr(op, "qp", ErrBusy)
	case !q.leaveMcast():
		return opErr(op, "qp", ErrBusy)
	}
	q.reset()
	q.dead = true
	q.gate.closeInbox()
	return nil
}
