package ether

import "encoding/binary"

// AppendVLAN appends the frame to b, with a C-VLAN tag in front of all others. A frame without a
// whole header gets none.
func AppendVLAN(b, frame []byte, tci uint16) []byte {
	if len(frame) < HeaderSize {
		return append(b, frame...)
	}
	b = append(b, frame[:12]...)
	b = binary.BigEndian.AppendUint16(b, typeVLAN)
	b = binary.BigEndian.AppendUint16(b, tci)
	return append(b, frame[12:]...)
}
