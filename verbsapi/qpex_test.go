package verbsapi

import (
	"encoding/binary"
	"errors"
	"reflect"
	"testing"
)

func TestQPEx(t *testing.T) {
	ctx := testContext(t)
	a, b := newPair(t, endConfig{}, ConnectAttr{})
	x := a.qp.Ex()
	x.WRFlags = SendSignaled
	id := uint64(0)
	// run builds one work request and waits for it.
	run := func(build func()) {
		t.Helper()
		id++
		x.WRID = id
		x.WRStart()
		build()
		if err := x.WRComplete(); err != nil {
			t.Fatal(err)
		}
		a.expect(ctx, id, WCSuccess)
	}
	copy(a.buf, "0123456789")
	key, addr := b.mr.RKey(), b.mr.Addr()
	sgl := []SGE{a.mr.SGE(0, 4), a.mr.SGE(4, 4)}

	b.recv(100, 0, 64)
	run(func() { x.WRSend(); x.WRSetSGEList(sgl) })
	b.recv(101, 64, 64)
	run(func() { x.WRSendImm(9); x.WRSetInlineData([]byte("inline")) })
	b.recv(102, 128, 64)
	run(func() { x.WRSend(); x.WRSetInlineDataList([][]byte{[]byte("in"), []byte("line")}) })
	b.expect(ctx, 100, WCSuccess)
	if wc := b.expect(ctx, 101, WCSuccess); wc.Imm != 9 {
		t.Errorf("completion %+v", wc)
	}
	b.expect(ctx, 102, WCSuccess)
	if string(b.buf[:8]) != "01234567" || string(b.buf[64:70]) != "inline" || string(b.buf[128:134]) != "inline" {
		t.Errorf("received %q", b.buf[:140])
	}

	run(func() { x.WRRDMAWrite(key, addr+512); x.WRSetSGE(a.mr.LKey(), a.mr.Addr(), 10) })
	run(func() { x.WRRDMARead(key, addr+512); x.WRSetSGE(a.mr.LKey(), a.mr.Addr()+1000, 10) })
	if string(a.buf[1000:1010]) != "0123456789" {
		t.Errorf("read back %q", a.buf[1000:1010])
	}
	b.recv(103, 0, 0)
	run(func() { x.WRRDMAWriteImm(key, addr+512, 8) })
	b.expect(ctx, 103, WCSuccess)
	run(func() { x.WRAtomicWrite(key, addr+1024, 5) })
	run(func() { x.WRAtomicFetchAdd(key, addr+1024, 2); x.WRSetSGE(a.mr.LKey(), a.mr.Addr()+2000, 8) })
	run(func() { x.WRAtomicCmpSwp(key, addr+1024, 7, 70); x.WRSetSGE(a.mr.LKey(), a.mr.Addr()+2000, 8) })
	run(func() { x.WRFlush(key, addr+1024, 8, 1, 0) })
	if got := binary.NativeEndian.Uint64(b.buf[1024:]); got != 70 {
		t.Errorf("after the atomics: %d", got)
	}

	mw := must(a.pd.AllocMW(MWType2))(t)
	next := IncRKey(mw.RKey())
	run(func() {
		x.WRBindMW(MWBind{MW: mw, RKey: next, MR: a.mr, Addr: a.mr.Addr(), Length: 8, Access: AccessRemoteRead})
	})
	run(func() { x.WRLocalInv(next) })
	other := must(b.pd.AllocMW(MWType2))(t)
	bind := MWBind{MW: other, RKey: IncRKey(other.RKey()), MR: b.mr, Addr: addr, Length: 8, Access: AccessRemoteRead}
	b.post(SendWR{ID: 104, Op: WRBindMW, Bind: &bind})
	b.expect(ctx, 104, WCSuccess)
	b.recv(105, 0, 0)
	run(func() { x.WRSendInv(bind.RKey) })
	b.expect(ctx, 105, WCSuccess)

	x.WRStart()
	x.WRSend()
	x.WRAbort()
	if err := x.WRComplete(); !errors.Is(err, ErrInvalid) {
		t.Errorf("WRComplete without WRStart: %v", err)
	}
	x.WRStart()
	x.WRSetSGE(0, 0, 0)
	if err := x.WRComplete(); !errors.Is(err, ErrInvalid) {
		t.Errorf("a setter without a work request: %v", err)
	}
	x.WRStart()
	x.WRSendTSO([]byte{1}, 1)
	if err := x.WRComplete(); !errors.Is(err, ErrInvalid) {
		t.Errorf("TSO on RC: %v", err)
	}
}

func TestCreateQPEx(t *testing.T) {
	ctx := testContext(t)
	a, b := newUD(t, openTest(t, Config{})), newUD(t, openTest(t, Config{}))
	init := QPInitAttrEx{QPInitAttr: a.qp.init, PD: a.pd, SendOps: SendOpSend}
	x := must(a.ctx.CreateQPEx(init))(t)
	if err := x.InitUD(testQKey, 0); err != nil {
		t.Fatal(err)
	}
	ah := must(a.pd.CreateAH(AHAttr{DGID: must(b.ctx.QueryGID(1, 0))(t), PortNum: 1}))(t)
	b.recv(1, 0, 100)
	x.WRID, x.WRFlags = 2, SendSignaled
	x.WRStart()
	x.WRSend()
	x.WRSetUDAddr(ah, b.qp.Num(), testQKey)
	x.WRSetInlineData([]byte("datagram"))
	if err := x.WRComplete(); err != nil {
		t.Fatal(err)
	}
	a.expect(ctx, 2, WCSuccess)
	b.expect(ctx, 1, WCSuccess)
	x.WRStart()
	x.WRSendImm(1)
	if err := x.WRComplete(); !errors.Is(err, ErrInvalid) {
		t.Errorf("an operation that was not asked for: %v", err)
	}
	init.SendOps = SendOpTSO
	if _, err := a.ctx.CreateQPEx(init); !errors.Is(err, ErrNotSupported) {
		t.Errorf("TSO: %v", err)
	}
}

// TestNotSupported calls everything that docs/verbs.md lists as not supported,
// with zero arguments.
func TestNotSupported(t *testing.T) {
	c := openTest(t, Config{})
	e := newEnd(t, c, endConfig{typ: QPRC, bufSize: 8, depth: 1})
	objects := []any{
		c, e.pd, e.mr, e.cq, e.qp, e.qp.Ex(),
		must(e.pd.CreateSRQ(SRQAttr{MaxWR: 1}))(t), must(c.CreateCQEx(CQInitAttrEx{Entries: 1}))(t),
		new(DM), new(TD), new(FlowAction),
	}
	calls := map[string]reflect.Value{"ImportDevice": reflect.ValueOf(ImportDevice)}
	for _, o := range objects {
		v := reflect.ValueOf(o)
		for i := range v.NumMethod() {
			calls[v.Type().Elem().Name()+"."+v.Type().Method(i).Name] = v.Method(i)
		}
	}
	for _, r := range readTable(t) {
		if r.test != "TestNotSupported" {
			continue
		}
		call, ok := calls[r.goCall]
		if !ok {
			t.Errorf("%s: nothing to call %s on", r.c, r.goCall)
			continue
		}
		args := make([]reflect.Value, call.Type().NumIn())
		for i := range args {
			args[i] = reflect.Zero(call.Type().In(i))
		}
		out := call.Call(args)
		if err, _ := out[len(out)-1].Interface().(error); !errors.Is(err, ErrNotSupported) {
			t.Errorf("%s: %v", r.goCall, err)
		}
	}
}
