package nldev

import (
	"encoding/binary"

	"golang.org/x/sys/unix"
)

// datagramSize bounds a datagram of a dump. It is that of the kernel's first one (NLMSG_GOODSIZE
// with pages of 4096 bytes): readers' buffers have a page.
const datagramSize = 3776

// builder appends a message to a buffer. Integers are in host byte order, and those of 64 bits
// are not padded to 8 bytes, as on the kernel's machines with
// HAVE_EFFICIENT_UNALIGNED_ACCESS (nla_put_u64_64bit).
type builder struct {
	b     []byte
	start int // of the message
}

// begin starts a message behind what the buffer has.
func begin(b []byte, typ, flags uint16, seq, port uint32) *builder {
	m := &builder{b: b, start: len(b)}
	m.b = binary.NativeEndian.AppendUint32(m.b, 0) // the length: end
	m.b = binary.NativeEndian.AppendUint16(m.b, typ)
	m.b = binary.NativeEndian.AppendUint16(m.b, flags)
	m.b = binary.NativeEndian.AppendUint32(m.b, seq)
	m.b = binary.NativeEndian.AppendUint32(m.b, port)
	return m
}

// end completes the message and returns the buffer.
func (m *builder) end() []byte {
	binary.NativeEndian.PutUint32(m.b[m.start:], uint32(len(m.b)-m.start))
	return m.b
}

func (m *builder) header(typ uint16, length int) {
	m.b = binary.NativeEndian.AppendUint16(m.b, uint16(unix.SizeofNlAttr+length))
	m.b = binary.NativeEndian.AppendUint16(m.b, typ)
}

// pad fills up to the alignment of the next attribute.
func (m *builder) pad() {
	for (len(m.b)-m.start)%unix.NLMSG_ALIGNTO != 0 {
		m.b = append(m.b, 0)
	}
}

func (m *builder) u8(typ uint16, v uint8) {
	m.header(typ, 1)
	m.b = append(m.b, v)
	m.pad()
}

func (m *builder) u32(typ uint16, v uint32) {
	m.header(typ, 4)
	m.b = binary.NativeEndian.AppendUint32(m.b, v)
}

func (m *builder) u64(typ uint16, v uint64) {
	m.header(typ, 8)
	m.b = binary.NativeEndian.AppendUint64(m.b, v)
}

// text appends a string with a zero at its end.
func (m *builder) text(typ uint16, s string) {
	m.header(typ, len(s)+1)
	m.b = append(append(m.b, s...), 0)
	m.pad()
}

func (m *builder) bytes(typ uint16, v []byte) {
	m.header(typ, len(v))
	m.b = append(m.b, v...)
	m.pad()
}

// nest starts an attribute that has attributes, without NLA_F_NESTED as in nldev.c
// (nla_nest_start_noflag). endNest takes what it returns.
func (m *builder) nest(typ uint16) (at int) {
	at = len(m.b)
	m.header(typ, 0)
	return at
}

func (m *builder) endNest(at int) {
	binary.NativeEndian.PutUint16(m.b[at:], uint16(len(m.b)-at))
}
