package rxe

import "github.com/gorxe/gorxe/wire"

// XRC, the extended reliable connection service (IBA A14). Its requests are those of RC, with a
// header that names a shared receive queue. So a process needs one connection to each node, and not
// one to each process there. An initiator (QPXRCIni) only sends requests. A target (QPXRCTgt) only
// executes them, for all SRQs of its XRC domain. Such an SRQ has a completion queue and a
// protection domain of its own, to which the keys of requests belong.

// XRCD is an XRC domain. Devices share none.
type XRCD struct {
	dev   *Device
	sub   *Subdevice
	users int  // SRQs and targets; guarded by dev.mu
	dead  bool // guarded by dev.mu
}

// AllocXRCD makes an XRC domain (ibv_open_xrcd). The caller knows by which file others open it.
func (s *Subdevice) AllocXRCD() (*XRCD, error) {
	const op = "OpenXRCD"
	d := s.dev
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.closed:
		return nil, opErr(op, "device", ErrClosed)
	case d.whole.live.XRCD >= maxXRCDs:
		return nil, opErr(op, "", ErrLimit)
	}
	x := &XRCD{dev: d, sub: s}
	d.xrcds[x] = struct{}{}
	s.countXRCDs(1)
	return x, nil
}

// countXRCDs adds n to the count of XRC domains. The caller holds dev.mu.
func (s *Subdevice) countXRCDs(n int) {
	s.dev.whole.live.XRCD += n
	if s != &s.dev.whole {
		s.live.XRCD += n
	}
}

// Dealloc frees the domain (ibv_close_xrcd). It returns ErrBusy while it has an SRQ or a target.
func (x *XRCD) Dealloc() error {
	const op = "CloseXRCD"
	x.dev.mu.Lock()
	defer x.dev.mu.Unlock()
	switch {
	case x.dead:
		return opErr(op, "xrcd", ErrClosed)
	case x.users > 0:
		return opErr(op, "xrcd", ErrBusy)
	}
	x.dead = true
	delete(x.dev.xrcds, x)
	x.sub.countXRCDs(-1)
	return nil
}

// Users returns how many SRQs and targets belong to the domain.
func (x *XRCD) Users() int {
	x.dev.mu.Lock()
	defer x.dev.mu.Unlock()
	return x.users
}

// Device returns the domain's device.
func (x *XRCD) Device() *Device { return x.dev }

// CreateTarget makes an XRC target in RESET. It uses nothing of init but Faults, Reports, User and
// Owner: a target has neither queues nor a protection domain. It delivers nothing late (Chaos).
func (s *Subdevice) CreateTarget(x *XRCD, init QPInitAttr) (*QP, error) {
	const op = "CreateQP"
	if x == nil || x.dev != s.dev {
		return nil, invalid(op, "xrcd", "is not of this device", "use an XRC domain of the context")
	}
	return s.newQP(nil, x, QPInitAttr{Type: QPXRCTgt, Faults: init.Faults, Reports: init.Reports, User: init.User, Owner: init.Owner})
}

// OpenQP returns a target of the domain by its number (ibv_open_qp). Each caller of OpenQP and of
// CreateTarget destroys it, and the last one frees it.
func (x *XRCD) OpenQP(num wire.QPN) (*QP, error) {
	const op = "OpenQP"
	x.dev.mu.Lock()
	defer x.dev.mu.Unlock()
	q := x.dev.lookupQP(num)
	switch {
	case x.dead:
		return nil, opErr(op, "xrcd", ErrClosed)
	case q == nil || q.xrcd != x || q.opens == 0:
		return nil, invalid(op, "qp_num", "is no target of the XRC domain", "use the number of one that was created in it")
	}
	q.opens++
	return q, nil
}

// release reports whether the last caller that had opened the QP destroys it. QPs of other types
// are not shared.
func (q *QP) release() bool {
	if q.xrcd == nil {
		return true
	}
	q.dev.mu.Lock()
	defer q.dev.mu.Unlock()
	q.opens = max(q.opens-1, 0)
	return q.opens == 0
}

// XRCD returns the XRC domain of a target; nil: the QP is not a target. It takes no lock.
func (q *QP) XRCD() *XRCD { return q.xrcd }

// xrcSRQ is what an SRQ of XRC has; all zero for another one.
type xrcSRQ struct {
	xrcd *XRCD
	cq   *CQ
	num  uint32 // by which requests name it
}

// Num returns the number of an SRQ of XRC, by which requests name it (ibv_get_srq_num). It is 0 for
// other SRQs.
func (s *SRQ) Num() uint32 { return s.xrc.num }

// CQ returns where the receives of an SRQ of XRC complete; nil: it is another SRQ.
func (s *SRQ) CQ() *CQ { return s.xrc.cq }

// XRCD returns the domain of an SRQ of XRC; nil: it is another SRQ.
func (s *SRQ) XRCD() *XRCD { return s.xrc.xrcd }

// use adds n to the users of what the SRQ refers to. The caller holds dev.mu.
func (x *xrcSRQ) use(n int) {
	if x.xrcd != nil {
		x.xrcd.users += n
		x.cq.users += n
	}
}

// claimSRQ counts a new SRQ on everything it uses, or on nothing if it returns an error.
func (pd *PD) claimSRQ(op string, init *SRQInit) error {
	x, d := xrcSRQ{xrcd: init.XRCD, cq: init.CQ}, pd.dev
	switch {
	case x.xrcd == nil && x.cq == nil:
	case x.xrcd == nil || x.xrcd.dev != d:
		return invalid(op, "xrcd", "is not of this device", "use an XRC domain of the PD's context")
	case x.cq == nil || x.cq.dev != d:
		return invalid(op, "cq", "is not of this device", "use a CQ of the PD's context")
	}
	if err := pd.sub.claim(op, LimitSRQ, pd); err != nil || x.xrcd == nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, end := range []struct {
		dead bool
		arg  string
	}{{x.xrcd.dead, "xrcd"}, {x.cq.dead, "cq"}} {
		if end.dead {
			pd.sub.count(LimitSRQ, -1)
			pd.children--
			return opErr(op, end.arg, ErrClosed)
		}
	}
	x.use(1)
	return nil
}
