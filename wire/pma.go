package wire

import "fmt"

// Performance management (IBA 16.1): a port's counters, as management datagrams of
// version 1 of their class. Each attribute has a type here, which is a view of the
// datagram. Offsets count from the data of the attribute, as in the tables of IBA 16.1.3.

// PMAttribute is the attribute of a MAD of performance management.
type PMAttribute uint16

// The attributes that a port answers (IBA 16.1.2).
const (
	AttrClassPortInfo        PMAttribute = 0x0001
	AttrPortCounters         PMAttribute = 0x0012
	AttrPortCountersExtended PMAttribute = 0x001d
)

func (a PMAttribute) String() string {
	switch a {
	case AttrClassPortInfo:
		return "ClassPortInfo"
	case AttrPortCounters:
		return "PortCounters"
	case AttrPortCountersExtended:
		return "PortCountersExtended"
	}
	return fmt.Sprintf("attribute 0x%04x", uint16(a))
}

// PMClassVersion is the version of the class.
const PMClassVersion = 1

// PMAllPorts selects all ports of a node (IBA 16.1.3.5, PortSelect).
const PMAllPorts = 0xff

// pmData is where the attribute begins in the datagram's data: 40 reserved bytes precede
// it (IBA 16.1.1).
const pmData = 40

// PortCounters are a port's counters. The units are those of IBA 16.1.3.5: data counts
// words of four bytes.
type PortCounters struct {
	SymbolErrors, LinkErrorRecovery, LinkDowned  uint64
	RcvErrors, RcvRemotePhysical, RcvSwitchRelay uint64
	XmitDiscards, XmitConstraint, RcvConstraint  uint64
	LinkIntegrity, BufferOverrun                 uint64
	QP1Dropped, VL15Dropped                      uint64
	XmitData, RcvData, XmitPackets, RcvPackets   uint64
	XmitWait                                     uint64
}

// PMPortCounters is a datagram with the attribute PortCounters (IBA 16.1.3.5).
type PMPortCounters struct{ *MAD }

const (
	pmPortSelect = 1 // 8 bits, also in PortCountersExtended

	pmLinkIntegrity = 4 // shift of the first of two counters of 4 bits
	pmOverrun       = 19
)

// pmField is a counter of PortCounters: where it is, how many bytes it has, and its value.
type pmField struct {
	off, len int
	v        *uint64
}

func (c *PortCounters) fields() [16]pmField {
	return [...]pmField{
		{4, 2, &c.SymbolErrors}, {6, 1, &c.LinkErrorRecovery}, {7, 1, &c.LinkDowned}, {8, 2, &c.RcvErrors},
		{10, 2, &c.RcvRemotePhysical}, {12, 2, &c.RcvSwitchRelay}, {14, 2, &c.XmitDiscards},
		{16, 1, &c.XmitConstraint}, {17, 1, &c.RcvConstraint}, {20, 2, &c.QP1Dropped}, {22, 2, &c.VL15Dropped},
		{24, 4, &c.XmitData}, {28, 4, &c.RcvData}, {32, 4, &c.XmitPackets}, {36, 4, &c.RcvPackets}, {40, 4, &c.XmitWait},
	}
}

// PortSelect returns which port the datagram is about.
func (m PMPortCounters) PortSelect() uint8     { return m.u8(pmData + pmPortSelect) }
func (m PMPortCounters) SetPortSelect(v uint8) { m.put8(pmData+pmPortSelect, v) }

// Counters returns the counters.
func (m PMPortCounters) Counters() (c PortCounters) {
	for _, f := range c.fields() {
		for _, b := range m.data(pmData+f.off, f.len) {
			*f.v = *f.v<<8 | uint64(b)
		}
	}
	c.LinkIntegrity, c.BufferOverrun = uint64(m.u8(pmData+pmOverrun)>>pmLinkIntegrity), uint64(m.u8(pmData+pmOverrun)&0xf)
	return c
}

// Bits of the counters in the fields CounterSelect and CounterSelect2 of a Set (IBA 16.1.3.5),
// in the order of PortCounters.fields. The second field follows the first here.
var pmSelect = [...]int{0, 1, 2, 3, 4, 5, 6, 7, 8, -1, 11, 12, 13, 14, 15, 16}

const (
	pmCounterSelect  = 2  // 16 bits, also in PortCountersExtended
	pmCounterSelect2 = 18 // 8 bits

	pmSelectLinkIntegrity = 9
	pmSelectOverrun       = 10
)

// Select returns which counters a Set is about.
func (m PMPortCounters) Select() uint32 {
	return uint32(m.u16(pmData+pmCounterSelect)) | uint32(m.u8(pmData+pmCounterSelect2))<<16
}

// SetSelect sets which counters a Set is about.
func (m PMPortCounters) SetSelect(v uint32) {
	m.put16(pmData+pmCounterSelect, uint16(v))
	m.put8(pmData+pmCounterSelect2, uint8(v>>16))
}

// Apply sets the counters that a Set is about, in c.
func (m PMPortCounters) Apply(c *PortCounters) {
	sel, from := m.Select(), m.Counters()
	to := c.fields()
	for i, f := range from.fields() {
		if bit := pmSelect[i]; bit >= 0 && sel>>bit&1 != 0 {
			*to[i].v = *f.v
		}
	}
	if sel>>pmSelectLinkIntegrity&1 != 0 {
		c.LinkIntegrity = from.LinkIntegrity
	}
	if sel>>pmSelectOverrun&1 != 0 {
		c.BufferOverrun = from.BufferOverrun
	}
}

// Sub subtracts each counter of o.
func (c *PortCounters) Sub(o *PortCounters) {
	to := c.fields()
	for i, f := range o.fields() {
		*to[i].v -= *f.v
	}
	c.LinkIntegrity -= o.LinkIntegrity
	c.BufferOverrun -= o.BufferOverrun
}

// SetCounters sets the counters. One that does not fit is set to its largest value, at
// which the counters of a port stay (IBA 16.1.3.5).
func (m PMPortCounters) SetCounters(c *PortCounters) {
	for _, f := range c.fields() {
		v := min(*f.v, 1<<(8*f.len)-1)
		b := m.data(pmData+f.off, f.len)
		for i := range b {
			b[i] = byte(v >> (8 * (f.len - 1 - i)))
		}
	}
	m.put8(pmData+pmOverrun, uint8(min(c.LinkIntegrity, 0xf)<<pmLinkIntegrity|min(c.BufferOverrun, 0xf)))
}

// PMPortCountersExtended is a datagram with the attribute PortCountersExtended: the
// counters of traffic with 64 bits (IBA 16.1.4.11).
type PMPortCountersExtended struct{ *MAD }

// PortSelect returns which port the datagram is about.
func (m PMPortCountersExtended) PortSelect() uint8     { return m.u8(pmData + pmPortSelect) }
func (m PMPortCountersExtended) SetPortSelect(v uint8) { m.put8(pmData+pmPortSelect, v) }

// Counters returns the counters of traffic.
func (m PMPortCountersExtended) Counters() PortCounters {
	return PortCounters{XmitData: m.u64(pmData + 8), RcvData: m.u64(pmData + 16),
		XmitPackets: m.u64(pmData + 24), RcvPackets: m.u64(pmData + 32)}
}

// SetCounters sets the counters of traffic.
func (m PMPortCountersExtended) SetCounters(c *PortCounters) {
	for i, v := range [...]uint64{c.XmitData, c.RcvData, c.XmitPackets, c.RcvPackets} {
		m.put64(pmData+8+8*i, v)
	}
}

// Select returns which counters a Set is about: bits 0 to 3 (IBA 16.1.4.11).
func (m PMPortCountersExtended) Select() uint16     { return m.u16(pmData + pmCounterSelect) }
func (m PMPortCountersExtended) SetSelect(v uint16) { m.put16(pmData+pmCounterSelect, v) }

// Apply sets the counters that a Set is about, in c.
func (m PMPortCountersExtended) Apply(c *PortCounters) {
	sel, from := m.Select(), m.Counters()
	for i, f := range [...][2]*uint64{{&c.XmitData, &from.XmitData}, {&c.RcvData, &from.RcvData},
		{&c.XmitPackets, &from.XmitPackets}, {&c.RcvPackets, &from.RcvPackets}} {
		if sel>>i&1 != 0 {
			*f[0] = *f[1]
		}
	}
}

// PMClassPortInfo is a datagram with the attribute ClassPortInfo of performance
// management (IBA 13.4.8.1, 16.1.3.1).
type PMClassPortInfo struct{ *MAD }

// Bits of the capability mask (IBA 16.1.3.1).
const (
	PMCapAllPortSelect uint16 = 1 << 8 // PMAllPorts
	// PortCountersExtended, without counters of unicast and multicast
	PMCapExtendedWidth uint16 = 1 << 10
	PMCapXmitWait      uint16 = 1 << 12 // PortCounters has the counter XmitWait
)

const (
	infoBaseVersion  = 0 // 8 bits
	infoClassVersion = 1 // 8 bits
	infoCapabilities = 2 // 16 bits
	infoResponseTime = 7 // 5 bits
)

// CapabilityMask returns the capabilities.
func (m PMClassPortInfo) CapabilityMask() uint16 { return m.u16(pmData + infoCapabilities) }

// ResponseTime returns within what time the port answers: 4.096 µs times 2 to this power.
func (m PMClassPortInfo) ResponseTime() uint8 { return m.u8(pmData+infoResponseTime) & 0x1f }

// SetInfo sets the versions of the class, and what CapabilityMask and ResponseTime return.
func (m PMClassPortInfo) SetInfo(capabilities uint16, responseTime uint8) {
	m.put8(pmData+infoBaseVersion, madBaseVersion)
	m.put8(pmData+infoClassVersion, PMClassVersion)
	m.put16(pmData+infoCapabilities, capabilities)
	m.put8(pmData+infoResponseTime, responseTime&0x1f)
}
