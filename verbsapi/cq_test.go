package verbsapi

import (
	"context"
	"errors"
	"testing"
)

func TestCQ(t *testing.T) {
	ctx := testContext(t)
	a, _ := newPair(t, endConfig{}, ConnectAttr{})
	// In ERR, posted requests complete at once.
	if err := a.qp.Modify(&QPAttr{State: QPErr}, QPAttrState); err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		a.post(SendWR{ID: uint64(i), Op: WRWrite})
	}
	a.expect(ctx, 0, WCFlushErr)
	if err := a.cq.Resize(1); !errors.Is(err, ErrInvalid) {
		t.Errorf("too small: %v", err)
	}
	if err := a.cq.Resize(500); err != nil || a.cq.Cap() != 500 {
		t.Errorf("Resize: %v, %d", err, a.cq.Cap())
	}
	a.expect(ctx, 1, WCFlushErr)
	a.expect(ctx, 2, WCFlushErr)
	if n, err := a.cq.Poll(make([]WC, 4)); n != 0 || err != nil {
		t.Errorf("empty: %d, %v", n, err)
	}
	if err := a.cq.Destroy(ctx); !errors.Is(err, ErrBusy) {
		t.Errorf("with a queue pair: %v", err)
	}
	if err := a.qp.Destroy(ctx); err != nil {
		t.Error(err)
	}
	if err := a.cq.Destroy(ctx); err != nil {
		t.Error(err)
	}
	if _, err := a.cq.Wait(ctx, make([]WC, 1)); !errors.Is(err, ErrClosed) {
		t.Errorf("destroyed: %v", err)
	}
	if _, err := a.ctx.CreateCQ(0, nil); !errors.Is(err, ErrInvalid) {
		t.Errorf("no entries: %v", err)
	}
	short, cancel := context.WithCancel(ctx)
	cancel()
	cq := must(a.ctx.CreateCQ(1, nil))(t)
	if _, err := cq.Wait(short, make([]WC, 1)); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

func TestCompChannel(t *testing.T) {
	ctx := testContext(t)
	c := openTest(t, Config{})
	ch := must(c.CreateCompChannel())(t)
	a, b := pair(t, c, c, endConfig{}, ConnectAttr{})
	cq := must(c.CreateCQ(16, ch))(t)
	qp := must(b.pd.CreateQP(QPInitAttr{Type: QPRC, SendCQ: cq, RecvCQ: cq, Cap: b.qp.init.Cap}))(t)
	peer := must(a.pd.CreateQP(QPInitAttr{Type: QPRC, SendCQ: a.cq, RecvCQ: a.cq, Cap: a.qp.init.Cap}))(t)
	iq, ip := must(qp.Info(1, 0))(t), must(peer.Info(2, 0))(t)
	if err := errors.Join(qp.Connect(iq, ip, ConnectAttr{}), peer.Connect(ip, iq, ConnectAttr{})); err != nil {
		t.Fatal(err)
	}
	b.qp, a.qp = qp, peer
	send := func(flags SendFlags) {
		t.Helper()
		b.recv(1, 0, 8)
		a.post(SendWR{ID: 2, Op: WRSend, Flags: flags, SGL: []SGE{a.mr.SGE(0, 8)}})
		a.expect(ctx, 2, WCSuccess)
	}

	if err := cq.ReqNotify(true); err != nil {
		t.Fatal(err)
	}
	send(0)
	if n := ch.events.Len(); n != 0 {
		t.Errorf("%d events for one that is not solicited", n)
	}
	send(SendSolicited)
	if got := must(ch.GetEvent(ctx))(t); got != cq {
		t.Error("an event of another queue")
	}
	if err := cq.AckEvents(2); !errors.Is(err, ErrInvalid) {
		t.Errorf("acknowledging too many: %v", err)
	}
	if n := must(cq.Poll(make([]WC, 9)))(t); n != 2 {
		t.Errorf("%d completions", n)
	}
	if err := ch.Destroy(); !errors.Is(err, ErrBusy) {
		t.Errorf("with a queue: %v", err)
	}
	if err := qp.Destroy(ctx); err != nil {
		t.Error(err)
	}
	// Destroy waits for the acknowledgement of the event.
	done := make(chan error)
	go func() { done <- cq.Destroy(ctx) }()
	<-cq.destroyed
	select {
	case err := <-done:
		t.Errorf("Destroy did not wait: %v", err)
	default:
	}
	if err := cq.AckEvents(1); err != nil {
		t.Error(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
	if err := ch.Destroy(); err != nil {
		t.Error(err)
	}
	if _, err := ch.GetEvent(ctx); !errors.Is(err, ErrClosed) {
		t.Errorf("destroyed: %v", err)
	}
}

func TestCQEx(t *testing.T) {
	ctx := testContext(t)
	c := openTest(t, Config{})
	if _, err := c.CreateCQEx(CQInitAttrEx{Entries: 4, WCFlags: 1 << 7}); !errors.Is(err, ErrNotSupported) {
		t.Errorf("time stamps: %v", err)
	}
	cq := must(c.CreateCQEx(CQInitAttrEx{Entries: 16, WCFlags: CQStandardFlags}))(t)
	pd := must(c.AllocPD())(t)
	qp := must(pd.CreateQP(QPInitAttr{Type: QPRC, SendCQ: cq.AsCQ(), RecvCQ: cq.AsCQ(), Cap: QPCap{MaxSendWR: 4, MaxRecvWR: 4}}))(t)
	self := must(qp.Info(0, 0))(t)
	if err := qp.Connect(self, self, ConnectAttr{}); err != nil {
		t.Fatal(err)
	}
	if ok, err := cq.StartPoll(); ok || err != nil {
		t.Errorf("empty: %v, %v", ok, err)
	}
	if _, err := qp.PostRecv([]RecvWR{{ID: 1}}); err != nil {
		t.Fatal(err)
	}
	if _, err := qp.PostSend([]SendWR{{ID: 2, Op: WRSendImm, Imm: 7, Flags: SendSignaled}}); err != nil {
		t.Fatal(err)
	}
	seen := make(map[uint64]bool)
	for ok, err := cq.StartPoll(); len(seen) < 2; ok, err = cq.NextPoll() {
		if err != nil || ctx.Err() != nil {
			t.Fatal(err, ctx.Err())
		}
		if !ok {
			continue
		}
		seen[cq.WRID()] = true
		if cq.Status() != WCSuccess || cq.ReadQPNum() != qp.Num() || cq.ReadVendorErr() != 0 || cq.ReadByteLen() != 0 {
			t.Errorf("completion %+v", cq.wc)
		}
		recv := cq.ReadOpcode() == WCRecv
		if recv && (cq.ReadImmData() != 7 || cq.ReadWCFlags()&WCWithImm == 0) {
			t.Errorf("receive %+v", cq.wc)
		}
		if cq.ReadInvalidatedRKey() != 0 || cq.ReadSLID() != 0 || cq.ReadSL() != 0 || cq.ReadDLIDPathBits() != 0 {
			t.Errorf("completion %+v", cq.wc)
		}
		_ = cq.ReadSrcQP() // means nothing for RC
	}
	cq.EndPoll()
	cq.EndPoll() // once too often
	if !seen[1] || !seen[2] {
		t.Errorf("completions %v", seen)
	}
}
