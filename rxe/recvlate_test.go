package rxe

import (
	"testing"
	"time"

	"github.com/gorxe/gorxe/internal/test/must"
)

// newLateQP returns a QP in ERR whose receive queue lives elsewhere.
func newLateQP(t *testing.T) *creditPair {
	t.Helper()
	p := newCreditPair(t, false)
	p.ring.n = 1
	must.OK(t, p.to.Modify(&QPAttr{State: QPErr}, QPAttrState))
	p.flushed("what was posted before", 1)
	return p
}

// flushed wants n receives to have been flushed since the last call.
func (p *creditPair) flushed(when string, n int) {
	p.t.Helper()
	wcs := make([]WC, 64)
	got, err := p.cq.Poll(wcs)
	must.OK(p.t, err)
	recvs := 0
	for _, wc := range wcs[:got] {
		if wc.Opcode == WCRecv {
			recvs++
		}
		if wc.Status != WCFlushErr || wc.QPN != p.to.qpn {
			p.t.Errorf("%s: %+v, want it flushed", when, wc)
		}
	}
	if recvs != n || p.ring.n != 0 {
		p.t.Errorf("%s: %d receives were flushed, want %d; %d are left", when, recvs, n, p.ring.n)
	}
}

// TestLateReceiveWhenUsed: whatever the program does with a QP in ERR, or with its CQ, flushes the
// receives that it posted before.
func TestLateReceiveWhenUsed(t *testing.T) {
	for name, use := range map[string]func(*creditPair) error{
		"ERR to ERR":          func(p *creditPair) error { return p.to.Modify(&QPAttr{State: QPErr}, QPAttrState) },
		"query":               func(p *creditPair) error { _, _, err := p.to.Query(); return err },
		"send":                func(p *creditPair) error { _, err := p.to.PostSend([]SendWR{{Op: WRSend}}); return err },
		"notification":        func(p *creditPair) error { return p.cq.ReqNotify(false) },
		"notification, solic": func(p *creditPair) error { return p.cq.ReqNotify(true) },
	} {
		t.Run(name, func(t *testing.T) {
			p := newLateQP(t)
			p.ring.n = 3
			must.OK(t, use(p))
			p.flushed(name, 3)
		})
	}
}

// TestLateReceiveByItself: the device looks for receives that a program posts in ERR, and then only
// polls.
func TestLateReceiveByItself(t *testing.T) {
	const soon = Time(100 * time.Millisecond)
	for _, after := range []Time{0, Time(time.Millisecond), Time(time.Second), Time(6 * time.Second)} {
		p := newLateQP(t)
		start := p.clock.now
		p.expireUntil(start + after)
		p.ring.n = 2
		p.expireUntil(start + after + soon)
		p.flushed("posted "+time.Duration(after).String()+" after ERR", 2)
	}
}

// expireUntil runs every deadline up to a time, and returns how many there were.
func (p *creditPair) expireUntil(end Time) (n int) {
	for p.clock.armed != 0 && p.clock.armed <= end {
		p.clock.now, p.clock.armed = max(p.clock.now, p.clock.armed), 0
		p.dev.Expire()
		n++
	}
	p.clock.now = max(p.clock.now, end)
	return n
}

// TestLateReceiveEnds: a QP that is left in ERR wakes its device more and more seldom. Outside of
// ERR it does not.
func TestLateReceiveEnds(t *testing.T) {
	p := newLateQP(t)
	start := p.clock.now
	if n := p.expireUntil(start + Time(24*time.Hour)); n == 0 || n > 1000 {
		t.Errorf("%d looks in a day, want some, and at most 1000", n)
	}
	must.OK(t, p.to.Modify(&QPAttr{State: QPReset}, QPAttrState))
	p.expireUntil(p.clock.now + Time(24*time.Hour)) // the entry that the QP has in the heap
	if n := p.expireUntil(p.clock.now + Time(24*time.Hour)); n != 0 {
		t.Errorf("%d looks in a day at a QP in RESET", n)
	}
	p.ring.n = 1
	must.OK(t, p.cq.ReqNotify(false))
	if p.ring.n != 1 || p.dev.lateQPs.Load() != 0 || len(p.cq.late) != 0 {
		t.Errorf("a QP in RESET is looked at: %d QPs, %d of the CQ", p.dev.lateQPs.Load(), len(p.cq.late))
	}
}

// TestLateReceiveMany: the more QPs are in ERR, the less often the device looks at each.
func TestLateReceiveMany(t *testing.T) {
	p := newLateQP(t)
	for range 400 {
		q, err := p.pd.CreateQP(QPInitAttr{Type: QPUD, SendCQ: p.cq, RecvCQ: p.cq, RecvRing: new(lentRing)})
		must.OK(t, err)
		must.OK(t, q.Modify(&QPAttr{State: QPInit, PortNum: 1}, RequiredMask(QPUD, QPReset, QPInit)))
		must.OK(t, q.Modify(&QPAttr{State: QPErr}, QPAttrState))
	}
	q, looks := p.to, 0
	until := q.resp.late.until
	for end := p.clock.now + Time(time.Second); p.clock.armed != 0 && p.clock.armed <= end; {
		p.expireUntil(p.clock.armed)
		if q.resp.late.until != until {
			until, looks = q.resp.late.until, looks+1
		}
	}
	if looks == 0 || looks > 60 {
		t.Errorf("%d looks at one of 401 QPs in a second, want some, and at most 60", looks)
	}
	must.OK(t, q.Destroy())
	if got := p.dev.lateQPs.Load(); got != 400 || len(p.cq.late) != 400 {
		t.Errorf("%d QPs are looked at after one was destroyed, %d of the CQ", got, len(p.cq.late))
	}
}
