package wire

import "net/netip"

// Route holds the fields of the IP and UDP headers that the sender of a flow chooses.
type Route struct {
	Src, Dst     netip.Addr
	SrcPort      uint16
	TrafficClass uint8 // IPv4 TOS or IPv6 traffic class
	HopLimit     uint8 // IPv4 TTL or IPv6 hop limit
	FlowLabel    uint32
	SrcQP        QPN // of a connected queue pair, which the flow belongs to; 0: none
}

// Burst is a run of packets of one route, back to back in Buf. Each is Seg bytes long,
// but the last may be shorter. Each ends in ICRCLen bytes of room for the ICRC. The
// link fills it in, because only the link knows the IPv4 identification.
type Burst struct {
	Route *Route
	Buf   []byte
	Seg   int
	// Damage is a fault on the wire: the link XORs it into the ICRC of each packet. 0: none.
	Damage uint32
	// Note is what a capture says of the packets. "": nothing.
	Note string
}

// N returns the number of packets. A Seg of 0 or less means one packet.
func (b *Burst) N() int {
	if len(b.Buf) == 0 {
		return 0
	}
	if b.Seg <= 0 {
		return 1
	}
	return (len(b.Buf) + b.Seg - 1) / b.Seg
}

// Packet returns packet i, 0 <= i < N, with its room for the ICRC.
func (b *Burst) Packet(i int) []byte {
	if b.Seg <= 0 {
		return b.Buf
	}
	return b.Buf[i*b.Seg : min((i+1)*b.Seg, len(b.Buf))]
}

// Datagram is one packet as it arrived, with fields of its IP and UDP headers. Data
// runs from BTH through pad: the ICRC was checked and stripped.
type Datagram struct {
	Data         []byte
	Src, Dst     netip.Addr
	SrcPort      uint16
	TrafficClass uint8
	HopLimit     uint8
	// SrcQP is the Route.SrcQP of a packet that did not leave the device. 0: it came over
	// the network, whose packets do not name their connected sender.
	SrcQP QPN
}

// UDPSourcePort returns the source port of a flow, 0xc000 to 0xffff: a hash of the
// 20-bit flow label or, if that is 0, of the two queue pairs. Linux computes the same
// (include/rdma/ib_verbs.h, rdma_get_udp_sport), so ECMP gives a flow the same path as
// between two Linux hosts.
func UDPSourcePort(flowLabel uint32, local, remote QPN) uint16 {
	const labelMask = 1<<20 - 1
	label := flowLabel & labelMask
	if label == 0 {
		v := uint64(local) * uint64(remote)
		v ^= v >> 20
		v ^= v >> 40
		label = uint32(v & labelMask)
	}
	return uint16(label&0x3fff^label>>14) | 0xc000
}
