package rxe

import "github.com/gorxe/gorxe/wire"

// XRC, the extended reliable connection service (IBA A14). Its requests are those of RC, with a
// header that names a shared receive queue. So a process needs one connection to each node, and not
// one to each process there. An initiator (QPXRCIni) only sends requests. A target (QPXRCTgt) only
// executes them, for all SRQs of its XRC domain. Such an SRQ has a completion queue and a
// protection domain of its own, to which the keys of requests belong.

// XRCD is an XRC domain. Devices share none.
type XRCD struct {
	dev *Device
	sub *Subdevice
	// Guarded by dev.mu.
	file  any // XRCDInit.File
	opens int // callers that have not closed it; 0: it is freed
	users int // SRQs and targets
}

// XRCDInit says which domain OpenXRCD opens (struct ibv_xrcd_init_attr).
type XRCDInit struct {
	// File is what the callers that share a domain have in common, as an inode. It is compared.
	// Nil: a new domain, of this caller only.
	File      any
	Create    bool // O_CREAT: the domain is made if there is none
	Exclusive bool // O_EXCL: ErrInvalid if there is one
}

// OpenXRCD opens an XRC domain (ibv_open_xrcd). It returns ErrNoDomain if no caller has the domain
// of the file open, and Create is false.
func (s *Subdevice) OpenXRCD(init XRCDInit) (*XRCD, error) {
	const op = "OpenXRCD"
	d := s.dev
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil, opErr(op, "device", ErrClosed)
	}
	if init.File != nil {
		x := d.files[init.File]
		switch {
		case x == nil && !init.Create:
			return nil, opErr(op, "fd", ErrNoDomain)
		case x != nil && init.Exclusive:
			return nil, invalid(op, "oflags", "O_EXCL, and the file has an XRC domain", "leave O_EXCL out")
		case x != nil:
			x.opens++
			return x, nil
		}
	}
	if d.whole.live.XRCD >= maxXRCDs {
		return nil, opErr(op, "", ErrLimit)
	}
	x := &XRCD{dev: d, sub: s, file: init.File, opens: 1}
	d.xrcds[x] = struct{}{}
	if init.File != nil {
		d.files[init.File] = x
	}
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

// Close closes the domain for one of the callers that have opened it. The last one frees it
// (ibv_close_xrcd), and gets ErrBusy while the domain has an SRQ or a target.
func (x *XRCD) Close() error {
	const op = "CloseXRCD"
	x.dev.mu.Lock()
	defer x.dev.mu.Unlock()
	switch {
	case x.opens == 0:
		return opErr(op, "xrcd", ErrClosed)
	case x.opens == 1 && x.users > 0:
		return opErr(op, "xrcd", ErrBusy)
	}
	if x.opens--; x.opens == 0 {
		delete(x.dev.xrcds, x)
		if x.file != nil {
			delete(x.dev.files, x.file)
		}
		x.sub.countXRCDs(-1)
	}
	return nil
}

// Users returns how many SRQs and targets belong to the domain.
func (x *XRCD) Users() int {
	x.dev.mu.Lock()
	defer x.dev.mu.Unlock()
	return x.users
}

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
	case x.opens == 0:
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

// xrcSRQ is what an SRQ of XRC has; all zero for another one.
type xrcSRQ struct {
	xrcd *XRCD
	cq   *CQ
	num  uint32 // by which requests name it
}

// Num returns the number of an SRQ of XRC, by which requests name it (ibv_get_srq_num). It is 0 for
// other SRQs.
func (s *SRQ) Num() uint32 { return s.xrc.num }

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
	}{{x.xrcd.opens == 0, "xrcd"}, {x.cq.dead, "cq"}} {
		if end.dead {
			pd.sub.count(LimitSRQ, -1)
			pd.children--
			return opErr(op, end.arg, ErrClosed)
		}
	}
	x.use(1)
	return nil
}
