package wire

import (
	"encoding/binary"
	"hash/crc32"
	"net/netip"
)

// sampleHeaders fills every field with a pattern that shows a byte out of place.
func sampleHeaders(op Opcode, pad int) Headers {
	return Headers{
		Opcode: op, Solicited: true, AckReq: true, BECN: true, Pad: uint8(pad),
		PKey: 0x9234, DestQP: 0x123457, PSN: 0xabcde1,
		VA: 0x1122334455667788, RKey: 0x99aabbcc, DMALen: 0x01020304,
		Syndrome: SyndromeNAK(NAKRemoteAccess), MSN: 0x77665b,
		QKey: 0x80010203, SrcQP: 0x0f1e2d,
		Imm: 0xcafef00d, InvRKey: 0x5ca1ab1e,
		SwapAdd: 0xdeadbeef00112233, Compare: 0x0123456789abcdef, AtomicOrig: 0xfedcba9876543210,
		XRCSRQN: 0x00c0de, FlushPlacement: FlushPersistent, FlushLevel: FlushMR,
	}
}

// validOps returns all opcodes of the table, in order.
func validOps() (ops []Opcode) {
	for op := range 256 {
		if Opcode(op).Info().Valid() {
			ops = append(ops, Opcode(op))
		}
	}
	return ops
}

// samplePacket returns a packet, BTH through pad, with a payload of n bytes if
// the opcode carries one.
func samplePacket(op Opcode, n int) []byte {
	if !op.Info().Has(OpPayload) {
		n = 0
	}
	h := sampleHeaders(op, PadLen(n))
	b := h.Append(nil)
	for i := range n {
		b = append(b, byte(i*7+i>>8))
	}
	return append(b, make([]byte, PadLen(n))...)
}

func testRoute(v6 bool) *Route {
	r := &Route{
		Src: netip.MustParseAddr("10.1.2.3"), Dst: netip.MustParseAddr("10.4.5.6"),
		SrcPort: 0xd123, TrafficClass: 0x6a, HopLimit: 63, FlowLabel: 0x54321,
	}
	if v6 {
		r.Src, r.Dst = netip.MustParseAddr("fe80::1:2:3"), netip.MustParseAddr("2001:db8::4:5:6")
	}
	return r
}

// ipPacket returns a whole IP datagram around pkt, with four zeros for the ICRC.
func ipPacket(r *Route, id uint16, df bool, pkt []byte) []byte {
	be := binary.BigEndian
	udp := 8 + len(pkt) + 4
	var b []byte
	if r.Src.Is4() {
		b = append(b, 0x45, r.TrafficClass)
		b = be.AppendUint16(b, uint16(20+udp))
		b = be.AppendUint16(b, id)
		flags := uint16(0)
		if df {
			flags = 0x4000
		}
		b = be.AppendUint16(b, flags)
		b = append(b, r.HopLimit, 17, 0, 0)
	} else {
		b = be.AppendUint32(b, 6<<28|uint32(r.TrafficClass)<<20|r.FlowLabel)
		b = be.AppendUint16(b, uint16(udp))
		b = append(b, 17, r.HopLimit)
	}
	b = append(b, r.Src.AsSlice()...)
	b = append(b, r.Dst.AsSlice()...)
	if r.Src.Is4() {
		be.PutUint16(b[10:], ^ipv4Sum(b))
	}
	b = be.AppendUint16(b, r.SrcPort)
	b = be.AppendUint16(b, UDPPort)
	b = be.AppendUint16(b, uint16(udp))
	b = append(b, 0, 0)
	b = append(b, pkt...)
	return append(b, 0, 0, 0, 0)
}

// slowICRC computes the ICRC of an IP datagram the plain way: copy, mask, sum.
func slowICRC(ip []byte) uint32 {
	b := append([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, ip[:len(ip)-4]...)
	masked, udp := []int{1, 8, 10, 11}, 20
	if ip[0]>>4 == 6 {
		b[8] |= 0x0f
		masked, udp = []int{1, 2, 3, 7}, 40
	}
	for _, i := range append(masked, udp+6, udp+7, udp+8+4) {
		b[8+i] = 0xff
	}
	return crc32.ChecksumIEEE(b)
}

// must returns the packet in b, which a test made or has checked.
func must(b []byte) Packet {
	p, err := Parse(b)
	if err != nil {
		panic(err)
	}
	return p
}
