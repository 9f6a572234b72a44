package wire

import (
	"encoding/hex"
	"fmt"
	"strings"
	"testing"

	"github.com/gorxe/gorxe/internal/test/testenv"
)

// pmAnswer returns an answer of performance management without data.
func pmAnswer(a PMAttribute) *MAD {
	m := new(MAD)
	m.Init(&MADHeader{Class: MADClassPerformance, ClassVersion: PMClassVersion, Method: MADGetResp, TID: 1, Attribute: uint16(a)})
	return m
}

// counterSample has a different value in each counter, all of which fit.
func counterSample() (c PortCounters) {
	for i, f := range c.fields() {
		if *f.v = uint64(0xf0 + i); f.len > 1 {
			*f.v = *f.v<<(8*(f.len-1)) | 7
		}
	}
	c.LinkIntegrity, c.BufferOverrun = 9, 6
	return c
}

func TestPMPortCounters(t *testing.T) {
	want := counterSample()
	m := PMPortCounters{pmAnswer(AttrPortCounters)}
	m.SetPortSelect(0x42)
	m.SetCounters(&want)
	// IBA 16.1.3.5, table of PortCounters.
	const table = "00420000" + "f007f1f2" + "f307f407" + "f507f607" + "f7f80096" + "f907fa07" +
		"fb000007" + "fc000007" + "fd000007" + "fe000007" + "ff000007"
	if got := hex.EncodeToString(m.Data()[40 : 40+len(table)/2]); got != table {
		t.Errorf("got  %s\nwant %s", got, table)
	}
	if got := m.Counters(); got != want || m.PortSelect() != 0x42 {
		t.Errorf("port %#x, counters %+v", m.PortSelect(), got)
	}
	// Counters stay at their largest value.
	var most PortCounters
	for _, f := range most.fields() {
		*f.v = 1<<63 + 5
	}
	most.LinkIntegrity, most.BufferOverrun = 16, 99
	m.SetCounters(&most)
	if got := hex.EncodeToString(m.Data()[44:84]); strings.Trim(got, "f") != "00" || got[28:30] != "00" {
		t.Errorf("counters that do not fit: %s", got)
	}
}

func TestPMPortCountersExtended(t *testing.T) {
	m := PMPortCountersExtended{pmAnswer(AttrPortCountersExtended)}
	want := PortCounters{XmitData: 1<<63 + 1, RcvData: 2<<40 + 2, XmitPackets: 3<<40 + 3, RcvPackets: 4<<40 + 4}
	m.SetPortSelect(0x42)
	m.SetCounters(&want)
	// IBA 16.1.4.11, table of PortCountersExtended.
	const table = "0042000000000000" + "8000000000000001" + "0000020000000002" + "0000030000000003" + "0000040000000004"
	if got := hex.EncodeToString(m.Data()[40 : 40+len(table)/2]); got != table {
		t.Errorf("got  %s\nwant %s", got, table)
	}
	if got := m.Counters(); got != want || m.PortSelect() != 0x42 {
		t.Errorf("port %#x, counters %+v", m.PortSelect(), got)
	}
}

func TestPMClassPortInfo(t *testing.T) {
	m := PMClassPortInfo{pmAnswer(AttrClassPortInfo)}
	m.SetInfo(PMCapAllPortSelect|PMCapXmitWait, 0xf2)
	if got := hex.EncodeToString(m.Data()[40:48]); got != "0101110000000012" {
		t.Errorf("got %s", got)
	}
	if m.CapabilityMask() != 0x1100 || m.ResponseTime() != 18 {
		t.Errorf("capabilities %#x, response time %d", m.CapabilityMask(), m.ResponseTime())
	}
}

func TestPMNames(t *testing.T) {
	got := fmt.Sprint(AttrClassPortInfo, AttrPortCounters, AttrPortCountersExtended, PMAttribute(0x17))
	if got != "ClassPortInfo PortCounters PortCountersExtended attribute 0x0017" {
		t.Error(got)
	}
}

// TestPMTshark compares the attributes with what tshark reads.
func TestPMTshark(t *testing.T) {
	c := counterSample()
	info := PMClassPortInfo{pmAnswer(AttrClassPortInfo)}
	info.SetInfo(PMCapAllPortSelect|PMCapXmitWait, 18)
	counters := PMPortCounters{pmAnswer(AttrPortCounters)}
	counters.SetPortSelect(1)
	counters.SetCounters(&c)
	extended := PMPortCountersExtended{pmAnswer(AttrPortCountersExtended)}
	extended.SetPortSelect(1)
	extended.SetCounters(&c)
	name := func(name string, v uint64) tsharkField { return decField("portcounters."+name, v) }
	ext := func(name string, v uint64) tsharkField { return decField("portcounters_ext."+name, v) }
	want := [][]tsharkField{
		{hexField("classportinfo.baseversion", 2, 1), hexField("classportinfo.classversion", 2, 1),
			hexField("classportinfo.capabilitymask", 4, 0x1100), hexField("classportinfo.resptimevalue", 2, 18)},
		{hexField("portcounters.portselect", 2, 1), name("symbolerrorcounter", c.SymbolErrors),
			name("linkerrorrecoverycounter", c.LinkErrorRecovery), name("linkdownedcounter", c.LinkDowned),
			name("portrcverrors", c.RcvErrors), name("portrcvremotephysicalerrors", c.RcvRemotePhysical),
			name("portrcvswitchrelayerrors", c.RcvSwitchRelay), name("portxmitdiscards", c.XmitDiscards),
			name("portxmitconstrainterrors", c.XmitConstraint), name("portrcvconstrainterrors", c.RcvConstraint),
			name("locallinkintegrityerrors", c.LinkIntegrity), name("excessivebufferoverrunerrors", c.BufferOverrun),
			name("vl15dropped", c.VL15Dropped), name("portxmitdata", c.XmitData), name("portrcvdata", c.RcvData),
			name("portxmitpkts", c.XmitPackets), name("portrcvpkts", c.RcvPackets)},
		{hexField("portcounters_ext.portselect", 2, 1), ext("portxmitdata", c.XmitData), ext("portrcvdata", c.RcvData),
			ext("portxmitpkts", c.XmitPackets), ext("portrcvpkts", c.RcvPackets)},
	}
	var packets []oraclePacket
	var fields []string
	for i, m := range []*MAD{info.MAD, counters.MAD, extended.MAD} {
		h := Headers{Opcode: UDSendOnly, PKey: DefaultPKey, DestQP: GSIQPN, SrcQP: GSIQPN, QKey: GSIQKey}
		packets = append(packets, oraclePacket{ip: ipPacket(testRoute(false), 0, true, append(h.Append(nil), m[:]...))})
		want[i] = append(want[i], tsharkField{"_ws.malformed", ""})
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
