package wire

import (
	"encoding/binary"
	"hash/crc32"
	"math/bits"
	"net/netip"
)

// The invariant CRC of RoCEv2 (IBA A17.3.3): an ordinary reflected CRC-32 over
// eight bytes of ones, the IP and UDP headers and the packet from BTH through
// pad, with every field that may change on the way replaced by ones. It follows
// the pad in little-endian order.
//
// A CRC register is linear over GF(2): flipping bits of the input flips bits of
// the register that depend only on which bits they are and how many bytes
// follow. So a state per flow holds the register behind the IP and UDP headers
// with zeros for the lengths and the identification; their effect is added from
// tables, and that of masking BTH byte 4 is added before the byte is reached.
// One pass of an ordinary CRC-32 over the packet, in place, then does the rest.

const (
	ipv4Len = 20
	ipv6Len = 40
	udpLen  = 8

	// Offsets in the IPv4 header of what differs between packets of a flow.
	ipv4LenOffset = 2
	ipv4IDOffset  = 4
	ipv4FlagDF    = 0x40 // in the byte after the identification
)

// ICRCState computes and checks the ICRC of packets of one flow. It does not
// change after NewICRC and may be used by many goroutines.
type ICRCState struct {
	base uint32 // register behind the UDP header, lengths and IPv4 ID zero
	v6   bool
}

// NewICRC returns the state of the flow along route to UDP port dstPort. Only
// the addresses and the source port matter. The IP version is that of route.Src;
// an IPv4-mapped address counts as IPv4.
func NewICRC(route *Route, dstPort uint16) ICRCState {
	if src := route.Src.Unmap(); src.Is6() {
		return newICRC6(src.As16(), as16(route.Dst), route.SrcPort, dstPort)
	}
	return newICRC4(as4(route.Src), as4(route.Dst), route.SrcPort, dstPort)
}

func newICRC4(src, dst [4]byte, srcPort, dstPort uint16) ICRCState {
	reg := feed(prefix4, src[:])
	reg = feed(reg, dst[:])
	return ICRCState{base: feedUDP(reg, srcPort, dstPort)}
}

func newICRC6(src, dst [16]byte, srcPort, dstPort uint16) ICRCState {
	reg := feed(prefix6, src[:])
	reg = feed(reg, dst[:])
	return ICRCState{base: feedUDP(reg, srcPort, dstPort), v6: true}
}

// prefix4 and prefix6 are the register before the source address: the eight
// ones in place of an InfiniBand local route header, and the IP header, masked,
// with zeros for what differs between packets.
var (
	prefix4 = feed(^uint32(0), []byte{
		0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
		0x45, 0xff, 0, 0, 0, 0, 0, 0,
		0xff, ipProtoUDP, 0xff, 0xff, // TTL, protocol, checksum
	})
	prefix6 = feed(^uint32(0), []byte{
		0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
		0x6f, 0xff, 0xff, 0xff, // traffic class and flow label
		0, 0, ipProtoUDP, 0xff, // next header, hop limit
	})
)

// feedUDP feeds a UDP header of length zero and masked checksum.
func feedUDP(reg uint32, srcPort, dstPort uint16) uint32 {
	h := [udpLen]byte{6: 0xff, 7: 0xff}
	binary.BigEndian.PutUint16(h[0:], srcPort)
	binary.BigEndian.PutUint16(h[2:], dstPort)
	return feed(reg, h[:])
}

// feed returns register reg after the bytes of b. Unlike crc32.Update, which is
// for long input, it lets b stay on the stack.
func feed(reg uint32, b []byte) uint32 {
	for _, c := range b {
		reg = crc32.IEEETable[byte(reg)^c] ^ reg>>8
	}
	return reg
}

// as4 and as16 do not panic on an address of the other family or none.
func as4(a netip.Addr) [4]byte {
	if a = a.Unmap(); a.Is4() {
		return a.As4()
	}
	return [4]byte{}
}

func as16(a netip.Addr) [16]byte {
	if a.IsValid() {
		return a.As16()
	}
	return [16]byte{}
}

// Sum returns the ICRC of pkt, which runs from BTH through pad. id and df are
// the identification and the don't-fragment flag of the IPv4 header; IPv6 has
// neither and ignores them. pkt must be at least BTHLen long.
func (s ICRCState) Sum(id uint16, df bool, pkt []byte) uint32 {
	reg := s.base ^ maskEffect[pkt[4]]
	udp := udpLen + len(pkt) + ICRCLen
	if s.v6 {
		// The payload length is the UDP length.
		reg ^= effect16(&payload6Effect, uint16(udp)) ^ effect16(&udpLenEffect, uint16(udp))
	} else {
		reg ^= effect16(&totalLen4Effect, uint16(ipv4Len+udp)) ^ effect16(&udpLenEffect, uint16(udp)) ^
			effect16(&id4Effect, id)
		if df {
			reg ^= dfEffect
		}
	}
	return sumBytes(^reg, pkt)
}

// sumBytes is crc32.Update for packets. Long ones go to crcWide where there is
// one. hash/crc32 is fast for whole blocks of 16 bytes, from 64 on, but takes up
// to 15 bytes behind them one by one, and nearly every packet has a header's worth
// of those.
func sumBytes(crc uint32, b []byte) uint32 {
	const block, least = 16, 64
	if haveWideCRC && len(b) >= crcWideLen {
		return ^crcWide(^crc, b)
	}
	if whole := len(b) &^ (block - 1); whole >= least {
		crc = crc32.Update(crc, crc32.IEEETable, b[:whole])
		b = b[whole:]
	}
	reg := ^crc
	for ; len(b) >= 4; b = b[4:] {
		reg ^= binary.LittleEndian.Uint32(b)
		reg = slices4[3][byte(reg)] ^ slices4[2][byte(reg>>8)] ^ slices4[1][byte(reg>>16)] ^ slices4[0][reg>>24]
	}
	return ^feed(reg, b)
}

// slices4[i] is the CRC of a byte that i others follow ("slicing by four").
var slices4 = func() (t [4]crc32.Table) {
	t[0] = *crc32.IEEETable
	for i := 1; i < len(t); i++ {
		for j := range t[i] {
			prev := t[i-1][j]
			t[i][j] = crc32.IEEETable[byte(prev)] ^ prev>>8
		}
	}
	return t
}()

// Put seals pkt, a packet that ends in ICRCLen bytes of room. It will travel
// with identification id and, if over IPv4, with don't-fragment set.
func (s ICRCState) Put(pkt []byte, id uint16) {
	body, room := splitICRC(pkt)
	binary.LittleEndian.PutUint32(room, s.Sum(id, true, body))
}

// Check reports whether pkt, which ends in its ICRC, arrived intact. It is
// exact: use it where the IPv4 header was seen.
func (s ICRCState) Check(pkt []byte, id uint16, df bool) bool {
	if len(pkt) < BTHLen+ICRCLen {
		return false
	}
	body, icrc := splitICRC(pkt)
	return s.Sum(id, df, body) == binary.LittleEndian.Uint32(icrc)
}

// dfAmbiguousLen is the length, ICRC included, from which a packet has a bit
// whose flip looks like another identification together with the other
// don't-fragment flag: bit 3 of byte 173. (Bit 6 of byte 1834 is the only other
// one below 20 KB, and none looks like another identification alone.)
const dfAmbiguousLen = 174

// dfConfidence is how many long packets in a row must agree on a don't-fragment
// flag that contradicts the hint before they are believed.
const dfConfidence = 4

// DFHint is what CheckUnknownID learns about a sender's habit of setting
// don't-fragment; nearly all RoCEv2 senders set it, which is the zero DFHint.
// Keep one per peer address. It is not safe for concurrent use.
type DFHint struct {
	clear    bool // sender leaves the flag clear
	contrary uint8
}

// accept decides whether a packet of this length may have had this flag.
func (h *DFHint) accept(df bool, length int) bool {
	if h == nil {
		return df || length < dfAmbiguousLen
	}
	if df == h.clear && length >= dfAmbiguousLen {
		if h.contrary++; h.contrary < dfConfidence {
			return false
		}
	}
	*h = DFHint{clear: !df}
	return true
}

// CheckUnknownID reports whether pkt, which ends in its ICRC, arrived intact for
// some IPv4 identification and don't-fragment flag, and which these were: a UDP
// socket does not tell. Over IPv6 the check is exact.
//
// Identification zero with don't-fragment, which is what a Linux UDP socket
// sends one by one, costs nothing extra. Otherwise the difference between the
// ICRC received and that for zero is rolled back over the bytes that follow the
// identification; what appears is the XOR difference of the four header bytes
// there, and must be zero but for the identification and the flag. The cost is
// a few multiplications, whatever the length.
//
// No single flipped bit passes. To this end a long packet passes only with the
// flag that hint expects; a sender that clears it has its first few long packets
// dropped, until short ones or repetition have taught hint. A nil hint always
// expects the flag to be set. Random damage passes with probability 2^-16, for
// short packets 2^-15.
func (s ICRCState) CheckUnknownID(pkt []byte, hint *DFHint) (id uint16, df, ok bool) {
	if len(pkt) < BTHLen+ICRCLen {
		return 0, false, false
	}
	body, icrc := splitICRC(pkt)
	diff := s.Sum(0, true, body) ^ binary.LittleEndian.Uint32(icrc)
	if s.v6 {
		return 0, false, diff == 0
	}
	if diff != 0 {
		diff = rollBack(diff, ipv4Len-ipv4IDOffset+udpLen+len(body))
		if diff&^(0xffff|ipv4FlagDF<<16) != 0 {
			return 0, false, false
		}
	}
	id, df = bits.ReverseBytes16(uint16(diff)), diff>>16 == 0
	return id, df, hint.accept(df, len(pkt))
}

// splitICRC cuts pkt before its last ICRCLen bytes.
func splitICRC(pkt []byte) (body, icrc []byte) {
	n := len(pkt) - ICRCLen
	return pkt[:n], pkt[n:]
}

// ICRC4 returns the ICRC of one packet over IPv4; pkt runs from BTH through pad
// and is at least BTHLen long. For more than one packet of a flow use ICRCState.
func ICRC4(src, dst [4]byte, srcPort, dstPort, id uint16, df bool, pkt []byte) uint32 {
	return newICRC4(src, dst, srcPort, dstPort).Sum(id, df, pkt)
}

// ICRC6 is ICRC4 for IPv6.
func ICRC6(src, dst [16]byte, srcPort, dstPort uint16, pkt []byte) uint32 {
	return newICRC6(src, dst, srcPort, dstPort).Sum(0, false, pkt)
}
