package rxe

import (
	"errors"
	"testing"

	"github.com/gorxe/gorxe/internal/test/must"
	"github.com/gorxe/gorxe/wire"
)

// lentRing is a receive queue that lives elsewhere. It has as many empty receive work requests as n
// says.
type lentRing struct{ n int }

func (r *lentRing) Pop(w *RecvWQE) (ok, bad bool) {
	if r.n == 0 {
		return false, false
	}
	r.n--
	w.ID, w.SGL = 0, w.SGL[:0]
	return true, false
}

func (r *lentRing) Len() int { return r.n }

// creditPair is two connected queue pairs of one device. The second one has a receive queue that
// lives elsewhere.
type creditPair struct {
	*pairEnd
	t     *testing.T
	clock *armRecorder
	from  *QP
	to    *QP
	ring  *lentRing
}

func newCreditPair(t *testing.T, shared bool) *creditPair {
	t.Helper()
	p := &creditPair{t: t, clock: &armRecorder{now: 1}, ring: new(lentRing)}
	p.pairEnd = newPairEnd(t, p.clock, "10.0.0.1", 4096)
	init := QPInitAttr{Type: QPRC, SendCQ: p.cq, RecvCQ: p.cq, Cap: QPCap{MaxSendWR: 64, MaxRecvWR: 64}}
	var err error
	p.from, err = p.pd.CreateQP(init)
	must.OK(t, err)
	if shared {
		init.SRQ, err = p.pd.CreateSRQ(SRQInit{MaxWR: 64, Ring: p.ring})
		must.OK(t, err)
	} else {
		init.RecvRing = p.ring
	}
	p.to, err = p.pd.CreateQP(init)
	must.OK(t, err)
	connect(t, p.from, p.to, p.gid, 1024)
	connect(t, p.to, p.from, p.gid, 1024)
	return p
}

// post posts work requests of these operations, and wants n of them to be taken.
func (p *creditPair) post(n int, ops ...WROpcode) {
	p.t.Helper()
	var wrs []SendWR
	for _, op := range ops {
		wrs = append(wrs, SendWR{Op: op})
	}
	got, err := p.from.PostSendCredited(wrs)
	if got != n || (n == len(ops)) != (err == nil) || err != nil && !errors.Is(err, ErrNoCredit) {
		p.t.Errorf("%d of %d work requests were posted, want %d: %v", got, len(ops), n, err)
	}
}

// TestPostSendCredited: what is posted finds a receive work request. Messages that take none need
// no credit.
func TestPostSendCredited(t *testing.T) {
	for name, shared := range map[string]bool{"receive queue": false, "SRQ": true} {
		t.Run(name, func(t *testing.T) {
			p := newCreditPair(t, shared)
			p.post(0, WRSend)
			p.post(1, WRWrite, WRSend, WRWrite)
			p.ring.n = 2
			p.post(4, WRSend, WRWrite, WRSend, WRWrite, WRSend)
			p.post(0, WRSendImm)
			p.post(0, WRSendInv)
			p.post(0, WRWriteImm)
			p.ring.n = 2
			p.post(2, WRSendImm, WRWriteImm)
			if n := p.counter(t, nil, "send_rnr_err"); n != 0 || p.ring.n != 0 {
				t.Errorf("%d RNR NAKs, %d receive work requests left", n, p.ring.n)
			}
			p.take(t, 4) // receives
		})
	}
}

// TestNoCreditKnown: a requester that knows of no credits posts everything.
func TestNoCreditKnown(t *testing.T) {
	t.Run("RNR wait", func(t *testing.T) {
		p := newCreditPair(t, false)
		if _, err := p.from.PostSend([]SendWR{{Op: WRSend}}); err != nil {
			t.Fatal(err)
		}
		if p.counter(t, nil, "send_rnr_err") != 1 {
			t.Fatal("a message that finds no receive work request got no RNR NAK")
		}
		p.post(2, WRSend, WRSend)
		p.ring.n = 3
		p.clock.now += Time(wire.RNRTimeout(12))
		p.dev.Expire()
		if p.ring.n != 0 {
			t.Errorf("%d receive work requests are left", p.ring.n)
		}
		p.post(0, WRSend)
	})
	t.Run("intercepted", func(t *testing.T) {
		p := newCreditPair(t, false)
		p.dev.Intercept(interceptor{p.from.Num(), p.to.Num()})
		p.post(1, WRSend)
	})
	t.Run("others are intercepted", func(t *testing.T) {
		p := newCreditPair(t, false)
		p.dev.Intercept(interceptor{p.from.Num() + 1, p.to.Num() + 1})
		p.post(0, WRSend)
	})
	t.Run("ERR", func(t *testing.T) {
		p := newCreditPair(t, false)
		must.OK(t, p.from.Modify(&QPAttr{State: QPErr}, QPAttrState))
		p.post(2, WRSend, WRSend)
	})
	t.Run("peer is gone", func(t *testing.T) {
		p := newCreditPair(t, false)
		must.OK(t, p.to.Destroy())
		p.post(1, WRSend)
	})
	t.Run("another device", func(t *testing.T) {
		p := newPair(t, 1, 4096, 1024)
		if n, err := p.a.qps[0].PostSendCredited([]SendWR{{Op: WRSend}}); n != 1 || err != nil {
			t.Errorf("%d posted: %v", n, err)
		}
	})
	t.Run("receives in the engine", func(t *testing.T) {
		p := newCreditPair(t, false)
		// The other way round the peer has a queue of the engine.
		if n, err := p.to.PostSendCredited([]SendWR{{Op: WRSend}}); n != 1 || err != nil {
			t.Errorf("%d posted: %v", n, err)
		}
	})
	t.Run("SRQ in error", func(t *testing.T) {
		p := newCreditPair(t, true)
		p.to.srq.failed = true
		p.post(1, WRSend)
	})
}

// interceptor takes what one queue pair sends to another.
type interceptor struct{ src, dest wire.QPN }

func (i interceptor) Send([]wire.Burst) {}

func (i interceptor) Concerns(src, dest wire.QPN) bool { return src == i.src && dest == i.dest }

func (i interceptor) Wants(bursts []wire.Burst) bool {
	for j := range bursts {
		if i.Concerns(bursts[j].Route.SrcQP, destQP(bursts[j].Buf)) {
			return true
		}
	}
	return false
}
