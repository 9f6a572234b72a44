package capture

import (
	"fmt"
	"net/netip"
	"time"
)

// LinkType is the link layer of a frame, by the numbers that pcap and pcapng
// files use (https://www.tcpdump.org/linktypes.html).
type LinkType uint16

// The link types that are decoded. Frames of others are Other.
const (
	LinkNull       LinkType = 0 // BSD loopback
	LinkEthernet   LinkType = 1
	LinkRawBSD     LinkType = 12
	LinkRawOpenBSD LinkType = 14
	LinkRaw        LinkType = 101 // IPv4 or IPv6
	LinkLinuxSLL   LinkType = 113 // Linux cooked, what "any" captures
	LinkERF        LinkType = 197 // Endace, the usual form of InfiniBand captures
	LinkIPv4       LinkType = 228
	LinkIPv6       LinkType = 229
	LinkInfiniBand LinkType = 247
	LinkLinuxSLL2  LinkType = 276
)

func (l LinkType) String() string {
	switch l {
	case LinkNull:
		return "loopback"
	case LinkEthernet:
		return "Ethernet"
	case LinkRaw, LinkRawBSD, LinkRawOpenBSD, LinkIPv4, LinkIPv6:
		return "raw IP"
	case LinkLinuxSLL:
		return "Linux cooked"
	case LinkLinuxSLL2:
		return "Linux cooked v2"
	case LinkERF:
		return "ERF"
	case LinkInfiniBand:
		return "InfiniBand"
	}
	return fmt.Sprintf("link type %d", uint16(l))
}

// Kind says which network carries the InfiniBand transport in a frame.
type Kind uint8

// The kinds of frames.
const (
	// Other has no InfiniBand transport that could be found: another protocol, a
	// later fragment of an IP packet, or a frame cut before the transport.
	Other Kind = iota
	RoCEv2
	RoCEv1
	InfiniBand
)

func (k Kind) String() string {
	switch k {
	case RoCEv2:
		return "RoCEv2"
	case RoCEv1:
		return "RoCEv1"
	case InfiniBand:
		return "InfiniBand"
	default:
		return "other"
	}
}

// Checksum is what is known of a checksum.
type Checksum uint8

// The states of a checksum.
const (
	// ChecksumUnknown: there is none in this protocol, or the packet is cut.
	ChecksumUnknown Checksum = iota
	ChecksumGood
	// ChecksumNone: UDP's 0, "not computed".
	ChecksumNone
	// ChecksumOffload: the sum of the pseudo-header only. A host captures its own
	// packets like that before the interface completes the checksum.
	ChecksumOffload
	ChecksumBad
)

// Packet is one frame of a capture. Frame, Transport and Comment alias the reader's buffer and
// are valid until the next call of Next. To keep a Packet, copy it and clone them.
type Packet struct {
	Number int       // in the file, from 1, as Wireshark counts
	Time   time.Time // zero if the file has none
	Link   LinkType
	Kind   Kind
	Frame  []byte // from the link layer on, as much as was captured
	Length int    // of the frame on the wire
	// Comment is the first comment of the frame in a pcapng file. Any program may have written it.
	Comment []byte

	// Src and Dst are the IP addresses, or the GIDs of a GRH. For InfiniBand
	// without a GRH they are made of the LIDs: ::LID.
	Src, Dst netip.Addr
	IP       IPHeader
	UDP      UDPHeader
	SLID     uint16 // InfiniBand
	DLID     uint16

	// Transport runs from the BTH through the ICRC, as much of it as was
	// captured; TransportLen is its length by the headers before it.
	Transport    []byte
	TransportLen int
	// Network is the headers before the transport that the ICRC covers: LRH and GRH
	// for RoCEv1 and InfiniBand, the IP and UDP headers for RoCEv2.
	Network []byte
}

// IPHeader holds the fields of an IP header or of a GRH.
type IPHeader struct {
	Version      uint8 // 4, 6; 0 for InfiniBand without GRH
	HeaderLen    uint8 // of IPv4: more than 20 with options
	TrafficClass uint8 // IPv4 TOS
	HopLimit     uint8 // IPv4 TTL
	DF, MF       bool  // IPv4
	ID           uint16
	FragOffset   uint16 // in bytes
	FlowLabel    uint32 // IPv6, GRH
	Length       int    // as the header gives it, header included
	Checksum     Checksum
}

// ECN values, the low two bits of the traffic class (RFC 3168).
const (
	ECNNotECT = 0
	ECNECT1   = 1
	ECNECT0   = 2
	ECNCE     = 3
)

// ECN returns the congestion bits.
func (h *IPHeader) ECN() uint8 { return h.TrafficClass & 3 }

// UDPHeader is the UDP header of a RoCEv2 packet.
type UDPHeader struct {
	SrcPort, DstPort uint16
	Length           int // as the header gives it, header included
	Checksum         Checksum
}

// Truncated reports whether less of the transport was captured than there was.
func (p *Packet) Truncated() bool { return len(p.Transport) < p.TransportLen }
