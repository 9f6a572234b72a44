package verbsapi

import (
	"context"
	"errors"
	"testing"
)

func TestPD(t *testing.T) {
	c := openTest(t, Config{})
	pd := must(c.AllocPD())(t)
	mr := must(pd.RegMR(make([]byte, 8), 0))(t)
	if err := pd.Dealloc(); !errors.Is(err, ErrBusy) {
		t.Errorf("with a region: %v", err)
	}
	if err := mr.Dereg(); err != nil {
		t.Error(err)
	}
	if err := pd.Dealloc(); err != nil {
		t.Error(err)
	}
	if err := pd.Dealloc(); !errors.Is(err, ErrClosed) {
		t.Errorf("twice: %v", err)
	}
}

func TestMR(t *testing.T) {
	ctx := testContext(t)
	a, b := newPair(t, endConfig{}, ConnectAttr{})
	write := func(mr *MR, addr uint64, want WCStatus) {
		t.Helper()
		a.post(SendWR{ID: 1, Op: WRWrite, SGL: []SGE{a.mr.SGE(0, 4)}, RemoteAddr: addr, RKey: mr.RKey()})
		a.expect(ctx, 1, want)
	}
	copy(a.buf, "abcd")
	buf := make([]byte, 64)

	named := must(b.pd.RegMRIOVA(buf, 0x1000, testAccess))(t)
	write(named, 0x1000, WCSuccess)
	zero := must(b.pd.RegMR(buf, testAccess|AccessZeroBased))(t)
	write(zero, 8, WCSuccess)
	optional := must(b.pd.RegMRIOVA2(buf, 0x2000, testAccess|AccessRelaxed|AccessOnDemand))(t)
	write(optional, 0x2010, WCSuccess)
	if string(buf[:4]) != "abcd" || string(buf[8:12]) != "abcd" || string(buf[16:20]) != "abcd" {
		t.Errorf("buffer %q", buf)
	}

	other := make([]byte, 32)
	if err := named.Rereg(ReregTranslation, nil, other, 0); err != nil {
		t.Fatal(err)
	}
	write(named, named.Addr()+28, WCSuccess)
	if string(other[28:]) != "abcd" || named.Len() != 32 {
		t.Errorf("buffer %q", other)
	}
	// Zero-based is a right. A new buffer does not remove it, and new rights may
	// add it.
	if err := zero.Rereg(ReregTranslation, nil, other, 0); err != nil {
		t.Fatal(err)
	}
	write(zero, zero.Addr()+24, WCSuccess)
	if err := optional.Rereg(ReregAccess, nil, nil, testAccess|AccessZeroBased); err != nil {
		t.Fatal(err)
	}
	write(optional, optional.Addr()+32, WCSuccess)
	if string(other[24:28]) != "abcd" || string(buf[32:36]) != "abcd" {
		t.Errorf("buffers %q, %q", other, buf)
	}
	if err := named.Rereg(ReregPD, nil, nil, 0); !errors.Is(err, ErrInvalid) {
		t.Errorf("no domain: %v", err)
	}
	if _, err := b.pd.RegMR(buf, AccessRemoteWrite); !errors.Is(err, ErrInvalid) {
		t.Errorf("remote write without local: %v", err)
	}
	if empty, err := b.pd.RegMR(nil, testAccess); err != nil || empty.Len() != 0 {
		t.Errorf("an empty buffer: %v", err)
	}
	if err := named.Rereg(ReregAccess, nil, nil, AccessLocalWrite); err != nil {
		t.Fatal(err)
	}
	write(named, named.Addr(), WCRemAccessErr)
	if err := zero.Dereg(); err != nil || zero.LKey() != 0 {
		t.Errorf("Dereg: %v, lkey %#x", err, zero.LKey())
	}
}

func TestSRQ(t *testing.T) {
	ctx := testContext(t)
	x, y := openTest(t, Config{}), openTest(t, Config{})
	pd := must(y.AllocPD())(t)
	srq := must(y.CreateSRQEx(SRQInitAttrEx{PD: pd, SRQAttr: SRQAttr{MaxWR: 8, MaxSGE: 1}}))(t)
	if _, err := y.CreateSRQEx(SRQInitAttrEx{PD: pd, Type: SRQTM}); !errors.Is(err, ErrNotSupported) {
		t.Errorf("tag matching: %v", err)
	}
	a, b := pair(t, x, y, endConfig{srq: srq}, ConnectAttr{})
	if err := srq.Modify(SRQAttr{Limit: 2}, SRQAttrLimit); err != nil {
		t.Fatal(err)
	}
	if attr := must(srq.Query())(t); attr.Limit != 2 || attr.MaxWR != 8 {
		t.Errorf("attributes %+v", attr)
	}
	recv := []RecvWR{{ID: 1}, {ID: 2}}
	if n, err := srq.PostRecv(recv); n != 2 || err != nil {
		t.Fatal(n, err)
	}
	if _, err := b.qp.PostRecv(recv); !errors.Is(err, ErrInvalid) {
		t.Errorf("a receive of a queue pair with an SRQ: %v", err)
	}
	a.post(SendWR{ID: 3, Op: WRSend})
	a.expect(ctx, 3, WCSuccess)
	b.expect(ctx, 1, WCSuccess)
	ev := must(y.GetAsyncEvent(ctx))(t)
	if ev.Type != EventSRQLimitReached && ev.Type != EventCommEst {
		t.Errorf("event %v", ev.Type)
	}
	for ev.Type != EventSRQLimitReached {
		ev.Ack()
		ev = must(y.GetAsyncEvent(ctx))(t)
	}
	if ev.SRQ != srq {
		t.Errorf("event %+v", ev)
	}
	if err := srq.Destroy(ctx); !errors.Is(err, ErrBusy) {
		t.Errorf("with a queue pair: %v", err)
	}
	if err := b.qp.Destroy(ctx); err != nil {
		t.Fatal(err)
	}
	short, cancel := context.WithCancel(ctx)
	cancel()
	if err := srq.Destroy(short); !errors.Is(err, context.Canceled) {
		t.Errorf("with an event not acknowledged: %v", err)
	}
	ev.Ack()
	ev.Ack()
	if _, err := srq.PostRecv(recv); !errors.Is(err, ErrClosed) {
		t.Errorf("destroyed: %v", err)
	}
	plain := must(pd.CreateSRQ(SRQAttr{MaxWR: 4, MaxSGE: 1}))(t)
	if n, err := plain.PostRecv(make([]RecvWR, 9)); n != 4 || !errors.Is(err, ErrFull) {
		t.Errorf("9 receives into a queue for 4: %d, %v", n, err)
	}
}

func TestQP(t *testing.T) {
	ctx := testContext(t)
	a, b := newPair(t, endConfig{}, ConnectAttr{PathMTU: 512, MaxRdAtomic: 3})
	attr, init, err := a.qp.Query()
	if err != nil || attr.State != QPRTS || attr.DestQPN != b.qp.Num() || attr.PathMTU != 512 ||
		attr.MaxRdAtomic != 3 || init.SendCQ != a.cq || init.Type != QPRC {
		t.Errorf("query %+v %+v %v", attr, init, err)
	}
	if a.qp.QueryDataInOrder(WRWrite, 0) {
		t.Error("data in order")
	}
	if err := a.qp.Modify(&QPAttr{State: QPInit}, QPAttrState); !errors.Is(err, ErrInvalid) {
		t.Errorf("RTS to INIT: %v", err)
	}
	if err := a.qp.Modify(nil, QPAttrState); !errors.Is(err, ErrInvalid) {
		t.Errorf("nothing: %v", err)
	}
	if _, err := a.pd.CreateQP(QPInitAttr{Type: QPRC, RecvCQ: a.cq}); !errors.Is(err, ErrInvalid) {
		t.Errorf("no send CQ: %v", err)
	}
	if _, err := a.pd.CreateQP(QPInitAttr{Type: 7, SendCQ: a.cq, RecvCQ: a.cq}); !errors.Is(err, ErrNotSupported) {
		t.Errorf("a type that does not exist: %v", err)
	}
	if _, err := a.pd.CreateQP(QPInitAttr{Type: QPRC, SendCQ: b.cq, RecvCQ: b.cq}); !errors.Is(err, ErrInvalid) {
		t.Errorf("another device's CQ: %v", err)
	}
	if len(a.qp.Counters()) == 0 {
		t.Error("no counters")
	}
	if err := a.qp.Destroy(ctx); err != nil {
		t.Error(err)
	}
	if _, _, err := a.qp.Query(); !errors.Is(err, ErrClosed) {
		t.Errorf("destroyed: %v", err)
	}
}
