package wire

// SMPPortInfo is a datagram with the attribute PortInfo (IBA 14.2.5.6).
type SMPPortInfo struct{ *MAD }

// PortInfo has the fields of PortInfo that a port without a subnet manager has something to
// say in. Enumerations are those of the specification.
//
// Fields: those of the attribute.
type PortInfo struct {
	GIDPrefix                                      uint64
	LID, MasterSMLID                               uint64
	Capabilities                                   uint64
	LocalPort                                      uint64
	WidthEnabled, WidthSupported, WidthActive      uint64 // 1: 1X, 2: 4X, 4: 8X, 8: 12X, 16: 2X
	SpeedSupported, SpeedActive, SpeedEnabled      uint64 // 1: 2.5, 2: 5, 4: 10 Gb/s a lane
	SpeedExtSupported, SpeedExtActive              uint64 // 1: FDR, 2: EDR, 4: HDR, 8: NDR
	SpeedExtEnabled                                uint64
	State                                          uint64 // 1: down, 4: active
	PhysState                                      uint64 // 3: disabled, 5: link up
	LMC                                            uint64
	NeighborMTU, MTUCap                            uint64 // 1: 256 bytes … 5: 4096
	MasterSMSL                                     uint64
	VLCap, OperationalVLs                          uint64 // 1: VL 0 only
	GUIDCap                                        uint64 // the number of GUIDs
	MKeyViolations, PKeyViolations, QKeyViolations uint64
	ResponseTime                                   uint64 // 4.096 µs times 2 to this power
	LocalPhyErrors, OverrunErrors                  uint64
}

// PortCapExtendedSpeeds is a bit of the capabilities: the fields for extended speeds count
// (IBA 14.2.5.6).
const PortCapExtendedSpeeds = 1 << 14

// piField is a field of PortInfo: its first bit, counted from the start of the attribute, and
// its width.
type piField struct {
	bit, width int
	v          *uint64
}

func (p *PortInfo) fields() [29]piField {
	return [...]piField{
		{64, 64, &p.GIDPrefix}, {128, 16, &p.LID}, {144, 16, &p.MasterSMLID}, {160, 32, &p.Capabilities},
		{224, 8, &p.LocalPort}, {232, 8, &p.WidthEnabled}, {240, 8, &p.WidthSupported}, {248, 8, &p.WidthActive},
		{256, 4, &p.SpeedSupported}, {260, 4, &p.State}, {264, 4, &p.PhysState}, {277, 3, &p.LMC},
		{280, 4, &p.SpeedActive}, {284, 4, &p.SpeedEnabled}, {288, 4, &p.NeighborMTU}, {292, 4, &p.MasterSMSL},
		{296, 4, &p.VLCap}, {332, 4, &p.MTUCap}, {344, 4, &p.OperationalVLs},
		{352, 16, &p.MKeyViolations}, {368, 16, &p.PKeyViolations}, {384, 16, &p.QKeyViolations},
		{400, 8, &p.GUIDCap}, {419, 5, &p.ResponseTime}, {424, 4, &p.LocalPhyErrors}, {428, 4, &p.OverrunErrors},
		{496, 4, &p.SpeedExtActive}, {500, 4, &p.SpeedExtSupported}, {507, 5, &p.SpeedExtEnabled},
	}
}

// Info returns the attribute.
func (m SMPPortInfo) Info() (p PortInfo) {
	for _, f := range p.fields() {
		*f.v = m.field(f)
	}
	return p
}

// SetInfo sets the attribute. What does not fit its field is cut.
func (m SMPPortInfo) SetInfo(p *PortInfo) {
	for _, f := range p.fields() {
		m.setField(f, *f.v)
	}
}

// field reads whole bytes, or a part of one.
func (m SMPPortInfo) field(f piField) (v uint64) {
	off := smpData + f.bit/8
	if f.width < 8 {
		return uint64(m.bits(off, f.part()))
	}
	for _, b := range m.data(off, f.width/8) {
		v = v<<8 | uint64(b)
	}
	return v
}

func (m SMPPortInfo) setField(f piField, v uint64) {
	off := smpData + f.bit/8
	if f.width < 8 {
		m.putBits(off, f.part(), uint8(v))
		return
	}
	b := m.data(off, f.width/8)
	for i := range b {
		b[i] = byte(v >> (f.width - 8 - 8*i))
	}
}

// part returns a field within a byte.
func (f piField) part() bitField {
	return bitField{shift: uint8(8 - f.bit%8 - f.width), width: uint8(f.width)}
}
