package wire

import (
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"

	"github.com/gorxe/gorxe/internal/test/testenv"
)

// tsharkField is a field as tshark names it, and the text that it prints for it.
type tsharkField struct{ name, want string }

func hexField(name string, digits int, v uint64) tsharkField {
	return tsharkField{"infiniband." + name, fmt.Sprintf("0x%0*x", digits, v)}
}

func decField(name string, v uint64) tsharkField {
	return tsharkField{"infiniband." + name, fmt.Sprint(v)}
}

func bytesField(name string, b []byte) tsharkField {
	return tsharkField{"infiniband." + name, hex.EncodeToString(b)}
}

// A cmSet has the values of the fields of one message of each kind. The set 0 has fixed ones, the
// set 1 their complements in every other bit, and the others have random ones.
type cmSet uint64

// cmSets is how many messages of each kind tshark reads.
const cmSets = 100

// value returns the value of a field, always the same one for a v.
func (s cmSet) value(v uint64) uint64 {
	if s < 2 {
		return v ^ uint64(s)*0x5a5a5a5a5a5a5a5a
	}
	return rand.NewPCG(uint64(s), v).Uint64()
}

// data returns n bytes.
func (s cmSet) data(n int, first uint64) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(s.value(first<<16 + uint64(i)*7))
	}
	return b
}

// route returns addresses: IPv6 ones in each second set.
func (s cmSet) route() (r *Route, v6 bool) {
	v6 = s&1 != 0
	if r = testRoute(v6); s < 2 {
		return r, v6
	}
	for i, a := range []*netip.Addr{&r.Src, &r.Dst} {
		b := s.data(16, uint64(2000+i))
		if b[0] |= 1; v6 { // not all zeros in front: tshark and net/netip write those differently
			*a = netip.AddrFrom16([16]byte(b))
		} else {
			*a = netip.AddrFrom4([4]byte(b))
		}
	}
	return r, v6
}

// cmSamples builds the messages that tshark 4.0 can decode, with many values. MRA, LAP, APR and
// SIDR are not among them: TestCMFields holds these to the tables of the specification, and
// TestCMCaptures to what Linux sends.
func cmSamples() (all []CMMessage, want [][]tsharkField) {
	for s := range cmSet(cmSets) {
		n := s.value
		add := func(m CMMessage, fields ...tsharkField) {
			private := s.data(len(m.PrivateData()), 1000)
			copy(m.PrivateData(), private)
			all = append(all, m)
			want = append(want, append(fields,
				hexField("mad.baseversion", 2, 1), hexField("mad.mgmtclass", 2, 7), hexField("mad.classversion", 2, 2),
				hexField("mad.method", 2, 3), hexField("mad.status", 4, 0), hexField("mad.transactionid", 16, m.TID()),
				hexField("mad.attributeid", 4, uint64(m.CMAttribute())), hexField("mad.attributemodifier", 8, 0),
				bytesField(privateField[m.CMAttribute()], private[privateSkip(m):]),
				tsharkField{"_ws.malformed", ""}))
		}
		addREQ(s, add)
		addREP(n, add)
		local, remote := uint32(n(0x11223344)), uint32(n(0x55667788))

		rtu := new(MAD).InitRTU(n(3))
		rtu.SetCommIDs(local, remote)
		add(rtu, hexField("cm.rtu.localcommid", 8, uint64(local)), hexField("cm.rtu.remotecommid", 8, uint64(remote)))

		rej := new(MAD).InitREJ(n(4))
		rej.SetCommIDs(local, remote)
		rej.SetMessageRejected(CMSubject(n(7) & 3))
		rej.SetReason(CMReason(n(0x1c) & 0xffff))
		info := s.data(int(n(8)%73), 0x40)
		rej.SetInfo(info)
		add(rej, hexField("cm.rej.localcommid", 8, uint64(local)), hexField("cm.rej.remotecommid", 8, uint64(remote)),
			hexField("cm.rej.msgrej", 2, n(7)&3), hexField("cm.rej.rejinfolen", 2, n(8)%73), hexField("cm.rej.reason", 4, n(0x1c)&0xffff),
			bytesField("cm.rej.ari", append(info, make([]byte, 72-len(info))...)))

		dreq := new(MAD).InitDREQ(n(5))
		dreq.SetCommIDs(local, remote)
		dreq.SetRemoteQPN(QPN(n(0x123456) & QPNMask))
		add(dreq, hexField("cm.dreq.localcommid", 8, uint64(local)), hexField("cm.dreq.remotecommid", 8, uint64(remote)),
			hexField("cm.req.remoteqpneecn", 6, n(0x123456)&QPNMask))

		drep := new(MAD).InitDREP(n(6))
		drep.SetCommIDs(local, remote)
		add(drep, hexField("cm.drsp.localcommid", 8, uint64(local)), hexField("cm.drsp.remotecommid", 8, uint64(remote)))
	}
	return all, want
}

// privateField is the private data as tshark names it; in a REQ, that behind the
// header of the RDMA IP CM service.
var privateField = map[CMAttribute]string{
	AttrREQ: "cm.req.ip_cm.private", AttrREP: "cm.rep.private", AttrRTU: "cm.rtu.private", AttrREJ: "cm.rej.private",
	AttrDREQ: "cm.dreq.private", AttrDREP: "cm.drsp.private",
}

func privateSkip(m CMMessage) int {
	if m.CMAttribute() == AttrREQ {
		return IPCMHeaderLen
	}
	return 0
}

func addREQ(s cmSet, add func(CMMessage, ...tsharkField)) {
	n := s.value
	r, v6 := s.route()
	path := func(k uint64) CMPath {
		return CMPath{
			LocalLID: uint16(n(0x1234 + k)), RemoteLID: uint16(n(0x5678 + k)), LocalGID: GIDFromAddr(r.Src), RemoteGID: GIDFromAddr(r.Dst),
			FlowLabel: uint32(n(0x6789a+k)) & 0xfffff, TrafficClass: uint8(n(0x21 + k)), HopLimit: uint8(n(0x40 + k)), Rate: uint8(n(0x15+k)) & 63,
			ServiceLevel: uint8(n(6+k)) & 15, SubnetLocal: (n(k) & 1) != 0, LocalACKTimeout: uint8(n(17+k)) & 31,
		}
	}
	primary, alternate := path(0), path(1)
	q := new(MAD).InitREQ(n(1))
	q.SetLocalCommID(uint32(n(0x11223344)))
	q.SetServiceID(ServiceID(PortSpaceTCP, uint16(n(7174))))
	q.SetCAGUID(n(0x505400fffe770001))
	q.SetQKey(uint32(n(0x0badcafe)))
	q.SetQPN(QPN(n(0x123456) & QPNMask))
	q.SetResponderResources(uint8(n(16)))
	q.SetInitiatorDepth(uint8(n(17)))
	q.SetRemoteCMTimeout(uint8(n(20)) & 31)
	q.SetTransportType(uint8(n(1)) & 3)
	q.SetFlowControl(n(0)&1 != 0)
	q.SetStartingPSN(PSN(n(0xabcdef) & PSNMask))
	q.SetLocalCMTimeout(uint8(n(21)) & 31)
	q.SetRetryCount(uint8(n(6)) & 7)
	q.SetPKey(PKey(n(0x8123)))
	q.SetPathMTU(uint8(n(3)) & 15)
	q.SetRNRRetryCount(uint8(n(5)) & 7)
	q.SetMaxCMRetries(uint8(n(15)) & 15)
	q.SetSRQ(n(0)&8 != 0)
	q.SetExtendedTransportType(uint8(n(1)) & 7)
	q.SetPrimaryPath(&primary)
	q.SetAlternatePath(&alternate)

	fields := []tsharkField{
		hexField("cm.req", 8, n(0x11223344)&0xffffffff), hexField("cm.req.serviceid", 16, uint64(ServiceID(PortSpaceTCP, uint16(n(7174))))),
		hexField("cm.req.localcaguid", 16, n(0x505400fffe770001)), hexField("cm.req.localqkey", 8, n(0x0badcafe)&0xffffffff),
		hexField("cm.req.localqpn", 6, n(0x123456)&QPNMask), hexField("cm.req.responderres", 2, n(16)&255),
		hexField("cm.req.localeecn", 6, 0), hexField("cm.req.initdepth", 2, n(17)&255),
		hexField("cm.req.remoteeecn", 6, 0), hexField("cm.req.remoteresptout", 2, n(20)&31),
		hexField("cm.req.transpsvctype", 2, n(1)&3), hexField("cm.req.e2eflowctrl", 2, n(0)&1),
		hexField("cm.req.startpsn", 6, n(0xabcdef)&PSNMask), hexField("cm.req.localresptout", 2, n(21)&31),
		hexField("cm.req.retrcount", 2, n(6)&7), hexField("cm.req.pkey", 4, n(0x8123)&0xffff),
		hexField("cm.req.pppmtu", 2, n(3)&15), hexField("cm.req.rdcexist", 2, 0), hexField("cm.req.rnrretrcount", 2, n(5)&7),
		hexField("cm.req.maxcmretr", 2, n(15)&15), hexField("cm.req.srq", 2, n(0)&8>>3), hexField("cm.req.ext_transport", 2, n(1)&7),
	}
	// Flow label and rate are left to TestCMFields: tshark 4.0 reads the first three
	// bytes of their word for the label, and its first byte for the rate.
	for k, p := range []CMPath{primary, alternate} {
		name := [...]string{"cm.req.prim_", "cm.req.alt_"}[k]
		local, remote := p.LocalGID, p.RemoteGID
		gids := []tsharkField{bytesField(name+"localgid", local[:]), bytesField(name+"remotegid", remote[:])}
		if k == 0 {
			gids = gidFields(name, v6, local.Addr(), remote.Addr())
		}
		fields = append(fields, append(gids,
			decField(name+"locallid", uint64(p.LocalLID)), decField(name+"remotelid", uint64(p.RemoteLID)),
			hexField(name+"tfcclass", 2, uint64(p.TrafficClass)), hexField(name+"hoplim", 2, uint64(p.HopLimit)),
			hexField(name+"sl", 2, uint64(p.ServiceLevel)), hexField(name+"subnetlocal", 2, uint64(btoi(p.SubnetLocal))),
			hexField(name+"localacktout", 2, uint64(p.LocalACKTimeout)))...)
	}
	h := IPCMHeader{Src: r.Src, Dst: r.Dst, SrcPort: uint16(n(0xd123))}
	add(q, append(fields, ipcmFields(&h)...)...)
	h.Put(q.PrivateData())
}

// gidFields are the GIDs of the primary path, which tshark shows as addresses.
func gidFields(name string, v6 bool, local, remote netip.Addr) []tsharkField {
	suffix := "_ipv4"
	if v6 {
		suffix = ""
	}
	return []tsharkField{
		{"infiniband." + name + "localgid" + suffix, local.String()},
		{"infiniband." + name + "remotegid" + suffix, remote.String()},
	}
}

func ipcmFields(h *IPCMHeader) []tsharkField {
	version := "4"
	if h.Src.Is6() {
		version = "6"
	}
	return []tsharkField{
		hexField("cm.req.ip_cm.majv", 2, 0), hexField("cm.req.ip_cm.minv", 2, 0),
		{"infiniband.cm.req.ip_cm.ipv", "0x0" + version}, hexField("cm.req.ip_cm.sport", 4, uint64(h.SrcPort)),
		{"infiniband.cm.req.ip_cm.sip" + version, h.Src.String()}, {"infiniband.cm.req.ip_cm.dip" + version, h.Dst.String()},
	}
}

func addREP(n func(uint64) uint64, add func(CMMessage, ...tsharkField)) {
	local, remote := n(0x99aabbcc)&0xffffffff, n(0xddeeff00)&0xffffffff
	p := new(MAD).InitREP(n(2))
	p.SetCommIDs(uint32(local), uint32(remote))
	p.SetQKey(uint32(n(0x0badcafe)))
	p.SetQPN(QPN(n(0x123456) & QPNMask))
	p.SetXRCQPN(QPN(n(0x234567) & QPNMask))
	p.SetStartingPSN(PSN(n(0xabcdef) & PSNMask))
	p.SetResponderResources(uint8(n(16)))
	p.SetInitiatorDepth(uint8(n(17)))
	p.SetTargetACKDelay(uint8(n(15)) & 31)
	p.SetFailover(uint8(n(1)) & 3)
	p.SetFlowControl(n(1)&1 != 0)
	p.SetRNRRetryCount(uint8(n(6)) & 7)
	p.SetSRQ(n(1)&1 != 0)
	p.SetCAGUID(n(0x505400fffe770002))
	add(p,
		hexField("cm.rep", 8, local), hexField("cm.rep.remotecommid", 8, remote), hexField("cm.rep.localqkey", 8, n(0x0badcafe)&0xffffffff),
		hexField("cm.rep.localqpn", 6, n(0x123456)&QPNMask), hexField("cm.rep.localeecn", 6, n(0x234567)&QPNMask),
		hexField("cm.rep.startpsn", 6, n(0xabcdef)&PSNMask), hexField("cm.rep.respres", 2, n(16)&255),
		hexField("cm.rep.initdepth", 2, n(17)&255), hexField("cm.rep.tgtackdelay", 2, n(15)&31),
		hexField("cm.rep.failoveracc", 2, n(1)&3), hexField("cm.rep.e2eflowctrl", 2, n(1)&1),
		hexField("cm.rep.rnrretrcount", 2, n(6)&7), hexField("cm.rep.srq", 2, n(1)&1), hexField("cm.rep.localcaguid", 16, n(0x505400fffe770002)))
}

// TestCMTshark compares every field of every message with what tshark reads.
func TestCMTshark(t *testing.T) {
	all, want := cmSamples()
	var fields []string
	column := make(map[string]int)
	for _, w := range want {
		for _, f := range w {
			if _, ok := column[f.name]; !ok {
				column[f.name] = len(fields)
				fields = append(fields, f.name)
			}
		}
	}
	var packets []oraclePacket
	for i, m := range all {
		h := Headers{Opcode: UDSendOnly, PKey: DefaultPKey, DestQP: GSIQPN, SrcQP: GSIQPN, QKey: GSIQKey}
		r, v6 := cmSet(i * cmSets / len(all)).route()
		packets = append(packets, oraclePacket{v6: v6, ip: ipPacket(r, 0, true, append(h.Append(nil), madOf(m)[:]...))})
	}
	rows := testenv.Tshark(t, writePcap(t, packets), fields...)
	if len(rows) != len(all) {
		t.Fatalf("tshark read %d packets of %d", len(rows), len(all))
	}
	for i, m := range all {
		for _, f := range want[i] {
			if got := rows[i][column[f.name]]; got != f.want {
				t.Errorf("message %d, %v: %s is %.80q, want %.80q", i, m, f.name, got, f.want)
			}
		}
	}
	t.Logf("%d messages, %d fields compared", len(all), len(fields))
}

// madOf returns the datagram of a message.
func madOf(m CMMessage) *MAD {
	switch m := m.(type) {
	case CMREQ:
		return m.MAD
	case CMREP:
		return m.MAD
	case CMRTU:
		return m.MAD
	case CMREJ:
		return m.MAD
	case CMDREQ:
		return m.MAD
	case CMDREP:
		return m.MAD
	}
	panic(m)
}
