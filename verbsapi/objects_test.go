package verbsapi

import (
	"bytes"
	"context"
	"errors"
	"net/netip"
	"sync"
	"testing"

	"github.com/gorxe/gorxe/rocev2"
	"github.com/gorxe/gorxe/wire"
)

func TestDevices(t *testing.T) {
	list := must(GetDeviceList())(t)
	if len(list) == 0 {
		t.Fatal("no device, not even of the loopback interface")
	}
	names := make(map[string]bool)
	for _, d := range list {
		if d.GUID() == 0 || d.Index() == 0 || names[d.Name()] || d.NodeType() != NodeCA || d.TransportType() != TransportIB {
			t.Errorf("device %+v", d)
		}
		names[d.Name()] = true
	}
	if list[0].Name() != "rxe0" {
		t.Errorf("the first device is %q", list[0].Name())
	}
	if _, err := OpenDevice(nil); !errors.Is(err, ErrInvalid) {
		t.Errorf("no device: %v", err)
	}
	for _, d := range list {
		if d.Port().Name != "lo" {
			continue
		}
		// Another port number: other tests have ::1 open.
		d.cfg.Port = 14791
		c := must(OpenDevice(d))(t)
		if c.Device().Name() != d.Name() || c.Addr() != netip.MustParseAddr("127.0.0.1") {
			t.Errorf("opened %q at %v", c.Device().Name(), c.Addr())
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestOpenErrors(t *testing.T) {
	for _, c := range []struct {
		cfg  Config
		want error
	}{
		{Config{Interface: "no-such-interface"}, rocev2.ErrNoInterface},
		{Config{Address: netip.MustParseAddr("192.0.2.1")}, rocev2.ErrNoAddress},
		{Config{Address: netip.MustParseAddr("224.0.0.1")}, rocev2.ErrConfig},
	} {
		if _, err := Open(c.cfg); !errors.Is(err, c.want) {
			t.Errorf("%+v: %v, want %v", c.cfg, err, c.want)
		}
	}
}

func TestClose(t *testing.T) {
	addr := testAddr()
	one, two := openTest(t, Config{Address: addr}), openTest(t, Config{Address: addr, Port: wire.UDPPort})
	if one.eng != two.eng {
		t.Error("two devices on one address")
	}
	a, _ := pair(t, one, two, endConfig{}, ConnectAttr{})
	ch := must(one.CreateCompChannel())(t)
	ctx := testContext(t)
	errs := make(chan error)
	go func() { _, err := ch.GetEvent(ctx); errs <- err }()
	go func() { _, err := one.GetAsyncEvent(ctx); errs <- err }()
	go func() { _, err := a.cq.Wait(ctx, make([]WC, 1)); errs <- err }()
	if err := one.Close(); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if err := <-errs; !errors.Is(err, ErrClosed) {
			t.Errorf("a call that waited: %v", err)
		}
	}
	_, pdErr := one.AllocPD()
	_, regErr := a.pd.RegMR(nil, 0)
	_, sendErr := a.qp.PostSend([]SendWR{{Op: WRWrite}})
	_, pollErr := a.cq.Poll(make([]WC, 1))
	_, queryErr := one.QueryDevice()
	_, srqErr := a.pd.CreateSRQ(SRQAttr{MaxWR: 1, MaxSGE: 1})
	for what, err := range map[string]error{
		"AllocPD": pdErr, "RegMR": regErr, "PostSend": sendErr, "Poll": pollErr, "QueryDevice": queryErr,
		"CreateSRQ": srqErr, "Dereg": a.mr.Dereg(), "Destroy": a.qp.Destroy(ctx), "Close": one.Close(),
		"Channel": ch.Destroy(),
	} {
		if !errors.Is(err, ErrClosed) {
			t.Errorf("%s after Close: %v", what, err)
		}
	}
	if n := two.eng.dev.Objects(); n.QP != 1 || n.CQ != 1 || n.PD != 1 || n.MR != 1 {
		t.Errorf("the other context's objects: %+v", n)
	}
	if _, err := two.AllocPD(); err != nil {
		t.Errorf("the other context: %v", err)
	}
}

func TestQueries(t *testing.T) {
	c := openTest(t, Config{})
	if a := must(c.QueryDeviceEx())(t); a.MaxQP == 0 || a.NodeGUID != c.Device().GUID() || a.PhysPortCntEx != 1 {
		t.Errorf("device %+v", a)
	}
	if a := must(c.QueryDevice())(t); a != must(c.QueryDeviceEx())(t).DeviceAttr {
		t.Errorf("device %+v is another than the extended one", a)
	}
	p := must(c.QueryPort(1))(t)
	if p.State != PortActive || p.ActiveMTU != 4096 || p.Mbps != 40000 || p.ActiveWidth != 2 || p.ActiveSpeed != 8 || p.ActiveSpeedEx != 8 {
		t.Errorf("port %+v", p)
	}
	gid := wire.GIDFromAddr(c.Addr())
	for index := range 2 {
		if g := must(c.QueryGID(1, index))(t); g != gid {
			t.Errorf("GID %d is %v", index, g)
		}
	}
	if e := must(c.QueryGIDEx(1, 1, 0))(t); e.GID != gid || e.Type != GIDTypeRoCEv2 || e.IfIndex == 0 {
		t.Errorf("GID entry %+v", e)
	}
	if table := must(c.QueryGIDTable(0))(t); len(table) != 2 || table[0].GID != gid {
		t.Errorf("GID table %+v", table)
	}
	if k := must(c.QueryPKey(1, 0))(t); k != 0xffff || must(c.GetPKeyIndex(1, k))(t) != 0 {
		t.Errorf("P_Key %#x", k)
	}
	_, portErr := c.QueryPort(2)
	_, gidErr := c.QueryGID(1, 5000)
	_, emptyErr := c.QueryGIDEx(1, 9, 0)
	_, flagsErr := c.QueryGIDTable(1)
	_, keyErr := c.QueryPKey(1, 1)
	_, indexErr := c.GetPKeyIndex(1, 0x8001)
	for i, err := range []error{portErr, gidErr, emptyErr, flagsErr, keyErr, indexErr} {
		if !errors.Is(err, ErrInvalid) {
			t.Errorf("mistake %d: %v", i, err)
		}
	}
	if !IsQPTSupported(1<<QPRC, QPRC) || IsQPTSupported(1<<QPRC, QPUD) {
		t.Error("IsQPTSupported")
	}
	if p := FlowLabelToUDPSport(0x12345); p != wire.UDPSourcePort(0x12345, 0, 0) {
		t.Errorf("source port %#x", p)
	}
	if ForkInit() != nil || IsForkInitialized() != ForkUnneeded {
		t.Error("fork")
	}
}

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

func TestSRQ(t *testing.T) {
	ctx := testContext(t)
	x, y := openTest(t, Config{}), openTest(t, Config{})
	pd := must(y.AllocPD())(t)
	srq := must(y.CreateSRQEx(SRQInitAttrEx{PD: pd, SRQAttr: SRQAttr{MaxWR: 8, MaxSGE: 1}}))(t)
	if _, err := y.CreateSRQEx(SRQInitAttrEx{PD: pd, Type: SRQXRC}); !errors.Is(err, ErrNotSupported) {
		t.Errorf("XRC: %v", err)
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
	if _, err := a.pd.CreateQP(QPInitAttr{Type: 9, SendCQ: a.cq, RecvCQ: a.cq}); !errors.Is(err, ErrNotSupported) {
		t.Errorf("XRC: %v", err)
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

func TestAsyncEvents(t *testing.T) {
	ctx := testContext(t)
	a, b := newPair(t, endConfig{}, ConnectAttr{})
	next := func(want EventType) *AsyncEvent {
		t.Helper()
		for {
			ev := must(a.ctx.GetAsyncEvent(ctx))(t)
			if ev.Type == want {
				return ev
			}
			ev.Ack()
		}
	}
	a.post(SendWR{ID: 1, Op: WRWrite})
	if err := a.qp.Modify(&QPAttr{State: QPSQD, EnSQDNotify: true}, QPAttrState|QPAttrEnSQDNotify); err != nil {
		t.Fatal(err)
	}
	ev := next(EventSQDrained)
	if ev.QP != a.qp {
		t.Errorf("event %+v", ev)
	}
	a.expect(ctx, 1, WCSuccess)
	done := make(chan error)
	go func() { done <- a.qp.Destroy(ctx) }()
	ev.Ack()
	if err := <-done; err != nil {
		t.Error(err)
	}

	// A queue that overflows.
	cq := must(a.ctx.CreateCQ(1, nil))(t)
	qp := must(a.pd.CreateQP(QPInitAttr{Type: QPRC, SendCQ: cq, RecvCQ: cq, Cap: QPCap{MaxSendWR: 4}}))(t)
	self := must(qp.Info(0, 0))(t)
	if err := qp.Connect(self, self, ConnectAttr{}); err != nil {
		t.Fatal(err)
	}
	wr := SendWR{Op: WRWrite, Flags: SendSignaled}
	if _, err := qp.PostSend([]SendWR{wr, wr, wr}); err != nil {
		t.Fatal(err)
	}
	ev = next(EventCQErr)
	if ev.CQ != cq {
		t.Errorf("event %+v", ev)
	}
	ev.Ack()
	_ = b
}

// qkey of the UD tests.
const testQKey = 0x11111111

func newUD(t *testing.T, c *Context) *end {
	t.Helper()
	e := newEnd(t, c, endConfig{typ: QPUD, bufSize: 8192, depth: 16})
	if err := e.qp.InitUD(testQKey, 5); err != nil {
		t.Fatal(err)
	}
	return e
}

func TestUD(t *testing.T) {
	for _, p := range peers {
		t.Run(p.name, func(t *testing.T) {
			ctx := testContext(t)
			x, y := p.open(t)
			a, b := newUD(t, x), newUD(t, y)
			ah := must(a.pd.CreateAH(AHAttr{DGID: wire.GIDFromAddr(y.Addr()), PortNum: 1, TrafficClass: 0x20}))(t)
			fill(a.buf[:1000], 4)
			b.recv(1, 0, 1000+GRHLen)
			a.post(SendWR{ID: 2, Op: WRSendImm, Imm: 3, SGL: []SGE{a.mr.SGE(0, 1000)}, AH: ah, RemoteQPN: b.qp.Num(), RemoteQKey: testQKey})
			a.expect(ctx, 2, WCSuccess)
			wc := b.expect(ctx, 1, WCSuccess)
			if wc.Flags&WCGRH == 0 || wc.SrcQP != a.qp.Num() || wc.ByteLen != 1000+GRHLen || wc.Imm != 3 || wc.SL != SLRoCEv2IPv4 {
				t.Errorf("completion %+v", wc)
			}
			if !bytes.Equal(b.buf[GRHLen:][:1000], a.buf[:1000]) {
				t.Error("the data differ")
			}
			grh := must(ParseGRH(b.buf))(t)
			if grh.SGID.Addr() != x.Addr() || grh.DGID.Addr() != y.Addr() || grh.TrafficClass != 0x20 {
				t.Errorf("GRH %+v", grh)
			}
			back := must(b.pd.CreateAHFromWC(&wc, b.buf, 1))(t)
			if attr := back.Query(); attr.DGID.Addr() != x.Addr() {
				t.Errorf("handle back %+v", attr)
			}
			a.recv(4, 2000, 100)
			b.post(SendWR{ID: 5, Op: WRSend, SGL: []SGE{b.mr.SGE(0, 10)}, AH: back, RemoteQPN: wc.SrcQP, RemoteQKey: testQKey})
			b.expect(ctx, 5, WCSuccess)
			a.expect(ctx, 4, WCSuccess)

			if _, err := y.InitAHFromWC(2, &wc, b.buf); !errors.Is(err, ErrInvalid) {
				t.Errorf("port 2: %v", err)
			}
			if _, err := y.InitAHFromWC(1, &wc, b.buf[:20]); !errors.Is(err, ErrInvalid) {
				t.Errorf("half a GRH: %v", err)
			}
			if err := errors.Join(ah.Destroy(), back.Destroy()); err != nil {
				t.Error(err)
			}
			if err := ah.Destroy(); !errors.Is(err, ErrClosed) {
				t.Errorf("destroyed twice: %v", err)
			}
		})
	}
}

func TestMulticast(t *testing.T) {
	ctx := testContext(t)
	c := openTest(t, Config{})
	a, b, d := newUD(t, c), newUD(t, c), newUD(t, c)
	group := wire.GIDFromAddr(netip.MustParseAddr("239.77.1.1"))
	for _, e := range []*end{b, d} {
		if err := e.qp.AttachMcast(group, 0); err != nil {
			t.Fatal(err)
		}
		e.recv(1, 0, 100+GRHLen)
	}
	ah := must(a.pd.CreateAH(AHAttr{DGID: group, PortNum: 1}))(t)
	a.post(SendWR{ID: 2, Op: WRSend, SGL: []SGE{a.mr.SGE(0, 100)}, AH: ah, RemoteQPN: wire.MulticastQPN, RemoteQKey: testQKey})
	a.expect(ctx, 2, WCSuccess)
	for _, e := range []*end{b, d} {
		if wc := e.expect(ctx, 1, WCSuccess); wc.ByteLen != 100+GRHLen {
			t.Errorf("completion %+v", wc)
		}
	}
	if err := b.qp.Destroy(ctx); !errors.Is(err, ErrBusy) {
		t.Errorf("attached: %v", err)
	}
	if err := b.qp.DetachMcast(group, 0); err != nil {
		t.Error(err)
	}
	if err := b.qp.DetachMcast(group, 0); !errors.Is(err, ErrInvalid) {
		t.Errorf("detached twice: %v", err)
	}
	if err := b.qp.AttachMcast(wire.GIDFromAddr(c.Addr()), 0); !errors.Is(err, ErrInvalid) {
		t.Errorf("a group that is none: %v", err)
	}
	// d stays attached: Close must handle that.
}

// TestCloseUnderTraffic closes a context while others use it from all sides.
func TestCloseUnderTraffic(t *testing.T) {
	for _, p := range peers {
		t.Run(p.name, func(t *testing.T) {
			ctx := testContext(t)
			x, y := p.open(t)
			a, b := pair(t, x, y, endConfig{}, ConnectAttr{})
			var wg sync.WaitGroup
			started := make(chan struct{}, 8)
			for range 2 {
				wg.Go(func() {
					for first := true; ; first = false {
						_, err := a.qp.PostSend([]SendWR{{Op: WRWrite, Flags: SendSignaled, SGL: []SGE{a.mr.SGE(0, 9000)},
							RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()}})
						if errors.Is(err, ErrClosed) {
							return
						}
						if first {
							started <- struct{}{}
						}
					}
				})
				wg.Go(func() {
					wcs := make([]WC, 8)
					for {
						if _, err := a.cq.Wait(ctx, wcs); err != nil {
							// Posting outruns polling, so that the queue may overflow.
							if !errors.Is(err, ErrClosed) && !errors.Is(err, ErrFull) {
								t.Error(err)
							}
							return
						}
					}
				})
			}
			<-started
			if err := x.Close(); err != nil {
				t.Error(err)
			}
			wg.Wait()
		})
	}
}
