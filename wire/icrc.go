package wire

import (
	"encoding/binary"
	"hash/crc32"
	"math/bits"
	"net/netip"
)

// The invariant CRC of RoCEv2 (IBA A17.3.3) is an ordinary reflected CRC-32. Its input
// is eight bytes of ones, the IP and UDP headers, and the packet from BTH through pad.
// Every field that may change on the way is replaced by ones. The CRC follows the pad
// in little-endian order.
//
// A CRC register is linear over GF(2): if some bits of the input flip, some bits of
// the register flip. Which ones depends only on the bits and on how many bytes follow.
// So a flow's state holds the register after the IP and UDP headers, with zeros for
// the lengths and the identification. Tables give the effect of their real values, and
// of masking BTH byte 4. One pass of an ordinary CRC-32 over the packet then completes
// the ICRC.

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
	base uint32 // register after the UDP header; lengths and IPv4 ID are zero
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

// prefix4 and prefix6 are the register before the source address. The input so far is
// eight bytes of ones, in place of an InfiniBand local route header, and the masked IP
// header. The fields that differ between packets are zero.
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

// sumBytes is crc32.Update for packets. It uses crcWide for long packets, if the
// processor has it. hash/crc32 is fast for whole blocks of 16 bytes, from 64 bytes on,
// but takes up to 15 bytes after them one by one. Nearly every packet has such bytes,
// because of its headers.
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

// slices4[i] has the CRC of a byte before i others ("slicing by four").
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

// Put writes the ICRC to the last ICRCLen bytes of pkt. The packet will travel with
// identification id and, over IPv4, with don't-fragment set.
func (s ICRCState) Put(pkt []byte, id uint16) {
	body, room := splitICRC(pkt)
	binary.LittleEndian.PutUint32(room, s.Sum(id, true, body))
}

// Damage XORs the ICRC at the end of pkt with damage.
func Damage(pkt []byte, damage uint32) {
	_, icrc := splitICRC(pkt)
	binary.LittleEndian.PutUint32(icrc, binary.LittleEndian.Uint32(icrc)^damage)
}

// DamageOf returns the damage to the ICRC of a packet whose bytes the wire changes from was to is:
// the packet keeps the ICRC of was. Both have the same length, and no ICRC. It is 0 if only bits
// changed that the ICRC does not cover. No address matters, because the CRC is linear.
func DamageOf(was, is []byte) uint32 {
	var s ICRCState
	return s.Sum(0, false, was) ^ s.Sum(0, false, is)
}

// Check reports whether pkt, which ends in its ICRC, arrived intact. Use it where the
// IPv4 header is known: the check is exact.
func (s ICRCState) Check(pkt []byte, id uint16, df bool) bool {
	if len(pkt) < BTHLen+ICRCLen {
		return false
	}
	body, icrc := splitICRC(pkt)
	return s.Sum(id, df, body) == binary.LittleEndian.Uint32(icrc)
}

// dfAmbiguousLen is the length, ICRC included, from which one flipped bit can look like
// another identification and the other don't-fragment flag: bit 3 of byte 173. (Bit 6
// of byte 1834 is the only other such bit below 20 KB. No bit looks like another
// identification alone.)
const dfAmbiguousLen = 174

// dfConfidence is how many long packets in a row must contradict the hint before the
// hint changes.
const dfConfidence = 4

// DFHint is what CheckUnknownID learns about whether a sender sets don't-fragment. The
// zero DFHint means that it does, as nearly all RoCEv2 senders do. Keep one per peer
// address. It is not safe for concurrent use.
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

// CheckUnknownID reports whether pkt, which ends in its ICRC, arrived intact with some
// IPv4 identification and don't-fragment flag, and returns these. It is for packets
// from a UDP socket, which does not show them. Over IPv6 the check is exact.
//
// It first computes the ICRC for identification zero and don't-fragment set, which a
// Linux UDP socket sends for single packets. If that differs from the ICRC received, it
// rolls the difference back over the bytes that follow the identification. The result
// is the XOR difference of four header bytes, and all of its bits must be zero except
// those of the identification and the flag. The cost is a few multiplications, for any
// length.
//
// No single flipped bit passes. For this a long packet passes only with the flag that
// hint expects. If a sender clears the flag, its first few long packets are dropped,
// until short ones or repetition have changed the hint. A nil hint always expects the
// flag to be set. Random damage passes with probability 2^-16, and 2^-15 for short
// packets.
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
