package rxe

import (
	"errors"
	"fmt"
	"sync"
	"testing"
)

// limitLog implements LimitWatch.
type limitLog map[string]int

func (l limitLog) Compared(limit Limit, refused bool) {
	if l[limit.String()]++; refused {
		l["refused by "+limit.String()]++
	}
}

// subdevice makes a device with one lower limit.
func (d *objDev) subdevice(l Limit, most uint64) (*Subdevice, limitLog) {
	d.t.Helper()
	log := make(limitLog)
	s, err := d.Subdevice(map[Limit]uint64{l: most}, log)
	d.must(err)
	return s, log
}

// subCases has for each limit a value, and a call that exceeds it when it is made once more than
// there are good ones.
var subCases = []struct {
	limit Limit
	most  uint64
	good  int
	err   error
	call  func(u *subUser) error
}{
	{LimitPD, 2, 1, ErrLimit, func(u *subUser) error { _, err := u.sub.AllocPD(); return err }},
	{LimitCQ, 2, 1, ErrLimit, func(u *subUser) error { _, err := u.sub.CreateCQ(CQInit{Entries: 1}); return err }},
	{LimitMR, 3, 3, ErrLimit, func(u *subUser) error { return u.reg(1, 0) }},
	{LimitMW, 0, 0, ErrLimit, func(u *subUser) error { _, err := u.pd.AllocMW(MWType1); return err }},
	{LimitAH, 1, 1, ErrLimit, func(u *subUser) error { _, err := u.pd.CreateAH(objAttr().AH); return err }},
	{LimitSRQ, 1, 1, ErrLimit, func(u *subUser) error { return u.srq(1, 1) }},
	{LimitQP, 2, 2, ErrLimit, func(u *subUser) error { return u.qp(QPCap{}) }},
	{LimitUC, 2, 2, ErrLimit, func(u *subUser) error { return u.uc() }},
	{LimitUC, 0, 0, ErrNotSupported, func(u *subUser) error { return u.uc() }},
	{LimitQP, 2, 2, ErrLimit, func(u *subUser) error { return u.uc() }},
	{LimitCQE, 9, 0, ErrInvalid, func(u *subUser) error { _, err := u.sub.CreateCQ(CQInit{Entries: 10}); return err }},
	{LimitCQE, 9, 0, ErrInvalid, func(u *subUser) error { return u.cq.Resize(10) }},
	{LimitQPWR, 9, 0, ErrInvalid, func(u *subUser) error { return u.qp(QPCap{MaxSendWR: 10}) }},
	{LimitQPWR, 9, 0, ErrInvalid, func(u *subUser) error { return u.qp(QPCap{MaxRecvWR: 10}) }},
	{LimitSGE, 2, 0, ErrInvalid, func(u *subUser) error { return u.qp(QPCap{MaxSendSGE: 3}) }},
	{LimitSGE, 2, 0, ErrInvalid, func(u *subUser) error { return u.qp(QPCap{MaxRecvSGE: 3}) }},
	{LimitInline, 60, 0, ErrInvalid, func(u *subUser) error { return u.qp(QPCap{MaxInlineData: 61}) }},
	{LimitSRQWR, 9, 0, ErrInvalid, func(u *subUser) error { return u.srq(10, 1) }},
	{LimitSRQSGE, 2, 0, ErrInvalid, func(u *subUser) error { return u.srq(9, 3) }},
	{LimitMemory, 8192, 2, ErrLimit, func(u *subUser) error { return u.reg(1, 0) }},
	// in three pages
	{LimitMemory, 8192, 0, ErrLimit, func(u *subUser) error { return u.reg(4098, 4095) }},
	// in all of them
	{LimitMemory, 8192, 0, ErrLimit, func(u *subUser) error { return u.reg(1<<64-1, 0) }},
}

// subUser makes objects on a Subdevice.
type subUser struct {
	t   *testing.T
	sub *Subdevice
	pd  *PD
	cq  *CQ
}

func newSubUser(t *testing.T, s *Subdevice) *subUser {
	t.Helper()
	u := &subUser{t: t, sub: s}
	var err error
	if u.pd, err = s.AllocPD(); err != nil {
		t.Fatal(err)
	}
	if u.cq, err = s.CreateCQ(CQInit{Entries: 1}); err != nil {
		t.Fatal(err)
	}
	return u
}

func (u *subUser) reg(length, addr uint64) error {
	_, err := u.pd.RegMR(&objMem{}, addr, length, 0, AccessLocalWrite)
	return err
}

func (u *subUser) srq(wr, sge uint32) error {
	_, err := u.pd.CreateSRQ(SRQInit{MaxWR: wr, MaxSGE: sge})
	return err
}

func (u *subUser) qp(c QPCap) error {
	_, err := u.pd.CreateQP(QPInitAttr{Type: QPRC, SendCQ: u.cq, RecvCQ: u.cq, Cap: c})
	return err
}

func (u *subUser) uc() error {
	_, err := u.pd.CreateQP(QPInitAttr{Type: QPUC, SendCQ: u.cq, RecvCQ: u.cq})
	return err
}

// TestSubdevice: a call beyond a lower limit fails as with the device's own. The device, and other
// users of it, still have theirs, whatever the others have made.
func TestSubdevice(t *testing.T) {
	for i, c := range subCases {
		t.Run(fmt.Sprint(i, c.limit), func(t *testing.T) {
			d := newObjDev(t)
			s, log := d.subdevice(c.limit, c.most)
			same, _ := d.subdevice(c.limit, c.most)
			for _, u := range []*subUser{newSubUser(t, d.Whole()), newSubUser(t, d.Whole())} {
				for range c.good + 1 {
					d.must(c.call(u))
				}
			}
			for _, sub := range []*Subdevice{s, same} {
				u := newSubUser(t, sub)
				for range c.good {
					d.must(c.call(u))
				}
				err := c.call(u)
				var op *OpError
				if !errors.Is(err, c.err) || !errors.As(err, &op) || op.Limit != c.limit || !op.Lowered {
					t.Errorf("%v, want %v", err, c.err)
				}
			}
			if n := log["refused by "+c.limit.String()]; n != 1 || log[c.limit.String()] < 1+c.good {
				t.Errorf("of the limit, %v", log)
			}
			attr := s.Attr()
			if c.limit != LimitMemory && c.limit != LimitUC && attr.Limit(c.limit) != c.most {
				t.Errorf("the user sees %v=%d", c.limit, attr.Limit(c.limit))
			}
		})
	}
}

// TestSubdeviceGivesBack: an object that is gone makes room for another.
func TestSubdeviceGivesBack(t *testing.T) {
	d := newObjDev(t)
	s, err := d.Subdevice(map[Limit]uint64{LimitPD: 2, LimitCQ: 1, LimitMR: 1, LimitMW: 1, LimitAH: 1, LimitSRQ: 1, LimitQP: 1, LimitUC: 1, LimitMemory: 4096}, make(limitLog))
	d.must(err)
	u := newSubUser(t, s)
	for range 3 {
		pd, err := s.AllocPD()
		d.must(err)
		mr, err := u.pd.RegMR(&objMem{}, 0, 4096, 0, 0)
		d.must(err)
		d.must(mr.Rereg(ReregPD, pd, nil, 0, 0, 0, 0))
		if err := mr.Rereg(ReregTranslation, nil, &objMem{}, 0, 4097, 0, 0); !errors.Is(err, ErrLimit) {
			t.Errorf("a region that grows: %v", err)
		}
		d.must(mr.Rereg(ReregTranslation, nil, &objMem{}, 0, 100, 0, 0))
		mw, err := u.pd.AllocMW(MWType1)
		d.must(err)
		ah, err := u.pd.CreateAH(objAttr().AH)
		d.must(err)
		srq, err := u.pd.CreateSRQ(SRQInit{MaxWR: 1})
		d.must(err)
		qp, err := u.pd.CreateQP(QPInitAttr{Type: QPUC, SendCQ: u.cq, RecvCQ: u.cq})
		d.must(err)
		for _, end := range []func() error{mr.Dereg, mw.Dealloc, ah.Destroy, srq.Destroy, qp.Destroy, pd.Dealloc} {
			d.must(end())
		}
	}
	d.must(u.cq.Destroy())
	d.must(u.pd.Dealloc())
	if s.live != (ObjectCounts{}) || s.registered != 0 || d.Objects() != (ObjectCounts{}) {
		t.Errorf("left: %+v, %d pages", s.live, s.registered)
	}
}

// TestSubdeviceAtOnce: threads that make and end objects at once never have more than the limits
// allow, and give all back.
func TestSubdeviceAtOnce(t *testing.T) {
	d := newObjDev(t)
	s, err := d.Subdevice(map[Limit]uint64{LimitPD: 3, LimitMR: 2, LimitMemory: 8192}, deafWatch{})
	d.must(err)
	var threads sync.WaitGroup
	for range 4 {
		threads.Go(func() {
			for range 200 {
				pd, err := s.AllocPD()
				if err != nil {
					continue
				}
				if mr, err := pd.RegMR(&objMem{}, 0, 4096, 0, 0); err == nil {
					var rereg sync.WaitGroup
					// the other may be first
					rereg.Go(func() { _ = mr.Rereg(ReregTranslation, nil, &objMem{}, 0, 8192, 0, 0) })
					d.must(mr.Dereg())
					rereg.Wait()
				}
				d.must(pd.Dealloc())
				s.dev.mu.Lock()
				if s.live.PD > 3 || s.live.MR > 2 || s.registered > 2 {
					t.Errorf("%+v, %d pages", s.live, s.registered)
				}
				s.dev.mu.Unlock()
			}
		})
	}
	threads.Wait()
	if s.live != (ObjectCounts{}) || s.registered != 0 || d.Objects() != (ObjectCounts{}) {
		t.Errorf("left: %+v, %d pages", s.live, s.registered)
	}
}

// deafWatch implements LimitWatch.
type deafWatch struct{}

func (deafWatch) Compared(Limit, bool) {}

// TestSubdeviceRoundsNoFurther: sizes that the device rounds up stay within the lower limits.
func TestSubdeviceRoundsNoFurther(t *testing.T) {
	d := newObjDev(t)
	s, err := d.Subdevice(map[Limit]uint64{LimitSGE: 3, LimitInline: 60}, make(limitLog))
	d.must(err)
	u := newSubUser(t, s)
	qp, err := u.pd.CreateQP(QPInitAttr{Type: QPRC, SendCQ: u.cq, RecvCQ: u.cq, Cap: QPCap{MaxSendSGE: 1, MaxInlineData: 60}})
	d.must(err)
	_, init, err := qp.Query()
	d.must(err)
	if init.Cap.MaxSendSGE != 3 || init.Cap.MaxInlineData != 60 {
		t.Errorf("sizes %+v", init.Cap)
	}
}

// TestSubdeviceLimitsNothing: what the device allows anyhow is no lower limit, and a call that the
// device itself refuses is not refused by the lower limit.
func TestSubdeviceLimitsNothing(t *testing.T) {
	d := newObjDev(t)
	own := d.Attr()
	if _, err := d.Subdevice(map[Limit]uint64{LimitQP: own.Limit(LimitQP)}, make(limitLog)); !errors.Is(err, ErrInvalid) {
		t.Errorf("max_qp as it is: %v", err)
	}
	s, log := d.subdevice(LimitCQE, 9)
	all := newSubUser(t, s)
	for range 2 {
		d.must(all.reg(1<<64-1, 0)) // without a limit of memory
	}
	_, err := s.CreateCQ(CQInit{Entries: int(own.MaxCQE) + 1})
	if op := (*OpError)(nil); !errors.As(err, &op) || op.Lowered || log["refused by max_cqe"] != 0 {
		t.Errorf("%v, %v", err, log)
	}
}

// TestSubdeviceRdAtomic: modify_qp refuses more READs than the lower limit.
func TestSubdeviceRdAtomic(t *testing.T) {
	d := newObjDev(t)
	s, log := d.subdevice(LimitRdAtomic, 2)
	u := newSubUser(t, s)
	qp, err := u.pd.CreateQP(QPInitAttr{Type: QPRC, SendCQ: u.cq, RecvCQ: u.cq})
	d.must(err)
	attr := objAttr()
	attr.State = QPInit
	d.must(qp.Modify(&attr, RequiredMask(QPRC, QPReset, QPInit)))
	attr.State, attr.MaxDestRdAtomic = QPRTR, 3
	d.want(qp.Modify(&attr, RequiredMask(QPRC, QPInit, QPRTR)), ErrInvalid, "max_dest_rd_atomic")
	attr.MaxDestRdAtomic = 2
	d.must(qp.Modify(&attr, RequiredMask(QPRC, QPInit, QPRTR)))
	attr.State, attr.MaxRdAtomic = QPRTS, 3
	d.want(qp.Modify(&attr, RequiredMask(QPRC, QPRTR, QPRTS)), ErrInvalid, "max_rd_atomic")
	if log["max_rd_atomic"] != 3 || log["refused by max_rd_atomic"] != 2 {
		t.Errorf("%v", log)
	}
	if p := s.QueryPort(); p.MaxMsgSize != MaxMessage {
		t.Errorf("messages of %d bytes", p.MaxMsgSize)
	}
}
