package ether

import "encoding/binary"

// StripVLAN takes the C-VLAN tag away, in place. ok is false if the first tag is none, and the
// frame stays as it is.
func StripVLAN(frame []byte) (rest []byte, tci uint16, ok bool) {
	if len(frame) < HeaderSize+vlanSize || binary.BigEndian.Uint16(frame[12:]) != TypeVLAN {
		return frame, 0, false
	}
	tci = binary.BigEndian.Uint16(frame[14:])
	copy(frame[vlanSize:], frame[:12])
	return frame[vlanSize:], tci, true
}

// AppendVLAN appends the frame to b, with a C-VLAN tag in front of all others. A frame without a
// whole header gets none.
func AppendVLAN(b, frame []byte, tci uint16) []byte {
	if len(frame) < HeaderSize {
		return append(b, frame...)
	}
	b = append(b, frame[:12]...)
	b = binary.BigEndian.AppendUint16(b, TypeVLAN)
	b = binary.BigEndian.AppendUint16(b, tci)
	return append(b, frame[12:]...)
}
