package rxe

import (
	"sync"
	"sync/atomic"
)

// SRQInit is what CreateSRQ takes (struct ibv_srq_init_attr).
type SRQInit struct {
	MaxWR, MaxSGE uint32
	Limit         uint32
	// Ring replaces the queue when its WQEs live elsewhere. Nil means the SRQ's
	// own, which PostRecv fills. For the limit event a ring needs a method Len()
	// int, which returns the number of waiting work requests.
	Ring RecvRing
	// XRCD makes it an SRQ of XRC, whose receive work requests complete in CQ; nil: an ordinary
	// one.
	XRCD *XRCD
	CQ   *CQ
}

// SRQAttr is struct ibv_srq_attr.
type SRQAttr struct {
	MaxWR, MaxSGE uint32
	Limit         uint32 // 0: no event is requested
}

// SRQAttrMask holds bits of enum ibv_srq_attr_mask.
type SRQAttrMask uint32

const (
	SRQAttrMaxWR SRQAttrMask = 1 << 0
	SRQAttrLimit SRQAttrMask = 1 << 1
)

// SRQ is a receive queue that several QPs take from.
type SRQ struct {
	dev *Device
	pd  *PD
	xrc xrcSRQ

	mu   sync.Mutex // a leaf lock
	attr SRQAttr
	ring RecvRing
	own  *recvRing // ring, when it is the SRQ's own
	// fetcher is ring if it may block, and fetching says that a thread is in it (blocking.go).
	fetcher  FetchingRing
	fetching atomic.Bool
	dead     bool
	// failed says that the queue is in error for good.
	failed bool

	users int // QPs, guarded by dev.mu
}

// checkSRQ is Subdevice.CheckSRQ for these limits.
func (l *DeviceAttr) checkSRQ(maxWR, maxSGE uint32) error {
	const op = "CreateSRQ"
	if maxSGE > l.MaxSRQSGE && l.checkSRQWR(op, maxWR) == nil {
		return beyond(op, "max_sge", uint64(maxSGE), "exceeds max_srq_sge", LimitSRQSGE, uint64(l.MaxSRQSGE))
	}
	return l.checkSRQWR(op, maxWR)
}

func (l *DeviceAttr) checkSRQWR(op string, n uint32) error {
	if n < 1 || n > l.MaxSRQWR {
		return outside(op, "max_wr", uint64(n), LimitSRQWR, uint64(l.MaxSRQWR))
	}
	return nil
}

// CreateSRQ makes a shared receive queue (ibv_create_srq).
func (pd *PD) CreateSRQ(init SRQInit) (*SRQ, error) {
	const op = "CreateSRQ"
	d := pd.dev
	if err := pd.sub.CheckSRQ(init.MaxWR, init.MaxSGE); err != nil {
		return nil, err
	}
	if init.Limit > init.MaxWR {
		return nil, tooBig(op, "srq_limit", uint64(init.Limit), "exceeds max_wr", uint64(init.MaxWR))
	}
	if err := pd.claimSRQ(op, &init); err != nil {
		return nil, err
	}
	pd.sub.passed(LimitSRQWR, LimitSRQSGE)
	s := &SRQ{dev: d, pd: pd, ring: init.Ring,
		attr: SRQAttr{MaxWR: init.MaxWR, MaxSGE: init.MaxSGE, Limit: init.Limit}}
	if s.ring == nil {
		s.own = newRecvRing(init.MaxWR, init.MaxSGE)
		s.ring = s.own
	}
	s.fetcher, _ = init.Ring.(FetchingRing)
	if s.xrc = (xrcSRQ{xrcd: init.XRCD, cq: init.CQ}); s.xrc.xrcd != nil {
		d.xrcSRQs.insert(s, func() uint32 {
			s.xrc.num = d.random.index()
			return s.xrc.num
		})
	}
	d.mu.Lock()
	d.srqs[s] = struct{}{}
	d.mu.Unlock()
	return s, nil
}

// Query returns the present attributes (ibv_query_srq).
func (s *SRQ) Query() (SRQAttr, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dead {
		return SRQAttr{}, opErr("QuerySRQ", "srq", ErrClosed)
	}
	return s.attr, nil
}

// Modify changes the size, or arms the limit event (ibv_modify_srq). That event is
// raised once, when fewer than Limit work requests are left.
func (s *SRQ) Modify(attr SRQAttr, mask SRQAttrMask) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.checkModify(attr, mask); err != nil {
		return err
	}
	if mask&SRQAttrMaxWR != 0 {
		s.own = s.own.resized(attr.MaxWR)
		s.ring = s.own
		s.attr.MaxWR = attr.MaxWR
		s.pd.sub.passed(LimitSRQWR)
	}
	if mask&SRQAttrLimit != 0 {
		s.attr.Limit = attr.Limit
	}
	return nil
}

// ReplaceRing resizes an SRQ whose queue lives elsewhere. It calls move while
// nothing is taken. move returns the new ring, with the waiting work requests of
// the old one. If move returns an error, the SRQ stays as it was. A FetchingRing resizes
// itself: ErrNotSupported.
func (s *SRQ) ReplaceRing(maxWR uint32, move func() (RecvRing, error)) error {
	const op = "ModifySRQ"
	if err := s.pd.sub.checkSRQWR(op, maxWR); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.dead:
		return opErr(op, "srq", ErrClosed)
	case s.own != nil, s.fetcher != nil:
		return opErr(op, "srq", ErrNotSupported)
	case maxWR < s.attr.Limit:
		return invalid(op, "max_wr", "below srq_limit", "lower srq_limit, or ask for more")
	}
	ring, err := move()
	if err != nil {
		return err
	}
	s.ring, s.attr.MaxWR = ring, maxWR
	s.pd.sub.passed(LimitSRQWR)
	return nil
}

func (s *SRQ) checkModify(attr SRQAttr, mask SRQAttrMask) error {
	const op = "ModifySRQ"
	maxWR, limit := s.attr.MaxWR, s.attr.Limit
	if s.dead {
		return opErr(op, "srq", ErrClosed)
	}
	if mask == 0 || mask&^(SRQAttrMaxWR|SRQAttrLimit) != 0 {
		return invalid(op, "mask", "none, or unknown attributes", "use IBV_SRQ_MAX_WR and IBV_SRQ_LIMIT")
	}
	if mask&SRQAttrMaxWR != 0 {
		maxWR = attr.MaxWR
		if s.own == nil {
			return opErr(op, "max_wr", ErrNotSupported)
		}
		if err := s.pd.sub.checkSRQWR(op, maxWR); err != nil {
			return err
		}
		switch {
		case uint64(maxWR) < uint64(s.own.count):
			return invalid(op, "max_wr", "fewer than are waiting", "ask for more")
		}
	}
	if mask&SRQAttrLimit != 0 {
		limit = attr.Limit
	}
	if limit > maxWR {
		return tooBig(op, "srq_limit", uint64(limit), "exceeds max_wr", uint64(maxWR))
	}
	return nil
}

// PostRecv queues receive work requests (ibv_post_srq_recv) and returns how many it
// queued. With an error, that is the position of the bad one.
func (s *SRQ) PostRecv(wrs []RecvWR) (n int, err error) {
	const op = "PostSRQRecv"
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.dead:
		return 0, opErr(op, "srq", ErrClosed)
	case s.own == nil:
		return 0, opErr(op, "srq", ErrNotSupported)
	case s.failed:
		return 0, invalid(op, "srq", "is in error", "destroy it")
	}
	for n := range wrs {
		if err := s.own.post(&wrs[n]); err != nil {
			return n, err
		}
	}
	return len(wrs), nil
}

// Destroy frees the queue (ibv_destroy_srq). It returns ErrBusy while a QP uses it.
func (s *SRQ) Destroy() error {
	const op = "DestroySRQ"
	d := s.dev
	d.mu.Lock()
	defer d.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.dead:
		return opErr(op, "srq", ErrClosed)
	case s.users > 0:
		return opErr(op, "srq", ErrBusy)
	}
	s.dead = true
	s.ring, s.own = nil, nil
	delete(d.srqs, s)
	s.pd.sub.count(LimitSRQ, -1)
	s.pd.children--
	s.xrc.use(-1)
	if s.xrc.xrcd != nil {
		d.xrcSRQs.remove(s.xrc.num)
	}
	return nil
}

// pop takes the next work request. It raises the limit event if fewer than the
// limit are then left. For bad see RecvRing.
func (s *SRQ) pop(w *RecvWQE) (ok, bad bool) {
	s.fetch()
	s.mu.Lock()
	if s.dead || s.failed {
		s.mu.Unlock()
		return false, false
	}
	ok, bad = s.ring.Pop(w)
	low := ok && s.attr.Limit > 0 && s.below()
	if low {
		s.attr.Limit = 0
	}
	s.mu.Unlock()
	if low {
		s.dev.event(Event{Type: EventSRQLimitReached, SRQ: s})
	}
	return ok, bad
}

func (s *SRQ) below() bool {
	n, known := waitingIn(s.ring)
	return known && uint64(n) < uint64(s.attr.Limit)
}

// waiting returns how many work requests wait, if the ring has a method Len.
func (s *SRQ) waiting() (n int, known bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dead || s.failed {
		return 0, false
	}
	return waitingIn(s.ring)
}
