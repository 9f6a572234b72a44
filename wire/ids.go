package wire

import (
	"encoding/hex"
	"net/netip"
)

// QPN is a 24-bit queue pair number.
type QPN uint32

// MSN is the 24-bit message sequence number of an AETH (IBA 9.7.7.1).
type MSN uint32

// LKey names a memory region or window in local work requests. It is never in a packet.
type LKey uint32

// RKey names a memory region or window in requests from a peer.
type RKey uint32

// PKey is a partition key: 15 bits of partition number and, in bit 15, the
// membership (set for full, clear for limited; IBA 10.9.3).
type PKey uint16

const (
	// QPNMask covers the 24 bits of a QPN on the wire.
	QPNMask = 1<<24 - 1
	// MSNMask covers the 24 bits of an MSN on the wire.
	MSNMask = 1<<24 - 1
	// MulticastQPN is the destination of every multicast UD packet
	// (IBA 10.5).
	MulticastQPN QPN = 0xffffff

	// DefaultPKey is the full-member default partition, the only one that
	// Linux rdma_rxe has.
	DefaultPKey PKey = 0xffff
	// PKeyFullMember is the membership bit.
	PKeyFullMember PKey = 0x8000

	// UDPPort is the IANA destination port of RoCEv2 (IBA A17.3.2.2).
	UDPPort = 4791
)

// Full reports whether p grants full membership of its partition.
func (p PKey) Full() bool { return p&PKeyFullMember != 0 }

// PKeyMatch reports whether endpoints with keys a and b may communicate (IBA 10.9.3).
// Both must be in the same partition, other than the invalid partition 0, and at least
// one must be a full member.
func PKeyMatch(a, b PKey) bool {
	const number = PKeyFullMember - 1
	return a&number == b&number && a&number != 0 && (a | b).Full()
}

// GID is a port address in network byte order. In RoCEv2 it is an IPv6 address,
// or an IPv4 address in its IPv4-mapped form (IBA A17.4.1.1).
type GID [16]byte

// GIDFromAddr returns the GID of addr, dropping its zone. An invalid addr gives
// the zero GID.
func GIDFromAddr(addr netip.Addr) GID {
	if !addr.IsValid() {
		return GID{}
	}
	return addr.As16()
}

// Addr returns the IP address of g; an IPv4-mapped GID gives the IPv4 address.
func (g GID) Addr() netip.Addr { return netip.AddrFrom16(g).Unmap() }

// IsZero reports whether g is the reserved GID, which marks an empty table entry.
func (g GID) IsZero() bool { return g == GID{} }

// IsMulticast reports whether g is an IPv6 multicast address or the mapped form
// of an IPv4 one.
func (g GID) IsMulticast() bool { return g.Addr().IsMulticast() }

// String returns g as sysfs and the tools of libibverbs show it: eight groups of four
// hexadecimal digits, with all zeros.
func (g GID) String() string {
	var s [39]byte
	for i := range 8 {
		hex.Encode(s[5*i:], g[2*i:2*i+2])
		if i < 7 {
			s[5*i+4] = ':'
		}
	}
	return string(s[:])
}
