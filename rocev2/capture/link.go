package capture

import "encoding/binary"

// Ethertypes.
const (
	etherIPv4   = 0x0800
	etherIPv6   = 0x86dd
	etherRoCEv1 = 0x8915
	etherVLAN   = 0x8100
	etherQinQ   = 0x88a8
	etherQinQ1  = 0x9100 // before 802.1ad
)

// Decode finds the transport in p.Frame, whose link type is p.Link. Next does that
// already; Decode is for frames from other sources.
func (p *Packet) Decode() {
	p.Kind, p.Transport, p.Network, p.TransportLen = Other, nil, nil, 0
	f := p.Frame
	switch p.Link {
	case LinkEthernet:
		if len(f) >= 14 {
			p.ether(binary.BigEndian.Uint16(f[12:]), f[14:])
		}
	case LinkLinuxSLL:
		if len(f) >= 16 {
			p.ether(binary.BigEndian.Uint16(f[14:]), f[16:])
		}
	case LinkLinuxSLL2:
		if len(f) >= 20 {
			p.ether(binary.BigEndian.Uint16(f), f[20:])
		}
	case LinkRaw, LinkRawBSD, LinkRawOpenBSD, LinkIPv4, LinkIPv6:
		p.ip(f)
	case LinkNull:
		if len(f) >= 4 {
			p.ip(f[4:])
		}
	case LinkERF:
		p.erf(f)
	case LinkInfiniBand:
		p.infiniBand(f)
	}
}

// ether decodes by ethertype, after any VLAN tags.
func (p *Packet) ether(kind uint16, b []byte) {
	for kind == etherVLAN || kind == etherQinQ || kind == etherQinQ1 {
		if len(b) < 4 {
			return
		}
		kind, b = binary.BigEndian.Uint16(b[2:]), b[4:]
	}
	switch kind {
	case etherIPv4, etherIPv6:
		p.ip(b)
	case etherRoCEv1:
		p.rocev1(b)
	}
}
