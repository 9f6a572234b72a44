package ether

import "encoding/binary"

// The parts of a key. A key is a frame's fields in fixed places, so that a rule is a value and a
// mask.
const (
	atDst       = 0
	atSrc       = 6
	atEtherType = 12
	atVLAN      = 14
	atTag       = 16 // what the first tag is: TagC or TagS
	atVersion   = 17 // of IP
	atProto     = 18
	atTOS       = 19 // or the traffic class
	atTTL       = 20 // or the hop limit
	atIPFlags   = 21 // of IPv4: IPDontFragment, IPMoreFragments
	atL4        = 22 // 1: there is a header of TCP or UDP
	atTCPFlags  = 23
	atDstPort   = 24
	atSrcPort   = 26
	atFragment  = 28 // 1: only a part of an IP packet
	atFlow      = 29 // flow label, 3 bytes
	atSrcIP     = 32
	atDstIP     = 48
	keySize     = 64
)

// Bits of the flags of an IPv4 header, as enum ib_ipv4_flags has them.
const (
	IPDontFragment  = 1 << 1
	IPMoreFragments = 1 << 2
)

// What the first VLAN tag of a frame is.
const (
	TagC = 1 << 0
	TagS = 1 << 1
)

type key [keySize]byte

func keyOf(f *Frame) (k key) {
	if len(f.Data) < HeaderSize {
		return k
	}
	copy(k[atDst:], f.Data[:12])
	binary.BigEndian.PutUint16(k[atEtherType:], f.EtherType)
	if f.VLANs > 0 {
		binary.BigEndian.PutUint16(k[atVLAN:], f.VLAN)
		k[atTag] = TagS
		if f.Tagged {
			k[atTag] = TagC
		}
	}
	k[atVersion], k[atProto] = f.Version, f.Proto
	if f.Fragment {
		k[atFragment] = 1
	}
	switch f.Version {
	case 4:
		h := f.Data[f.IP:]
		k[atTOS], k[atTTL] = h[1], h[8]
		k[atIPFlags] = h[6]>>5&2 | h[6]>>3&4
		copy(k[atSrcIP:], h[12:16])
		copy(k[atDstIP:], h[16:20])
	case 6:
		h := f.Data[f.IP:]
		k[atTOS], k[atTTL] = h[0]<<4|h[1]>>4, h[7]
		k[atFlow] = h[1] & 0xf
		copy(k[atFlow+1:], h[2:4])
		copy(k[atSrcIP:], h[8:40]) // both addresses
	}
	if f.L4 > 0 {
		k[atL4] = 1
		copy(k[atDstPort:], f.Data[f.L4+2:f.L4+4])
		copy(k[atSrcPort:], f.Data[f.L4:f.L4+2])
		if f.Proto == ProtoTCP {
			k[atTCPFlags] = f.Data[f.L4+13]
		}
	}
	return k
}

func (k *key) and(m *key) (r key) {
	for i := 0; i < keySize; i += 8 {
		binary.NativeEndian.PutUint64(r[i:], binary.NativeEndian.Uint64(k[i:])&binary.NativeEndian.Uint64(m[i:]))
	}
	return r
}

// Match is what a rule asks of a frame. The zero Match takes every frame. Each method adds a
// layer; the fields are in the order of bytes of the wire.
type Match struct {
	value, mask key
	never       bool // two layers contradict each other
}

// Never reports that the layers contradict each other: no frame matches.
func (m *Match) Never() bool { return m.never }

// add asks for some bytes at a place.
func (m *Match) add(at int, value, mask []byte) {
	for i := range mask {
		k, v := mask[i], value[i]&mask[i]
		if (m.value[at+i]^v)&k&m.mask[at+i] != 0 {
			m.never = true
		}
		m.value[at+i] |= v
		m.mask[at+i] |= k
	}
}

func (m *Match) exactly(at int, value byte) { m.add(at, []byte{value}, []byte{0xff}) }

// Eth is struct ib_uverbs_flow_eth_filter.
type Eth struct {
	Dst, Src  [6]byte
	EtherType [2]byte
	VLAN      [2]byte
}

// Eth adds the Ethernet header. With a mask for the VLAN, only tagged frames match.
func (m *Match) Eth(value, mask Eth) {
	m.add(atDst, value.Dst[:], mask.Dst[:])
	m.add(atSrc, value.Src[:], mask.Src[:])
	m.add(atEtherType, value.EtherType[:], mask.EtherType[:])
	m.add(atVLAN, value.VLAN[:], mask.VLAN[:])
	if mask.VLAN != [2]byte{} {
		m.exactly(atTag, TagC)
	}
}

// IPv4 is struct ib_uverbs_flow_ipv4_filter.
type IPv4 struct {
	Src, Dst               [4]byte
	Proto, TOS, TTL, Flags byte
}

// IPv4 adds the IPv4 header.
func (m *Match) IPv4(value, mask IPv4) {
	m.exactly(atVersion, 4)
	m.add(atEtherType, []byte{TypeIPv4 >> 8, TypeIPv4 & 0xff}, []byte{0xff, 0xff})
	m.add(atSrcIP, value.Src[:], mask.Src[:])
	m.add(atDstIP, value.Dst[:], mask.Dst[:])
	m.add(atProto, []byte{value.Proto, value.TOS, value.TTL, value.Flags}, []byte{mask.Proto, mask.TOS, mask.TTL, mask.Flags})
}

// IPv6 is struct ib_uverbs_flow_ipv6_filter. NextHeader is the protocol behind the extension
// headers. The flow label has 20 bits.
type IPv6 struct {
	Src, Dst                           [16]byte
	FlowLabel                          [4]byte
	NextHeader, TrafficClass, HopLimit byte
	_                                  byte
}

// IPv6 adds the IPv6 header.
func (m *Match) IPv6(value, mask IPv6) {
	m.exactly(atVersion, 6)
	m.add(atEtherType, []byte{TypeIPv6 >> 8, TypeIPv6 & 0xff}, []byte{0xff, 0xff})
	m.add(atSrcIP, value.Src[:], mask.Src[:])
	m.add(atDstIP, value.Dst[:], mask.Dst[:])
	m.add(atFlow, value.FlowLabel[1:], mask.FlowLabel[1:])
	m.add(atProto, []byte{value.NextHeader, value.TrafficClass, value.HopLimit}, []byte{mask.NextHeader, mask.TrafficClass, mask.HopLimit})
}

// Ports is struct ib_uverbs_flow_tcp_udp_filter.
type Ports struct{ Dst, Src [2]byte }

// Ports adds TCP or UDP. With a mask for a port, no fragment matches.
func (m *Match) Ports(proto byte, value, mask Ports) {
	m.exactly(atProto, proto)
	m.add(atDstPort, value.Dst[:], mask.Dst[:])
	m.add(atSrcPort, value.Src[:], mask.Src[:])
	if mask != (Ports{}) {
		m.exactly(atL4, 1)
	}
}

// Loose are fields that the verbs' specs only have together with others.
type Loose struct {
	VLAN            [2]byte // of the first tag, whatever it is
	Tag             byte    // TagC, TagS
	Fragment        byte    // 1: only a part of an IP packet
	Proto, TOS, TTL byte    // of any IP
	TCPFlags        byte    // without NS
}

// Loose adds single fields. With a mask for flags of TCP, no fragment matches.
func (m *Match) Loose(value, mask Loose) {
	m.add(atVLAN, value.VLAN[:], mask.VLAN[:])
	m.add(atTag, []byte{value.Tag}, []byte{mask.Tag})
	m.add(atFragment, []byte{value.Fragment}, []byte{mask.Fragment})
	m.add(atProto, []byte{value.Proto, value.TOS, value.TTL}, []byte{mask.Proto, mask.TOS, mask.TTL})
	m.add(atTCPFlags, []byte{value.TCPFlags}, []byte{mask.TCPFlags})
	if mask.TCPFlags != 0 {
		m.exactly(atProto, ProtoTCP)
		m.exactly(atL4, 1)
	}
}
