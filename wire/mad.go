package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
)

const (
	// MADLen is the length of every management datagram (IBA 13.4.2).
	MADLen = 256
	// MADHeaderLen is the length of the header that all classes share.
	MADHeaderLen = 24
	// MADDataLen is the length of what the class defines.
	MADDataLen = MADLen - MADHeaderLen

	// GSIQPN is the queue pair of the general services (IBA 13.5.1), and GSIQKey the
	// queue key of every datagram to it (IBA 10.2.5).
	GSIQPN  QPN    = 1
	GSIQKey uint32 = 0x80010000

	madBaseVersion = 1
)

// Offsets in the header of a MAD (IBA 13.4.3).
const (
	madOffBaseVersion  = 0
	madOffClass        = 1
	madOffClassVersion = 2
	madOffMethod       = 3
	madOffStatus       = 4
	madOffClassData    = 6
	madOffTID          = 8
	madOffAttribute    = 16
	madOffModifier     = 20
)

// Why ParseMAD refuses a datagram. The errors are shared values, so that hostile
// datagrams cost no memory.
var (
	ErrMADLength  = errors.New("wire: management datagram is not 256 bytes long")
	ErrMADVersion = errors.New("wire: management datagram has a base version other than 1")
)

// MADClass is a management class (IBA 13.4.4).
type MADClass uint8

// The management classes that are found on queue pair 1.
const (
	MADClassSubnetAdmin MADClass = 0x03
	MADClassPerformance MADClass = 0x04
	MADClassCM          MADClass = 0x07
)

func (c MADClass) String() string {
	switch c {
	case MADClassSubnetLID:
		return "subnet management, LID routed"
	case MADClassSubnetDirected:
		return "subnet management, directed route"
	case MADClassSubnetAdmin:
		return "subnet administration"
	case MADClassPerformance:
		return "performance management"
	case MADClassCM:
		return "communication management"
	}
	return fmt.Sprintf("class 0x%02x", uint8(c))
}

// MADMethod is what a MAD asks for (IBA 13.4.5). The top bit marks a response.
type MADMethod uint8

// The methods that all classes share.
const (
	MADGet     MADMethod = 0x01
	MADSet     MADMethod = 0x02
	MADSend    MADMethod = 0x03
	MADGetResp MADMethod = 0x81

	// MADResponse is the bit that marks a response.
	MADResponse MADMethod = 0x80
)

func (m MADMethod) String() string {
	switch m {
	case MADGet:
		return "Get"
	case MADSet:
		return "Set"
	case MADSend:
		return "Send"
	case MADGetResp:
		return "GetResp"
	default:
		return fmt.Sprintf("method 0x%02x", uint8(m))
	}
}

// The status of a response (IBA 13.4.7): bits 4 to 2 say why a request is refused.
const (
	MADUnsupportedVersion   uint16 = 1 << 2 // base or class version
	MADUnsupportedMethod    uint16 = 2 << 2
	MADUnsupportedAttribute uint16 = 3 << 2 // with this method
	MADInvalidField         uint16 = 7 << 2 // in the attribute or its modifier
)

// MADHeader holds the fields of the header that all classes share, in host order.
type MADHeader struct {
	Class        MADClass
	ClassVersion uint8
	Method       MADMethod
	Status       uint16
	ClassData    uint16 // for the class to define
	TID          uint64 // transaction identifier
	Attribute    uint16
	Modifier     uint32 // of the attribute
}

// MAD is a management datagram in place: a *MAD is a view of 256 bytes of a packet's
// payload. Its getters cannot fail.
type MAD [MADLen]byte

// ParseMAD returns a view of b. The error is ErrMADLength or ErrMADVersion.
func ParseMAD(b []byte) (*MAD, error) {
	if len(b) != MADLen {
		return nil, ErrMADLength
	}
	if b[madOffBaseVersion] != madBaseVersion {
		return nil, ErrMADVersion
	}
	return (*MAD)(b), nil
}

// Init clears the datagram and writes its header.
func (m *MAD) Init(h *MADHeader) {
	clear(m[:])
	m[madOffBaseVersion] = madBaseVersion
	m[madOffClass] = uint8(h.Class)
	m[madOffClassVersion] = h.ClassVersion
	m[madOffMethod] = uint8(h.Method)
	binary.BigEndian.PutUint16(m[madOffStatus:], h.Status)
	binary.BigEndian.PutUint16(m[madOffClassData:], h.ClassData)
	binary.BigEndian.PutUint64(m[madOffTID:], h.TID)
	binary.BigEndian.PutUint16(m[madOffAttribute:], h.Attribute)
	binary.BigEndian.PutUint32(m[madOffModifier:], h.Modifier)
}

// Header returns all fields of the header.
func (m *MAD) Header() MADHeader {
	return MADHeader{
		Class:        m.Class(),
		ClassVersion: m[madOffClassVersion],
		Method:       m.Method(),
		Status:       m.Status(),
		ClassData:    binary.BigEndian.Uint16(m[madOffClassData:]),
		TID:          m.TID(),
		Attribute:    m.Attribute(),
		Modifier:     binary.BigEndian.Uint32(m[madOffModifier:]),
	}
}

// Answer makes a request its own response: the method and the status change, and all else
// stays as it is.
func (m *MAD) Answer(method MADMethod, status uint16) {
	m[madOffMethod] = uint8(method)
	binary.BigEndian.PutUint16(m[madOffStatus:], status)
}

// SetMethod sets the method.
func (m *MAD) SetMethod(v MADMethod) { m[madOffMethod] = uint8(v) }

// Class returns the management class.
func (m *MAD) Class() MADClass { return MADClass(m[madOffClass]) }

// Method returns the method.
func (m *MAD) Method() MADMethod { return MADMethod(m[madOffMethod]) }

// TID returns the transaction identifier.
func (m *MAD) TID() uint64 { return binary.BigEndian.Uint64(m[madOffTID:]) }

// SetTID sets the transaction identifier.
func (m *MAD) SetTID(v uint64) { binary.BigEndian.PutUint64(m[madOffTID:], v) }

// Attribute returns the attribute, whose meaning the class defines.
func (m *MAD) Attribute() uint16 { return binary.BigEndian.Uint16(m[madOffAttribute:]) }

// Status returns the status, which has a meaning in a response only.
func (m *MAD) Status() uint16 { return binary.BigEndian.Uint16(m[madOffStatus:]) }

// Data returns what follows the header.
func (m *MAD) Data() []byte { return m[MADHeaderLen:] }

func (m *MAD) String() string {
	return fmt.Sprintf("%v %v, attribute 0x%04x, TID 0x%016x", m.Class(), m.Method(), m.Attribute(), m.TID())
}

// The helpers below read and write fields of the data; off counts from its start.

func (m *MAD) u8(off int) uint8   { return m[MADHeaderLen+off] }
func (m *MAD) u16(off int) uint16 { return binary.BigEndian.Uint16(m[MADHeaderLen+off:]) }
func (m *MAD) u32(off int) uint32 { return binary.BigEndian.Uint32(m[MADHeaderLen+off:]) }
func (m *MAD) u64(off int) uint64 { return binary.BigEndian.Uint64(m[MADHeaderLen+off:]) }

// u24 reads three bytes, which share a word with a byte of another field.
func (m *MAD) u24(off int) uint32 { return m.u32(off) >> 8 }

func (m *MAD) put8(off int, v uint8)   { m[MADHeaderLen+off] = v }
func (m *MAD) put16(off int, v uint16) { binary.BigEndian.PutUint16(m[MADHeaderLen+off:], v) }
func (m *MAD) put32(off int, v uint32) { binary.BigEndian.PutUint32(m[MADHeaderLen+off:], v) }
func (m *MAD) put64(off int, v uint64) { binary.BigEndian.PutUint64(m[MADHeaderLen+off:], v) }

func (m *MAD) put24(off int, v uint32) {
	m.put16(off, uint16(v>>8))
	m.put8(off+2, uint8(v))
}

// bitField is a field within a byte: its lowest bit and its width.
type bitField struct{ shift, width uint8 }

func (f bitField) mask() uint8 { return (1<<f.width - 1) << f.shift }

func (m *MAD) bits(off int, f bitField) uint8 { return m.u8(off) & f.mask() >> f.shift }

func (m *MAD) putBits(off int, f bitField, v uint8) {
	m.put8(off, m.u8(off)&^f.mask()|v<<f.shift&f.mask())
}

func (m *MAD) flag(off int, f bitField) bool { return m.bits(off, f) != 0 }

func (m *MAD) putFlag(off int, f bitField, set bool) {
	v := uint8(0)
	if set {
		v = 1
	}
	m.putBits(off, f, v)
}
