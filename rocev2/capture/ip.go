package capture

import (
	"encoding/binary"
	"net/netip"

	"github.com/gorxe/gorxe/wire"
	"github.com/gorxe/gorxe/wire/checksum"
)

const (
	ipv4HeaderLen = 20
	ipv6HeaderLen = 40
	udpHeaderLen  = 8
	protoUDP      = 17
	protoHopByHop = 0
	protoFragment = 44
	protoDestOpts = 60
)

// ip removes an IP header of either version.
func (p *Packet) ip(b []byte) {
	if len(b) == 0 {
		return
	}
	switch b[0] >> 4 {
	case 4:
		p.ipv4(b)
	case 6:
		p.ipv6(b)
	}
}

func (p *Packet) ipv4(b []byte) {
	header := int(b[0]&15) * 4
	if header < ipv4HeaderLen || len(b) < header {
		return
	}
	fragment := binary.BigEndian.Uint16(b[6:])
	p.IP = IPHeader{
		Version:      4,
		HeaderLen:    uint8(header),
		TrafficClass: b[1],
		HopLimit:     b[8],
		DF:           fragment&0x4000 != 0,
		MF:           fragment&0x2000 != 0,
		FragOffset:   fragment & 0x1fff * 8,
		ID:           binary.BigEndian.Uint16(b[4:]),
		Length:       int(binary.BigEndian.Uint16(b[2:])),
		Checksum:     ChecksumGood,
	}
	if checksum.Fold(checksum.Add(0, b[:header])) != 0xffff {
		p.IP.Checksum = ChecksumBad
	}
	if b[9] != protoUDP || p.IP.FragOffset != 0 {
		return
	}
	p.Src, p.Dst = netip.AddrFrom4([4]byte(b[12:])), netip.AddrFrom4([4]byte(b[16:]))
	p.udp(b, header)
}

func (p *Packet) ipv6(b []byte) {
	if len(b) < ipv6HeaderLen {
		return
	}
	p.grh(b)
	p.IP.Length += ipv6HeaderLen
	next, header := b[6], ipv6HeaderLen
	// RoCEv2 has no extension headers, but a packet with some is still found.
	for next == protoHopByHop || next == protoDestOpts {
		if len(b) < header+8 {
			return
		}
		next, header = b[header], header+8+int(b[header+1])*8
	}
	if next == protoFragment {
		if len(b) < header+8 {
			return
		}
		word := binary.BigEndian.Uint16(b[header+2:])
		p.IP.MF, p.IP.FragOffset = word&1 != 0, word&^7
		if p.IP.FragOffset != 0 {
			return
		}
		next, header = b[header], header+8
	}
	if next == protoUDP && header < 256 {
		p.IP.HeaderLen = uint8(header)
		p.udp(b, header)
	}
}

// grh reads the fields that an IPv6 header and a GRH share. b has all 40 bytes.
func (p *Packet) grh(b []byte) {
	first := binary.BigEndian.Uint32(b)
	p.IP = IPHeader{
		Version:      6,
		HeaderLen:    ipv6HeaderLen,
		TrafficClass: uint8(first >> 20),
		FlowLabel:    first & 0xfffff,
		HopLimit:     b[7],
		Length:       int(binary.BigEndian.Uint16(b[4:])),
	}
	p.Src, p.Dst = netip.AddrFrom16([16]byte(b[8:])), netip.AddrFrom16([16]byte(b[24:]))
}

// udp removes the UDP header; ip is the packet from the IP header on.
func (p *Packet) udp(ip []byte, header int) {
	if len(ip) < header+udpHeaderLen {
		return
	}
	u := ip[header:]
	if binary.BigEndian.Uint16(u[2:]) != wire.UDPPort {
		return
	}
	p.Kind = RoCEv2
	p.UDP = UDPHeader{
		SrcPort: binary.BigEndian.Uint16(u),
		DstPort: wire.UDPPort,
		Length:  int(binary.BigEndian.Uint16(u[4:])),
	}
	// A packet ends where its IP header says, because an Ethernet frame may have
	// padding. In a capture before segmentation offload the length may be 0, which
	// means the rest of the frame.
	end := p.IP.Length
	if end == 0 {
		end = len(ip) + p.Length - len(p.Frame)
	}
	p.Network = ip[:header+udpHeaderLen]
	p.TransportLen = max(0, end-header-udpHeaderLen)
	p.Transport = u[udpHeaderLen:min(len(u), udpHeaderLen+p.TransportLen)]
	p.UDP.Checksum = p.udpChecksum(u)
}

func (p *Packet) udpChecksum(u []byte) Checksum {
	check := binary.BigEndian.Uint16(u[6:])
	if check == 0 {
		return ChecksumNone
	}
	if p.Truncated() || p.IP.MF || p.UDP.Length != udpHeaderLen+len(p.Transport) {
		return ChecksumUnknown
	}
	var pseudo uint64
	if p.IP.Version == 4 {
		src, dst := p.Src.As4(), p.Dst.As4()
		pseudo = checksum.Add(checksum.Add(0, src[:]), dst[:])
	} else {
		src, dst := p.Src.As16(), p.Dst.As16()
		pseudo = checksum.Add(checksum.Add(0, src[:]), dst[:])
	}
	pseudo += protoUDP + uint64(p.UDP.Length)
	switch {
	case checksum.Fold(checksum.Add(pseudo, u[:p.UDP.Length])) == 0xffff:
		return ChecksumGood
	case checksum.Fold(pseudo) == check:
		return ChecksumOffload
	}
	return ChecksumBad
}
