package wire

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"testing"

	"github.com/gorxe/gorxe/internal/test/testenv"
)

// smp returns an answer of subnet management without data.
func smp(class MADClass, a SMPAttribute) *MAD {
	m := new(MAD)
	m.Init(&MADHeader{Class: class, ClassVersion: SMPClassVersion, Method: MADGetResp, TID: 1, Attribute: uint16(a)})
	return m
}

var sampleNode = NodeInfo{BaseVersion: 1, ClassVersion: 2, Type: NodeCA, Ports: 4,
	SystemImageGUID: 0x1112131415161718, NodeGUID: 0x2122232425262728, PortGUID: 0x3132333435363738,
	Partitions: 0x4142, Device: 0x5152, Revision: 0x61626364, LocalPort: 0x71, Vendor: 0x818283}

// samplePort has a different value in each field, with its lowest and its highest bit.
func samplePort() (p PortInfo) {
	for i, f := range p.fields() {
		*f.v = 1 | 1<<(f.width-1) | uint64(i)<<1&(1<<f.width-1)
	}
	return p
}

func TestSMPNodeInfo(t *testing.T) {
	m := SMPNodeInfo{smp(MADClassSubnetLID, AttrNodeInfo)}
	m.SetInfo(&sampleNode)
	// IBA 14.2.5.3.
	const table = "01020104" + "1112131415161718" + "2122232425262728" + "3132333435363738" + "4142" + "5152" + "61626364" + "71818283"
	if got := hex.EncodeToString(m.MAD[64 : 64+len(table)/2]); got != table {
		t.Errorf("got  %s\nwant %s", got, table)
	}
	if got := m.Info(); got != sampleNode {
		t.Errorf("%+v", got)
	}
}

// Each field of PortInfo is in its place, alone, and cut to its width.
func TestSMPPortInfo(t *testing.T) {
	var names PortInfo
	for i, f := range names.fields() {
		var p PortInfo
		*p.fields()[i].v = 1<<64 - 1
		m := SMPPortInfo{smp(MADClassSubnetLID, AttrPortInfo)}
		m.SetInfo(&p)
		attr := SMP(m).Attr()
		ones := 0
		for bit := range 8 * SMPDataLen {
			set := attr[bit/8]>>(7-bit%8)&1 != 0
			if set {
				ones++
			}
			if want := bit >= f.bit && bit < f.bit+f.width; set != want {
				t.Errorf("field %d: bit %d is %v", i, bit, set)
			}
		}
		if back := m.Info(); ones != f.width || *back.fields()[i].v != 1<<f.width-1 {
			t.Errorf("field %d: %d bits, and read back %#x", i, ones, *back.fields()[i].v)
		}
	}
}

func TestSMPTables(t *testing.T) {
	guids := SMPGUIDInfo{smp(MADClassSubnetLID, AttrGUIDInfo)}
	keys := SMPPKeyTable{smp(MADClassSubnetLID, AttrPKeyTable)}
	for i := range GUIDsPerBlock {
		guids.SetGUID(i, uint64(i)<<56|7)
	}
	for i := range PKeysPerBlock {
		keys.SetPKey(i, PKey(i)<<8|9)
	}
	for i := range GUIDsPerBlock {
		if at := 64 + 8*i; guids.GUID(i) != uint64(i)<<56|7 || guids.MAD[at] != byte(i) || guids.MAD[at+7] != 7 {
			t.Errorf("GUID %d is %#x", i, guids.GUID(i))
		}
	}
	for i := range PKeysPerBlock {
		if at := 64 + 2*i; keys.PKey(i) != PKey(i)<<8|9 || keys.MAD[at] != byte(i) || keys.MAD[at+1] != 9 {
			t.Errorf("P_Key %d is %#x", i, keys.PKey(i))
		}
	}
}

// IBA 14.2.1.2.
func TestSMPRoute(t *testing.T) {
	m := SMP{smp(MADClassSubnetDirected, AttrNodeInfo)}
	m.SetHopPointer(3)
	m.SetHopCount(4)
	m.SetLIDs(0x1234, LIDPermissive)
	m.InitialPath()[1], m.ReturnPath()[63] = 5, 6
	if m.MAD[6] != 3 || m.MAD[7] != 4 || !bytes.Equal(m.MAD[32:36], []byte{0x12, 0x34, 0xff, 0xff}) || m.MAD[129] != 5 || m.MAD[255] != 6 {
		t.Errorf("% x", *m.MAD)
	}
	if m.HopPointer() != 3 || m.HopCount() != 4 || m.SourceLID() != 0x1234 || m.DestLID() != 0xffff || !m.Directed() || m.MKey() != 0 {
		t.Errorf("read back otherwise: %v", m)
	}
	if (SMP{smp(MADClassSubnetLID, AttrNodeInfo)}).Directed() {
		t.Error("a LID-routed datagram has a route")
	}
}

func TestSMPNames(t *testing.T) {
	got := fmt.Sprint(AttrNodeDescription, AttrNodeInfo, AttrGUIDInfo, AttrPortInfo, AttrPKeyTable, SMPAttribute(0x12))
	if got != "NodeDescription NodeInfo GUIDInfo PortInfo P_KeyTable attribute 0x0012" {
		t.Error(got)
	}
}

// TestSMPTshark compares the attributes with what tshark reads.
func TestSMPTshark(t *testing.T) {
	node := SMPNodeInfo{smp(MADClassSubnetLID, AttrNodeInfo)}
	node.SetInfo(&sampleNode)
	p := samplePort()
	port := SMPPortInfo{smp(MADClassSubnetLID, AttrPortInfo)}
	port.SetInfo(&p)
	route := SMP{smp(MADClassSubnetDirected, AttrNodeDescription)}
	route.SetHopPointer(3)
	route.SetHopCount(4)
	route.SetLIDs(0x1234, 0x5678)
	copy(route.Attr(), "a node")
	for i := range 64 {
		route.InitialPath()[i], route.ReturnPath()[i] = byte(i), byte(2*i)
	}
	n := &sampleNode
	pi := func(name string, digits int, v uint64) tsharkField { return hexField("portinfo."+name, digits, v) }
	want := [][]tsharkField{
		{hexField("nodeinfo.baseversion", 2, 1), hexField("nodeinfo.classversion", 2, 2), hexField("nodeinfo.nodetype", 2, 1),
			hexField("nodeinfo.numports", 2, 4), hexField("nodeinfo.systemimageguid", 16, n.SystemImageGUID),
			hexField("nodeinfo.nodeguid", 16, n.NodeGUID), hexField("nodeinfo.portguid", 16, n.PortGUID),
			hexField("nodeinfo.partitioncap", 4, uint64(n.Partitions)), hexField("nodeinfo.deviceid", 4, uint64(n.Device)),
			hexField("nodeinfo.revision", 8, uint64(n.Revision)), hexField("nodeinfo.localportnum", 2, uint64(n.LocalPort)),
			hexField("nodeinfo.vendorid", 6, uint64(n.Vendor))},
		{pi("guid", 16, p.GIDPrefix), pi("lid", 4, p.LID), pi("mastersmlid", 4, p.MasterSMLID), pi("capabilitymask", 8, p.Capabilities),
			pi("localportnum", 2, p.LocalPort), pi("linkwidthenabled", 2, p.WidthEnabled), pi("linkwidthsupported", 2, p.WidthSupported),
			pi("linkwidthactive", 2, p.WidthActive), pi("linkspeedsupported", 2, p.SpeedSupported), pi("portstate", 2, p.State),
			pi("portphysicalstate", 2, p.PhysState), pi("lmc", 2, p.LMC), pi("linkspeedactive", 2, p.SpeedActive),
			pi("linkspeedenabled", 2, p.SpeedEnabled), pi("neighbormtu", 2, p.NeighborMTU), pi("mastersmsl", 2, p.MasterSMSL),
			pi("vlcap", 2, p.VLCap), pi("mtucap", 2, p.MTUCap), pi("operationalvls", 2, p.OperationalVLs),
			pi("m_keyviolations", 4, p.MKeyViolations), pi("p_keyviolations", 4, p.PKeyViolations),
			pi("q_keyviolations", 4, p.QKeyViolations), pi("guidcap", 2, p.GUIDCap), pi("resptimevalue", 2, p.ResponseTime),
			pi("localphyerrors", 2, p.LocalPhyErrors), pi("overrunerrors", 2, p.OverrunErrors)},
		{hexField("smpdirected.hoppointer", 2, 3), hexField("smpdirected.hopcount", 2, 4), hexField("smpdirected.drslid", 4, 0x1234),
			hexField("smpdirected.drdlid", 4, 0x5678), bytesField("smpdirected.initialpath", route.InitialPath()),
			bytesField("smpdirected.returnpath", route.ReturnPath()), {"infiniband.nodedescription.nodestring", "a node"}},
	}
	var packets []oraclePacket
	var fields []string
	for i, m := range []*MAD{node.MAD, port.MAD, route.MAD} {
		h := Headers{Opcode: UDSendOnly, PKey: DefaultPKey, DestQP: SMIQPN, SrcQP: SMIQPN}
		packets = append(packets, oraclePacket{ip: ipPacket(testRoute(false), 0, true, append(h.Append(nil), m[:]...))})
		for _, f := range want[i] {
			fields = append(fields, f.name)
		}
	}
	rows := testenv.Tshark(t, writePcap(t, packets), fields...)
	column := 0
	for i, row := range rows {
		for _, f := range want[i] {
			if row[column] != f.want {
				t.Errorf("%s is %q, want %q", f.name, row[column], f.want)
			}
			column++
		}
	}
	if column != len(fields) {
		t.Errorf("tshark read %d packets of %d", len(rows), len(want))
	}
}

// FuzzSMP: an attribute that is read and written back is the same, and touches nothing else.
func FuzzSMP(f *testing.F) {
	p := samplePort()
	port := SMPPortInfo{smp(MADClassSubnetLID, AttrPortInfo)}
	port.SetInfo(&p)
	node := SMPNodeInfo{smp(MADClassSubnetDirected, AttrNodeInfo)}
	node.SetInfo(&sampleNode)
	f.Add(port.MAD[:])
	f.Add(node.MAD[:])
	f.Add(bytes.Repeat([]byte{0xff}, MADLen))
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) != MADLen {
			return
		}
		before := MAD(b)
		m := before
		n, pi := SMPNodeInfo{&m}.Info(), SMPPortInfo{&m}.Info()
		SMPNodeInfo{&m}.SetInfo(&n)
		SMPPortInfo{&m}.SetInfo(&pi)
		for i := range GUIDsPerBlock {
			SMPGUIDInfo{&m}.SetGUID(i, SMPGUIDInfo{&m}.GUID(i))
		}
		for i := range PKeysPerBlock {
			SMPPKeyTable{&m}.SetPKey(i, SMPPKeyTable{&m}.PKey(i))
		}
		s := SMP{&m}
		s.SetHopPointer(s.HopPointer())
		s.SetHopCount(s.HopCount())
		s.SetLIDs(s.SourceLID(), s.DestLID())
		if m != before {
			t.Fatalf("%x\nbecame\n%x", before, m)
		}
		if again := (SMPPortInfo{&m}).Info(); again != pi {
			t.Fatalf("PortInfo %+v, then %+v", pi, again)
		}
	})
}
