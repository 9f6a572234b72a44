package wire

import (
	"bytes"
	"errors"
	"net/netip"
	"path/filepath"
	"testing"
)

// cmAttributes has the messages, with the length and place of their private data as
// IBA 12.6, 12.8 and 12.11 give them.
var cmAttributes = []struct {
	attribute       CMAttribute
	private, length int
	init            func(*MAD, uint64) CMMessage
}{
	{AttrREQ, 140, 92, func(m *MAD, tid uint64) CMMessage { return m.InitREQ(tid) }},
	{AttrMRA, 10, 222, func(m *MAD, tid uint64) CMMessage { return m.InitMRA(tid) }},
	{AttrREJ, 84, 148, func(m *MAD, tid uint64) CMMessage { return m.InitREJ(tid) }},
	{AttrREP, 36, 196, func(m *MAD, tid uint64) CMMessage { return m.InitREP(tid) }},
	{AttrRTU, 8, 224, func(m *MAD, tid uint64) CMMessage { return m.InitRTU(tid) }},
	{AttrDREQ, 12, 220, func(m *MAD, tid uint64) CMMessage { return m.InitDREQ(tid) }},
	{AttrDREP, 8, 224, func(m *MAD, tid uint64) CMMessage { return m.InitDREP(tid) }},
	{AttrSIDRREQ, 16, 216, func(m *MAD, tid uint64) CMMessage { return m.InitSIDRREQ(tid) }},
	{AttrSIDRREP, 96, 136, func(m *MAD, tid uint64) CMMessage { return m.InitSIDRREP(tid) }},
	{AttrLAP, 64, 168, func(m *MAD, tid uint64) CMMessage { return m.InitLAP(tid) }},
	{AttrAPR, 84, 148, func(m *MAD, tid uint64) CMMessage { return m.InitAPR(tid) }},
}

// TestCMMessages: each message has the header of its kind and private data in its
// place, is parsed as what it is, and is refused at every other length.
func TestCMMessages(t *testing.T) {
	for _, c := range cmAttributes {
		m := MAD(bytes.Repeat([]byte{0xff}, MADLen))
		built := c.init(&m, 0x0102030405060708)
		want := MADHeader{Class: MADClassCM, ClassVersion: 2, Method: MADSend, TID: 0x0102030405060708, Attribute: uint16(c.attribute)}
		if m.Header() != want || !bytes.Equal(m.Data(), make([]byte, MADDataLen)) {
			t.Errorf("%v: % x", c.attribute, m)
		}
		private := built.PrivateData()
		if len(private) != c.length || &private[0] != &m.Data()[c.private] || cap(private) != c.length {
			t.Errorf("%v: private data of %d bytes is out of place", c.attribute, len(private))
		}
		parsed, err := ParseCM(m[:])
		if err != nil || parsed != built || parsed.CMAttribute() != c.attribute || parsed.TID() != want.TID {
			t.Errorf("%v: parsed %v, %v", c.attribute, parsed, err)
		}
		for n := range MADLen {
			if _, err := ParseCM(m[:n]); !errors.Is(err, ErrMADLength) {
				t.Errorf("%v cut to %d bytes: %v", c.attribute, n, err)
			}
		}
	}
}

// TestCMFields: a field takes the bits that the specification gives it and no others,
// whatever is around it.
func TestCMFields(t *testing.T) {
	for _, c := range cmAttributes {
		taken := make([]string, 8*MADDataLen)
		for _, f := range cmFields[c.attribute] {
			all := ^uint64(0) >> (64 - f.width)
			for _, background := range []byte{0, 0xff} {
				m := MAD(bytes.Repeat([]byte{background}, MADLen))
				value := all
				if background != 0 {
					value = 0
				}
				if got := f.get(&m); got != all-value {
					t.Errorf("%v %s: %#x before it is set to %#x", c.attribute, f.name, got, value)
				}
				// Bits beyond the width are dropped.
				f.set(&m, value|^all&-(value&1))
				if got := f.get(&m); got != value {
					t.Errorf("%v %s: set to %#x, got %#x", c.attribute, f.name, value, got)
				}
				for bit := range taken {
					changed := (m.Data()[bit/8]^background)>>(7-bit%8)&1 != 0
					if within := bit >= f.bit && bit < f.bit+f.width; changed != within {
						t.Errorf("%v %s: bit %d of byte %d changed: %v", c.attribute, f.name, bit%8, bit/8, changed)
					}
				}
			}
			for bit := f.bit; bit < f.bit+f.width; bit++ {
				if taken[bit] != "" {
					t.Errorf("%v: %s and %s overlap", c.attribute, f.name, taken[bit])
				}
				taken[bit] = f.name
			}
		}
	}
}

// TestCMBytes: the fields that are not numbers lie where the specification says.
func TestCMBytes(t *testing.T) {
	fill := func(n int) (b []byte) {
		for i := range n {
			b = append(b, byte(i+1))
		}
		return b
	}
	var m MAD
	at := func(what string, off int, want []byte) {
		t.Helper()
		if got := m.Data()[off : off+len(want)]; !bytes.Equal(got, want) {
			t.Errorf("%s: % x at byte %d, want % x", what, got, off, want)
		}
	}
	local, remote := GID(fill(16)), GIDFromAddr(netip.MustParseAddr("10.0.0.1"))
	path := CMPath{LocalGID: local, RemoteGID: remote}

	req := m.InitREQ(1)
	req.SetPrimaryPath(&path)
	at("primary local GID", 56, local[:])
	at("primary remote GID", 72, remote[:])
	req.SetAlternatePath(&path)
	at("alternate local GID", 100, local[:])
	at("alternate remote GID", 116, remote[:])
	if req.PrimaryPath() != path || req.AlternatePath() != path {
		t.Errorf("paths %+v and %+v", req.PrimaryPath(), req.AlternatePath())
	}
	lap := m.InitLAP(1)
	lap.SetAlternatePath(&path)
	at("LAP's local GID", 24, local[:])
	at("LAP's remote GID", 40, remote[:])

	rep := m.InitREP(1)
	rep.SetVendorID(0x123456)
	at("high byte of REP's vendor ID", 15, []byte{0x12})
	at("middle byte of REP's vendor ID", 19, []byte{0x34})
	at("low byte of REP's vendor ID", 23, []byte{0x56})
	if rep.VendorID() != 0x123456 {
		t.Errorf("vendor ID %#x", rep.VendorID())
	}
	sidr := m.InitSIDRREP(1)
	sidr.SetVendorID(0x123456)
	at("upper bytes of SIDR_REP's vendor ID", 6, []byte{0x12, 0x34})
	at("low byte of SIDR_REP's vendor ID", 11, []byte{0x56})
	if sidr.VendorID() != 0x123456 {
		t.Errorf("vendor ID %#x", sidr.VendorID())
	}

	for _, info := range [][]byte{fill(72), fill(8), nil, fill(80)} {
		want := info[:min(len(info), 72)]
		zeros := make([]byte, 72-len(want))
		sidr = m.InitSIDRREP(1)
		sidr.SetInfo(fill(72))
		sidr.SetInfo(info)
		at("length of SIDR_REP's information", 5, []byte{byte(len(want))})
		at("SIDR_REP's information", 24, append(bytes.Clone(want), zeros...))
		if !bytes.Equal(sidr.Info(), want) {
			t.Errorf("SIDR_REP: information % x, want % x", sidr.Info(), want)
		}
		apr := m.InitAPR(1)
		apr.SetInfo(info)
		at("length of APR's information", 8, []byte{byte(len(want))})
		at("APR's information", 12, append(bytes.Clone(want), zeros...))
		if !bytes.Equal(apr.Info(), want) {
			t.Errorf("APR: information % x, want % x", apr.Info(), want)
		}
		rej := m.InitREJ(1)
		rej.SetInfo(info)
		at("length of REJ's information", 9, []byte{byte(len(want)) << 1})
		at("REJ's information", 12, append(bytes.Clone(want), zeros...))
		if !bytes.Equal(rej.Info(), want) {
			t.Errorf("REJ: information % x, want % x", rej.Info(), want)
		}
	}
	// A length that is beyond the field is not believed.
	m.Data()[9] = 0xff
	if n := len((CMREJ{comms{&m}}).Info()); n != 72 {
		t.Errorf("information of %d bytes", n)
	}
}

func TestParseCMErrors(t *testing.T) {
	var m MAD
	for _, c := range []struct {
		name string
		edit func()
		want error
	}{
		{"base version", func() { m[0] = 2 }, ErrMADVersion},
		{"class", func() { m[1] = 4 }, ErrCMClass},
		{"class version", func() { m[2] = 1 }, ErrCMClass},
		{"attribute", func() { m[17] = 0x1b }, ErrCMAttribute},
		{"attribute's high byte", func() { m[16] = 1 }, ErrCMAttribute},
	} {
		m.InitREQ(1)
		c.edit()
		if _, err := ParseCM(m[:]); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
	}
}

func TestCMString(t *testing.T) {
	var m MAD
	check := func(got CMMessage, want string) {
		t.Helper()
		if got.String() != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
	req := m.InitREQ(1)
	req.SetLocalCommID(0x11)
	req.SetServiceID(ServiceID(PortSpaceTCP, 7174))
	req.SetQPN(0x22)
	req.SetStartingPSN(0x33)
	check(req, "REQ id 0x00000011 service 0x0000000001061c06 QP 0x000022 PSN 0x000033")
	rep := m.InitREP(1)
	rep.SetCommIDs(0x12, 0x11)
	rep.SetQPN(0x23)
	rep.SetStartingPSN(0x34)
	check(rep, "REP id 0x00000012 for 0x00000011 QP 0x000023 PSN 0x000034")
	mra := m.InitMRA(1)
	mra.SetCommIDs(1, 2)
	mra.SetMessageMRAed(CMSubjectREP)
	check(mra, "MRA id 0x00000001 for 0x00000002, of a REP")
	rej := m.InitREJ(1)
	rej.SetCommIDs(0, 2)
	rej.SetReason(RejectInvalidServiceID)
	check(rej, "REJ id 0x00000000 for 0x00000002, of a REQ: invalid service ID")
	check(m.InitRTU(1), "RTU id 0x00000000 for 0x00000000")
	dreq := m.InitDREQ(1)
	dreq.SetRemoteQPN(0x24)
	check(dreq, "DREQ id 0x00000000 for 0x00000000 QP 0x000024")
	check(m.InitDREP(1), "DREP id 0x00000000 for 0x00000000")
	check(m.InitSIDRREQ(1), "SIDR_REQ id 0x00000000 service 0x0000000000000000")
	sidr := m.InitSIDRREP(1)
	sidr.SetStatus(SIDRUnsupported)
	check(sidr, "SIDR_REP id 0x00000000 QP 0x000000: service ID not supported")
	check(m.InitLAP(1), "LAP id 0x00000000 for 0x00000000 QP 0x000000")
	apr := m.InitAPR(1)
	apr.SetStatus(APRUnsupported)
	check(apr, "APR id 0x00000000 for 0x00000000: alternate paths not supported")

	for got, want := range map[string]string{
		CMAttribute(0x1b).String():  "attribute 0x001b",
		AttrSIDRREP.String():        "SIDR_REP",
		CMReason(34).String():       "reject reason 34",
		CMReason(0).String():        "reject reason 0",
		CMReason(999).String():      "reject reason 999",
		RejectVendorOption.String(): "vendor option not supported",
		SIDRStatus(6).String():      "SIDR status 6",
		APRStatus(14).String():      "APR status 14",
		CMSubjectREQ.String():       "REQ",
		CMSubjectOther.String():     "other",
		CMSubject(3).String():       "reserved message 3",
	} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestServiceID(t *testing.T) {
	ps, port, ok := SplitServiceID(0x0000000001061c06)
	if ps != PortSpaceTCP || port != 7174 || !ok || ServiceID(ps, port) != 0x01061c06 {
		t.Errorf("port space %#x, port %d, %v", ps, port, ok)
	}
	if _, _, ok := SplitServiceID(0x1000000001061c06); ok {
		t.Error("a service ID of another kind has a port")
	}
}

func TestIPCM(t *testing.T) {
	for _, c := range []struct{ src, dst string }{{"10.0.0.1", "10.0.0.2"}, {"fe80::1", "2001:db8::2"}} {
		h := IPCMHeader{Src: netip.MustParseAddr(c.src), Dst: netip.MustParseAddr(c.dst), SrcPort: 0xabcd}
		b := bytes.Repeat([]byte{0xff}, IPCMHeaderLen+1)
		h.Put(b)
		want := make([]byte, IPCMHeaderLen)
		want[1], want[2], want[3] = 0x40, 0xab, 0xcd
		if h.Src.Is6() {
			want[1] = 0x60
		}
		// IPv4 addresses are the last four bytes of their fields.
		copy(want[20-len(h.Src.AsSlice()):], h.Src.AsSlice())
		copy(want[36-len(h.Dst.AsSlice()):], h.Dst.AsSlice())
		if !bytes.Equal(b[:IPCMHeaderLen], want) || b[IPCMHeaderLen] != 0xff {
			t.Errorf("got  % x\nwant % x", b, want)
		}
		if got, err := ParseIPCM(b); err != nil || got != h {
			t.Errorf("parsed %+v, %v", got, err)
		}
		for n := range IPCMHeaderLen {
			if _, err := ParseIPCM(b[:n]); !errors.Is(err, ErrTruncated) {
				t.Errorf("%d bytes: %v", n, err)
			}
		}
		for i, v := range []byte{0x10, 0x50} { // another version of the header, of IP
			bad := bytes.Clone(b)
			bad[i] = v
			if _, err := ParseIPCM(bad); !errors.Is(err, ErrIPCM) {
				t.Errorf("byte %d %#x: %v", i, v, err)
			}
		}
	}
}

// TestCMCaptures: what the connection manager of Linux sent has the values that the
// text beside the capture, or another message, gives.
func TestCMCaptures(t *testing.T) {
	var all []CMMessage
	for _, name := range []string{"rping.pcap", "udaddy.pcap"} {
		for _, c := range readCapture(t, filepath.Join("../testdata/pcaps", name)) {
			p, err := Parse(c.data[:len(c.data)-ICRCLen])
			if err != nil {
				t.Fatal(err)
			}
			if p.DestQP() != GSIQPN {
				continue
			}
			if p.QKey() != GSIQKey || p.SrcQP() != GSIQPN {
				t.Errorf("%s frame %d: from QP %#x with Q_Key %#x", name, c.frame, p.SrcQP(), p.QKey())
			}
			m, err := ParseCM(p.Payload())
			if err != nil {
				t.Fatalf("%s frame %d: %v", name, c.frame, err)
			}
			all = append(all, m)
		}
	}
	if len(all) != 7 {
		t.Fatalf("%d messages, want 7: %v", len(all), all)
	}
	req, rep, rtu, dreq, drep := all[0].(CMREQ), all[1].(CMREP), all[2].(CMRTU), all[3].(CMDREQ), all[4].(CMDREP)
	ps, port, ok := SplitServiceID(req.ServiceID())
	if ps != PortSpaceTCP || port != 7174 || !ok || req.QPN() != 0x20 || rep.QPN() != 0x20 {
		t.Errorf("%v; %v", req, rep)
	}
	if rep.RemoteCommID() != req.LocalCommID() || rtu.LocalCommID() != req.LocalCommID() || rtu.RemoteCommID() != rep.LocalCommID() ||
		dreq.RemoteQPN() != rep.QPN() || drep.LocalCommID() != rep.LocalCommID() || drep.TID() != dreq.TID() {
		t.Errorf("%v; %v; %v; %v; %v", req, rep, rtu, dreq, drep)
	}
	path := req.PrimaryPath()
	h, err := ParseIPCM(req.PrivateData())
	if err != nil || h.Src != path.LocalGID.Addr() || h.Dst != path.RemoteGID.Addr() || h.Src != netip.MustParseAddr("10.77.0.1") {
		t.Errorf("header %+v, path %+v, %v", h, path, err)
	}
	if req.PKey() != DefaultPKey || req.PathMTU() != 3 || path.HopLimit != 64 || path.LocalLID != 0xffff || req.AlternatePath() != (CMPath{}) {
		t.Errorf("P_Key %#x, MTU %d, path %+v", req.PKey(), req.PathMTU(), path)
	}
	sidrReq, sidrRep := all[5].(CMSIDRREQ), all[6].(CMSIDRREP)
	if ps, _, _ := SplitServiceID(sidrReq.ServiceID()); ps != PortSpaceUDP || sidrRep.RequestID() != sidrReq.RequestID() ||
		sidrRep.Status() != SIDRSuccess || sidrRep.ServiceID() != sidrReq.ServiceID() || sidrRep.QKey() != 0x01234567 || sidrRep.QPN() == 0 {
		t.Errorf("%v; %v", sidrReq, sidrRep)
	}
}

// TestCMAllocates: neither parsing nor building a message allocates.
func TestCMAllocates(t *testing.T) {
	var m MAD
	path := CMPath{HopLimit: 64}
	if n := testing.AllocsPerRun(100, func() {
		req := m.InitREQ(1)
		req.SetQPN(7)
		req.SetPrimaryPath(&path)
		v, err := ParseCM(m[:])
		if err != nil || v.(CMREQ).QPN() != 7 {
			t.Fatal(v, err)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// FuzzCM: any bytes are refused with one of the four errors, or are a message whose
// getters work. Built again from its fields, the message is the same, apart from
// reserved bits.
func FuzzCM(f *testing.F) {
	for _, c := range cmAttributes {
		m := MAD(bytes.Repeat([]byte{0xff}, MADLen))
		c.init(&m, 1)
		f.Add(bytes.Clone(m[:]))
		for i := range m.Data() {
			m.Data()[i] = byte(i + 1)
		}
		f.Add(bytes.Clone(m[:]))
	}
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		before := bytes.Clone(b)
		v, err := ParseCM(b)
		if err != nil {
			kinds := 0
			for _, kind := range []error{ErrMADLength, ErrMADVersion, ErrCMClass, ErrCMAttribute} {
				if errors.Is(err, kind) {
					kinds++
				}
			}
			if kinds != 1 {
				t.Fatalf("%v is %d of the four kinds", err, kinds)
			}
			return
		}
		if v.String() == "" || !bytes.Equal(b, before) {
			t.Fatal("the view has no text, or reading it changed it")
		}
		if req, ok := v.(CMREQ); ok {
			h, err := ParseIPCM(req.PrivateData())
			again := make([]byte, IPCMHeaderLen)
			if err == nil && h.Src.Is4() == h.Dst.Is4() && !h.Src.Is4In6() && !h.Dst.Is4In6() {
				if h.Put(again); again[1] != req.PrivateData()[1]&0xf0 || again[2] != req.PrivateData()[2] {
					t.Fatalf("header % x built again as % x", req.PrivateData()[:IPCMHeaderLen], again)
				}
			}
		}
		// Build it again from its fields.
		old := (*MAD)(before)
		var m MAD
		h := old.Header()
		m.Init(&h)
		for _, field := range cmFields[v.CMAttribute()] {
			field.set(&m, field.get(old))
		}
		copyBytes(&m, v)
		again, err := ParseCM(m[:])
		if err != nil || again.String() != v.String() || !bytes.Equal(again.PrivateData(), v.PrivateData()) {
			t.Fatalf("%v built again as %v, %v", v, again, err)
		}
		for _, field := range cmFields[v.CMAttribute()] {
			if got, want := field.get(&m), field.get(old); got != want {
				t.Fatalf("%v: %s is %#x, want %#x", v, field.name, got, want)
			}
		}
	})
}

// copyBytes writes the fields of a message that are bytes.
func copyBytes(m *MAD, from CMMessage) {
	switch from := from.(type) {
	case CMREQ:
		to, primary, alternate := CMREQ{m}, from.PrimaryPath(), from.AlternatePath()
		to.SetPrimaryPath(&primary)
		to.SetAlternatePath(&alternate)
	case CMLAP:
		path := from.AlternatePath()
		CMLAP{comms{m}}.SetAlternatePath(&path)
	case CMREJ:
		CMREJ{comms{m}}.SetInfo(from.Info())
	case CMAPR:
		CMAPR{comms{m}}.SetInfo(from.Info())
	case CMREP:
		CMREP{comms{m}}.SetVendorID(from.VendorID())
	case CMSIDRREP:
		CMSIDRREP{m}.SetInfo(from.Info())
		CMSIDRREP{m}.SetVendorID(from.VendorID())
	}
	v, err := ParseCM(m[:])
	if err == nil {
		copy(v.PrivateData(), from.PrivateData())
	}
}
