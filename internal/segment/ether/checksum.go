package ether

import (
	"encoding/binary"

	"github.com/gorxe/gorxe/wire/checksum"
)

// ipSum returns the checksum that the IPv4 header has to have.
func (f *Frame) ipSum() uint16 {
	h := f.Data[f.IP:]
	h = h[:int(h[0]&15)*4]
	sum := checksum.Add(0, h[:10])
	return ^checksum.Fold(checksum.Add(sum, h[12:]))
}

// l4 is what the checksum of TCP or UDP covers, and the offset of the checksum in it. ok is false
// if the frame does not have all of it.
func (f *Frame) l4() (covered []byte, field int, ok bool) {
	if f.L4 == 0 || f.Short {
		return nil, 0, false
	}
	covered = f.Data[f.L4:f.End]
	if f.Proto == ProtoTCP {
		return covered, 16, true
	}
	n := int(binary.BigEndian.Uint16(covered[4:]))
	if n < udpSize || n > len(covered) {
		return nil, 0, false
	}
	return covered[:n], 6, true
}

// l4Sum returns the checksum that TCP or UDP has to have (RFC 9293, 768, 8200).
func (f *Frame) l4Sum(covered []byte, field int) uint16 {
	sum := checksum.Add(uint64(f.Proto)+uint64(len(covered)), f.addresses())
	sum = checksum.Add(sum, covered[:field])
	got := ^checksum.Fold(checksum.Add(sum, covered[field+2:]))
	if got == 0 && f.Proto == ProtoUDP {
		return 0xffff // 0 says that there is no checksum
	}
	return got
}

// Sums reports that the checksum of the IP header is right, and that of TCP or UDP. IPv6 has no
// checksum, so it is right. Without a header of TCP or UDP, l4 is false.
func (f *Frame) Sums() (ip, l4 bool) {
	if f.Version == 0 {
		return false, false
	}
	// A sum of 0xffff and one of 0 are the same (RFC 1624).
	same := func(a, b uint16) bool { return a == b || a^b == 0xffff && (a == 0 || b == 0) }
	ip = f.Version == 6 || same(f.ipSum(), binary.BigEndian.Uint16(f.Data[f.IP+10:]))
	covered, field, ok := f.l4()
	if !ok {
		return ip, false
	}
	got := binary.BigEndian.Uint16(covered[field:])
	if got == 0 && f.Proto == ProtoUDP {
		return ip, f.Version == 4 // RFC 8200, 8.1: over IPv6, UDP has to have one
	}
	return ip, same(f.l4Sum(covered, field), got)
}

// SetSums writes the checksum of the IPv4 header, and that of TCP or UDP. It leaves out what the
// frame does not have.
func (f *Frame) SetSums(ip, l4 bool) {
	if ip && f.Version == 4 {
		binary.BigEndian.PutUint16(f.Data[f.IP+10:], f.ipSum())
	}
	if covered, field, ok := f.l4(); ok && l4 {
		binary.BigEndian.PutUint16(covered[field:], f.l4Sum(covered, field))
	}
}
