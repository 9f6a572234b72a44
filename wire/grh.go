package wire

import (
	"encoding/binary"
	"errors"
	"net/netip"
)

// ErrGRH is what ParseGRH returns for bytes that are neither form of a GRH.
var ErrGRH = errors.New("wire: neither an IPv6 nor an IPv4 header in GRH")

const (
	ipProtoUDP = 17
	// Second half of a GRH in the IPv4 form.
	grhIPv4Offset = GRHLen - ipv4Len
)

// GRH is a global route header (IBA 8.3), which has the layout of an IPv6
// header. RoCEv2 sends none; a UD receiver finds one in its buffer.
type GRH struct {
	TrafficClass uint8
	FlowLabel    uint32 // 20 bits
	PayloadLen   uint16 // bytes after the GRH
	NextHeader   uint8
	HopLimit     uint8
	SGID, DGID   GID
}

// Put writes g to the first GRHLen bytes of b.
func (g *GRH) Put(b []byte) {
	_ = b[GRHLen-1]
	binary.BigEndian.PutUint32(b, 6<<28|uint32(g.TrafficClass)<<20|g.FlowLabel&0xfffff)
	binary.BigEndian.PutUint16(b[4:], g.PayloadLen)
	b[6], b[7] = g.NextHeader, g.HopLimit
	copy(b[8:24], g.SGID[:])
	copy(b[24:40], g.DGID[:])
}

// Parse reads g from the first GRHLen bytes of b. It returns ErrTruncated, or
// ErrGRH if the version is not 6.
func (g *GRH) Parse(b []byte) error {
	if len(b) < GRHLen {
		return ErrTruncated
	}
	w := binary.BigEndian.Uint32(b)
	if w>>28 != 6 {
		return ErrGRH
	}
	*g = GRH{
		TrafficClass: uint8(w >> 20),
		FlowLabel:    w & 0xfffff,
		PayloadLen:   binary.BigEndian.Uint16(b[4:]),
		NextHeader:   b[6],
		HopLimit:     b[7],
		SGID:         GID(b[8:24]),
		DGID:         GID(b[24:40]),
	}
	return nil
}

// PutGRH writes to the first GRHLen bytes of b what a UD receiver finds there when d arrives (IBA
// A17.4.5.2). Over IPv6 that is the IPv6 header, and over IPv4 it is twenty zeros and the IPv4
// header. udpLen is the length of the UDP datagram in bytes, its header included.
//
// A socket does not show all fields. The others are as gorxe sends them: flow label
// and IPv4 identification are zero, and don't-fragment is set.
func PutGRH(b []byte, d *Datagram, udpLen int) {
	src := d.Src.Unmap()
	if !src.Is4() {
		g := GRH{
			TrafficClass: d.TrafficClass,
			PayloadLen:   uint16(udpLen),
			NextHeader:   ipProtoUDP,
			HopLimit:     d.HopLimit,
			SGID:         GIDFromAddr(d.Src),
			DGID:         GIDFromAddr(d.Dst),
		}
		g.Put(b)
		return
	}
	clear(b[:grhIPv4Offset])
	ip := b[grhIPv4Offset:GRHLen]
	src4, dst4 := as4(src), as4(d.Dst)
	ip[0], ip[1] = 0x45, d.TrafficClass
	binary.BigEndian.PutUint16(ip[2:], uint16(ipv4Len+udpLen))
	binary.BigEndian.PutUint32(ip[4:], ipv4FlagDF<<8) // identification 0
	ip[8], ip[9] = d.HopLimit, ipProtoUDP
	ip[10], ip[11] = 0, 0
	copy(ip[12:], src4[:])
	copy(ip[16:], dst4[:])
	binary.BigEndian.PutUint16(ip[10:], ^ipv4Sum(ip))
}

// ParseGRH reads the addresses, traffic class and hop limit from the GRH of a
// received UD packet, in either form. It returns ErrTruncated or ErrGRH.
//
// The first twenty bytes of the IPv4 form need not be zero, and in the IPv6 form an
// address takes the place of the IPv4 version. So if both versions look right, the
// IPv4 checksum decides, as in libibverbs (ibv_init_ah_from_wc).
func ParseGRH(b []byte) (src, dst netip.Addr, tclass, hop uint8, err error) {
	if len(b) < GRHLen {
		return src, dst, 0, 0, ErrTruncated
	}
	ip := b[grhIPv4Offset:GRHLen]
	is4, is6 := ip[0] == 0x45, b[0]>>4 == 6
	if is4 && (!is6 || ipv4Sum(ip) == 0xffff) {
		return netip.AddrFrom4([4]byte(ip[12:16])), netip.AddrFrom4([4]byte(ip[16:20])), ip[1], ip[8], nil
	}
	if !is6 {
		return src, dst, 0, 0, ErrGRH
	}
	tclass = b[0]<<4 | b[1]>>4
	return GID(b[8:24]).Addr(), GID(b[24:40]).Addr(), tclass, b[7], nil
}

// ipv4Sum returns the ones' complement sum of an IPv4 header without options:
// 0xffff if its checksum is right.
func ipv4Sum(ip []byte) uint16 {
	var sum uint32
	for i := 0; i < ipv4Len; i += 2 {
		sum += uint32(binary.BigEndian.Uint16(ip[i:]))
	}
	sum = sum>>16 + sum&0xffff
	sum = sum>>16 + sum&0xffff
	return uint16(sum)
}
