package capture

import (
	"encoding/binary"
	"net/netip"

	"github.com/gorxe/gorxe/wire"
)

const (
	lrhLen  = 8 // local route header (IBA 7.7)
	vcrcLen = 2

	// What follows an LRH (IBA 7.7.2).
	lnhLocal  = 2 // BTH
	lnhGlobal = 3 // GRH

	grhNextIBA = 0x1b // IBA 8.3.2
)

// rocev1 removes a GRH that follows an Ethernet header (IBA A16).
func (p *Packet) rocev1(b []byte) {
	if len(b) < wire.GRHLen || b[6] != grhNextIBA {
		return
	}
	p.Kind = RoCEv1
	p.grh(b)
	p.transport(b, wire.GRHLen, wire.GRHLen+p.IP.Length)
}

// transport removes the network headers. By its headers the packet, ICRC included, is
// end bytes long.
func (p *Packet) transport(b []byte, header, end int) {
	p.Network = b[:header]
	p.TransportLen = max(0, end-header)
	p.Transport = b[header:min(len(b), header+p.TransportLen)]
}

// infiniBand removes LRH and GRH.
func (p *Packet) infiniBand(b []byte) {
	if len(b) < lrhLen {
		return
	}
	lnh := b[1] & 3
	p.DLID, p.SLID = binary.BigEndian.Uint16(b[2:]), binary.BigEndian.Uint16(b[6:])
	// In words, from the LRH through the ICRC.
	end := int(binary.BigEndian.Uint16(b[4:])&0x7ff) * 4
	switch {
	case lnh == lnhLocal:
		p.Src, p.Dst = lidAddr(p.SLID), lidAddr(p.DLID)
		p.IP = IPHeader{}
		p.Kind = InfiniBand
		p.transport(b, lrhLen, end)
	case lnh == lnhGlobal && len(b) >= lrhLen+wire.GRHLen && b[lrhLen+6] == grhNextIBA:
		p.grh(b[lrhLen:])
		p.Kind = InfiniBand
		p.transport(b, lrhLen+wire.GRHLen, end)
	}
}

func lidAddr(lid uint16) netip.Addr {
	return netip.AddrFrom16([16]byte{14: byte(lid >> 8), 15: byte(lid)})
}

// ERF (Endace extensible record format): a 16-byte header, extension headers
// while the top bit of the type is set, then the packet.
const (
	erfHeaderLen   = 16
	erfExtLen      = 8
	erfMore        = 0x80
	erfTypeMask    = 0x7f
	erfEthernet    = 2
	erfInfiniBand  = 21
	erfEthernetPad = 2
)

func (p *Packet) erf(b []byte) {
	if len(b) < erfHeaderLen {
		return
	}
	kind, more := b[8]&erfTypeMask, b[8]&erfMore != 0
	b = b[erfHeaderLen:]
	for more {
		if len(b) < erfExtLen {
			return
		}
		more = b[0]&erfMore != 0
		b = b[erfExtLen:]
	}
	switch kind {
	case erfInfiniBand:
		p.infiniBand(b)
	case erfEthernet:
		if len(b) >= erfEthernetPad+14 {
			p.ether(binary.BigEndian.Uint16(b[erfEthernetPad+12:]), b[erfEthernetPad+14:])
		}
	}
}
