package verbsapi

import (
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
