package sma

import (
	"net/netip"
	"testing"

	"github.com/gorxe/gorxe/internal/test/rxedev"
	"github.com/gorxe/gorxe/rxe"
	"github.com/gorxe/gorxe/wire"
)

const linkLocal = "fe80::11:22ff:fe33:4455"

func newAgent(t *testing.T) (*Agent, *rxe.Device) {
	dev := rxedev.New(t)
	gids := []wire.GID{wire.GIDFromAddr(netip.MustParseAddr(linkLocal)), wire.GIDFromAddr(rxedev.Addr)}
	if err := dev.SetGIDs(gids); err != nil {
		t.Fatal(err)
	}
	return New(dev, "a node"), dev
}

func request(class wire.MADClass, method wire.MADMethod, a wire.SMPAttribute, modifier uint32) *wire.MAD {
	m := new(wire.MAD)
	m.Init(&wire.MADHeader{Class: class, ClassVersion: 1, Method: method, TID: 0x1122334455667788, Attribute: uint16(a), Modifier: modifier})
	for i := range wire.SMPDataLen {
		wire.SMP{MAD: m}.Attr()[i] = 0xee
	}
	return m
}

// ask returns the answer to a Get, whose header is the request's.
func ask(t *testing.T, a *Agent, class wire.MADClass, attr wire.SMPAttribute, modifier uint32) *wire.MAD {
	t.Helper()
	m := request(class, wire.MADGet, attr, modifier)
	want := m.Header()
	if !a.Answer(m) {
		t.Fatalf("%v is not answered", attr)
	}
	want.Method, want.Status = wire.MADGetResp, m.Status()
	if m.Header() != want {
		t.Errorf("header %+v, want %+v", m.Header(), want)
	}
	return m
}

func TestAnswers(t *testing.T) {
	a, dev := newAgent(t)
	for class, status := range map[wire.MADClass]uint16{wire.MADClassSubnetLID: 0, wire.MADClassSubnetDirected: wire.SMPDirection} {
		get := func(attr wire.SMPAttribute, modifier uint32) wire.SMP {
			t.Helper()
			m := ask(t, a, class, attr, modifier)
			if m.Status() != status {
				t.Errorf("%v %d: status %#x, want %#x", attr, modifier, m.Status(), status)
			}
			return wire.SMP{MAD: m}
		}
		if d := get(wire.AttrNodeDescription, 0).Attr(); string(d[:7]) != "a node\x00" || d[63] != 0 {
			t.Errorf("description %q", d)
		}
		node := wire.SMPNodeInfo(get(wire.AttrNodeInfo, 0)).Info()
		want := wire.NodeInfo{BaseVersion: 1, ClassVersion: 1, Type: wire.NodeCA, Ports: 1, SystemImageGUID: dev.Attr().SysImageGUID,
			NodeGUID: dev.GUID(), PortGUID: 0x001122fffe334455, Partitions: 1, LocalPort: 1, Vendor: 0xffffff}
		if node != want {
			t.Errorf("NodeInfo %+v, want %+v", node, want)
		}
		for _, port := range []uint32{0, 1} {
			p := wire.SMPPortInfo(get(wire.AttrPortInfo, port)).Info()
			if p.GIDPrefix != 0xfe80<<48 || p.State != 4 || p.PhysState != 5 || p.NeighborMTU != 5 || p.MTUCap != 5 || p.LID != 0 ||
				p.LocalPort != 1 || p.VLCap != 1 || p.Capabilities&(1<<16) == 0 {
				t.Errorf("PortInfo of port %d: %+v", port, p)
			}
		}
		guids := wire.SMPGUIDInfo(get(wire.AttrGUIDInfo, 0))
		if guids.GUID(0) != 0x001122fffe334455 || guids.GUID(1) != 0xffff0a000001 || guids.GUID(2) != 0 {
			t.Errorf("GUIDs %#x, %#x, %#x", guids.GUID(0), guids.GUID(1), guids.GUID(2))
		}
		last := uint32(dev.QueryPort().GIDTblLen)/wire.GUIDsPerBlock - 1
		if g := wire.SMPGUIDInfo(get(wire.AttrGUIDInfo, last)); g.GUID(0) != 0 {
			t.Errorf("the last block begins with GUID %#x", g.GUID(0))
		}
		// of a switch's port, which it is not
		keys := wire.SMPPKeyTable(get(wire.AttrPKeyTable, 5<<16))
		if keys.PKey(0) != 0xffff || keys.PKey(1) != 0 || keys.PKey(31) != 0 {
			t.Errorf("P_Keys %#x, %#x", keys.PKey(0), keys.PKey(1))
		}
	}
}

// What the agent does not do is refused, with the data of the request.
func TestRefuses(t *testing.T) {
	a, dev := newAgent(t)
	version := request(wire.MADClassSubnetLID, wire.MADGet, wire.AttrNodeInfo, 0)
	version.Init(&wire.MADHeader{Class: wire.MADClassSubnetLID, ClassVersion: 2, Method: wire.MADGet, Attribute: 0x11})
	get := func(attr wire.SMPAttribute, modifier uint32) *wire.MAD {
		return request(wire.MADClassSubnetLID, wire.MADGet, attr, modifier)
	}
	for name, c := range map[string]struct {
		mad    *wire.MAD
		status uint16
	}{
		"class version":   {version, wire.MADUnsupportedVersion},
		"Set":             {request(wire.MADClassSubnetLID, wire.MADSet, wire.AttrPortInfo, 1), wire.MADUnsupportedAttribute},
		"directed":        {request(wire.MADClassSubnetDirected, wire.MADSet, wire.AttrPortInfo, 1), wire.MADUnsupportedAttribute | wire.SMPDirection},
		"SwitchInfo":      {get(0x12, 0), wire.MADUnsupportedAttribute},
		"SMInfo":          {get(0x20, 0), wire.MADUnsupportedAttribute},
		"port 2":          {get(wire.AttrPortInfo, 2), wire.MADInvalidField},
		"block of GUIDs":  {get(wire.AttrGUIDInfo, uint32(dev.QueryPort().GIDTblLen)/wire.GUIDsPerBlock), wire.MADInvalidField},
		"far block":       {get(wire.AttrGUIDInfo, 1<<32-1), wire.MADInvalidField},
		"block of P_Keys": {get(wire.AttrPKeyTable, 1), wire.MADInvalidField},
		"last block":      {get(wire.AttrPKeyTable, 0xffff), wire.MADInvalidField},
	} {
		want := *c.mad
		want.Answer(wire.MADGetResp, c.status)
		if !a.Answer(c.mad) || *c.mad != want {
			t.Errorf("%s: status %#x, want %#x; or other data", name, c.mad.Status(), c.status)
		}
	}
	for _, method := range []wire.MADMethod{wire.MADGetResp, wire.MADSend, 5, 7} {
		m := request(wire.MADClassSubnetLID, method, wire.AttrNodeInfo, 0)
		if before := *m; a.Answer(m) || *m != before {
			t.Errorf("%v is answered", method)
		}
	}
}

// Each width and each speed of a link has its code.
func TestLink(t *testing.T) {
	for active, want := range map[uint8]uint64{1: 1, 2: 3, 4: 7, 8: 11, 16: 17} {
		if got := widths(active); got != want {
			t.Errorf("width %d: %#x, want %#x", active, got, want)
		}
	}
	for lane, want := range map[uint32][3]uint64{ // active, supported, extended
		1: {1, 1, 0}, 2: {2, 3, 0}, 4: {4, 7, 0}, 8: {4, 7, 0}, 16: {4, 7, 1}, 32: {4, 7, 2}, 64: {4, 7, 4}, 128: {4, 7, 8}, 256: {4, 7, 8},
	} {
		var p wire.PortInfo
		setSpeed(&p, lane)
		if got := [3]uint64{p.SpeedActive, p.SpeedSupported, p.SpeedExtActive}; got != want {
			t.Errorf("speed %d: %v, want %v", lane, got, want)
		}
		if ext := p.Capabilities == wire.PortCapExtendedSpeeds; ext != (want[2] != 0) || p.SpeedExtSupported != max(2*want[2], 1)-1 {
			t.Errorf("speed %d: %+v", lane, p)
		}
	}
}
