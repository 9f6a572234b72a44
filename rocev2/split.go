package rocev2

import (
	"encoding/binary"

	"golang.org/x/sys/unix"
)

// minPacket is the shortest RoCEv2 payload: a BTH and an ICRC (IBA A17.3).
const (
	bthLen    = 12
	icrcLen   = 4
	minPacket = bthLen + icrcLen
)

// nextPacket returns the first packet in a buffer and the rest of the buffer. GRO may
// have joined packets of size bytes each there, the last of which may be shorter. A
// size of 0, or one that is not less than the buffer's, means a single packet.
func nextPacket(buf []byte, size int) (pkt, rest []byte) {
	if size <= 0 || size >= len(buf) {
		return buf, nil
	}
	return buf[:size:size], buf[size:]
}

// rxMeta holds the control messages of one received datagram.
type rxMeta struct {
	segment      int // UDP_GRO: size of each joined packet, 0 if not joined
	trafficClass uint8
	hopLimit     uint8
}

// parseControl reads the control messages of one datagram. It checks their lengths,
// although they come from the kernel, and stops at one that is out of bounds.
func parseControl(b []byte) (m rxMeta) {
	const header = unix.SizeofCmsghdr
	for len(b) >= header {
		length := int(cmsgLen(b))
		if length < header || length > len(b) {
			return m
		}
		level := int32(binary.NativeEndian.Uint32(b[header-8:]))
		kind := int32(binary.NativeEndian.Uint32(b[header-4:]))
		m.set(level, kind, b[header:length])
		next := (length + cmsgAlign - 1) &^ (cmsgAlign - 1)
		if next > len(b) {
			return m
		}
		b = b[next:]
	}
	return m
}

func (m *rxMeta) set(level, kind int32, data []byte) {
	switch {
	case level == unix.SOL_UDP && kind == unix.UDP_GRO && len(data) >= 4:
		m.segment = int(int32(binary.NativeEndian.Uint32(data)))
	case level == unix.IPPROTO_IP && kind == unix.IP_TOS && len(data) >= 1:
		m.trafficClass = data[0] // one byte, unlike the others
	case level == unix.IPPROTO_IP && kind == unix.IP_TTL && len(data) >= 4:
		m.hopLimit = uint8(binary.NativeEndian.Uint32(data))
	case level == unix.IPPROTO_IPV6 && kind == unix.IPV6_TCLASS && len(data) >= 4:
		m.trafficClass = uint8(binary.NativeEndian.Uint32(data))
	case level == unix.IPPROTO_IPV6 && kind == unix.IPV6_HOPLIMIT && len(data) >= 4:
		m.hopLimit = uint8(binary.NativeEndian.Uint32(data))
	}
}
