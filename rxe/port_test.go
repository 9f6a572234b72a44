package rxe

import (
	"errors"
	"net/netip"
	"testing"

	"github.com/gorxe/gorxe/wire"
)

func TestPortEvents(t *testing.T) {
	d := newObjDev(t)
	steps := []struct {
		state PortState
		mtu   MTU
		event EventType // 0: none
	}{
		{PortActive, 4096, 0},
		{PortDown, 4096, EventPortErr},
		{PortDown, 1024, 0},
		{PortInit, 1024, 0},
		{PortActive, 512, EventPortActive},
	}
	for _, s := range steps {
		d.must(d.SetPort(s.state, s.mtu))
		if s.event == 0 {
			d.wantNoEvent()
		} else {
			d.wantEvent(Event{Type: s.event, Port: 1})
		}
		if a := d.QueryPort(); a.State != s.state || a.ActiveMTU != s.mtu {
			t.Errorf("port %+v, want %v %v", a, s.state, s.mtu)
		}
	}
	d.want(d.SetPort(PortActive, 1500), ErrInvalid, "active_mtu")
	d.want(d.SetPort(9, 1024), ErrInvalid, "state")
	if a := d.QueryPort(); a.ActiveMTU != 512 || a.PhysState != physLinkUp {
		t.Errorf("a refused SetPort left %+v", a)
	}
	d.wantNoEvent()
}

func TestGIDTable(t *testing.T) {
	d := newObjDev(t)
	d.must(d.SetGIDs([]wire.GID{objGID6, objGID4}))
	d.wantNoEvent()
	if !d.localGID(netip.MustParseAddr("10.0.0.1")) || !d.localGID(objGID6.Addr()) {
		t.Error("own address is not local")
	}
	if d.localGID(objPeer.Addr()) || d.localGID(netip.IPv6Unspecified()) {
		t.Error("a foreign address is local")
	}
	d.must(d.SetGIDs([]wire.GID{{}, objPeer}))
	d.wantEvent(Event{Type: EventGIDChange, Port: 1})
	if d.localGID(objGID4.Addr()) || !d.localGID(objPeer.Addr()) || d.localGID(netip.IPv6Unspecified()) {
		t.Error("the table did not change")
	}
	for i, want := range []wire.GID{{}, objPeer, {}} {
		if g, err := d.QueryGID(i); err != nil || g != want {
			t.Errorf("gid %d: %v, %v", i, g, err)
		}
	}
	if i, ok := d.GIDIndex(objPeer); !ok || i != 1 {
		t.Errorf("GIDIndex: %d, %v", i, ok)
	}
	if _, ok := d.GIDIndex(wire.GID{}); ok {
		t.Error("GIDIndex found an empty entry")
	}
	if e := d.GIDEntries(); len(e) != 1 || e[0] != (GIDEntry{objPeer, 1, 1, 2}) {
		t.Errorf("entries %v", e)
	}
	for _, i := range []int{-1, gidTableLen} {
		_, err := d.QueryGID(i)
		d.want(err, ErrInvalid, "index")
	}
	d.want(d.SetGIDs([]wire.GID{objMGID}), ErrInvalid, "gids")
	d.want(d.SetGIDs(make([]wire.GID, gidTableLen+1)), ErrInvalid, "gids")
	if p, err := d.QueryPKey(0); err != nil || p != wire.DefaultPKey {
		t.Errorf("pkey %x, %v", p, err)
	}
	_, err := d.QueryPKey(1)
	d.want(err, ErrInvalid, "index")
}

func TestAH(t *testing.T) {
	d := newObjDev(t)
	pd := d.pd()
	good := objAttr().AH
	for _, c := range []struct {
		arg string
		set func(*AHAttr)
	}{
		{"ah.port_num", func(a *AHAttr) { a.PortNum = 2 }},
		{"ah.sgid_index", func(a *AHAttr) { a.SGIDIndex = 2 }},
		{"ah.dgid", func(a *AHAttr) { a.DGID = wire.GID{} }},
		{"ah.dgid", func(a *AHAttr) { a.SGIDIndex = 0 }},
		{"ah.flow_label", func(a *AHAttr) { a.FlowLabel = 1 << 20 }},
	} {
		a := good
		c.set(&a)
		_, err := pd.CreateAH(a)
		d.want(err, ErrInvalid, c.arg)
	}
	if n := d.Objects().AH; n != 0 {
		t.Errorf("%d handles after refusals", n)
	}
	ah, err := pd.CreateAH(good)
	d.must(err)
	if ah.Query() != good || d.AH(ah.Num()) != ah || ah.PD() != pd {
		t.Errorf("handle %+v", ah)
	}
	r := ah.route()
	if r.Src != objGID4.Addr() || r.Dst != objPeer.Addr() || r.HopLimit != 64 ||
		r.TrafficClass != 32 || r.FlowLabel != 5 || r.SrcPort != wire.UDPSourcePort(5, 0, 0) {
		t.Errorf("route %+v", r)
	}
	d.must(ah.Destroy())
	if d.AH(ah.Num()) != nil {
		t.Error("destroyed handle is found")
	}
}

func TestMulticastMembership(t *testing.T) {
	d := newObjDev(t)
	pd := d.pd()
	a, b, rc := d.qp(pd, QPUD), d.qp(pd, QPUD), d.qp(pd, QPRC)
	d.want(rc.AttachMcast(objMGID, 0), ErrInvalid, "qp")
	d.want(a.AttachMcast(objPeer, 0), ErrInvalid, "gid")
	d.want(a.DetachMcast(objMGID, 0), ErrInvalid, "gid")

	d.link.refuse = ErrPermission
	d.want(a.AttachMcast(objMGID, 0), ErrPermission, "gid")
	d.link.refuse = nil
	if len(d.mcastMembers(objMGID)) != 0 {
		t.Error("attached though the link refused")
	}

	d.must(a.AttachMcast(objMGID, 0))
	d.must(a.AttachMcast(objMGID, 0))
	d.must(b.AttachMcast(objMGID, 0))
	before := d.mcastMembers(objMGID)
	if len(before) != 2 || d.link.joined[objMGID] != 1 {
		t.Errorf("members %v, joined %v", before, d.link.joined)
	}
	d.want(a.Destroy(), ErrBusy, "qp")
	d.must(a.DetachMcast(objMGID, 0))
	if len(before) != 2 || before[0] != a {
		t.Error("a snapshot changed")
	}
	if m := d.mcastMembers(objMGID); len(m) != 1 || m[0] != b || d.link.joined[objMGID] != 1 {
		t.Errorf("members %v, joined %v", m, d.link.joined)
	}
	d.must(a.Destroy())
	d.must(b.DetachMcast(objMGID, 0))
	if d.mcastMembers(objMGID) != nil || len(d.link.joined) != 0 {
		t.Errorf("group is left: joined %v", d.link.joined)
	}
	if err := a.AttachMcast(objMGID, 0); !errors.Is(err, ErrClosed) || len(d.link.joined) != 0 {
		t.Errorf("attach of a destroyed QP: %v, joined %v", err, d.link.joined)
	}
}

// TestShortGIDTable: a device has as many entries as it was made with.
func TestShortGIDTable(t *testing.T) {
	d, err := New(Config{Name: "rxe0", Link: new(objLink), Clock: objClock{}, Seed: objSeed, GIDTableLen: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close() //nolint:errcheck // nothing was made in it
	if n := d.QueryPort().GIDTblLen; n != 2 {
		t.Errorf("the port says %d", n)
	}
	if err := d.SetGIDs([]wire.GID{objGID6, objGID4}); err != nil {
		t.Error(err)
	}
	if err := d.SetGIDs(make([]wire.GID, 3)); !errors.Is(err, ErrInvalid) {
		t.Errorf("three entries: %v", err)
	}
	if g, err := d.QueryGID(1); err != nil || g != objGID4 {
		t.Errorf("gid 1: %v, %v", g, err)
	}
	if _, err := d.QueryGID(2); !errors.Is(err, ErrInvalid) {
		t.Errorf("gid 2: %v", err)
	}
}
