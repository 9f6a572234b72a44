package wire

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"hash/crc32"
	"math/rand/v2"
	"net/netip"
	"testing"
)

// TestICRCSample is the worked example of the specification (IBA 7.8): an RDMA
// WRITE of 14 bytes on native InfiniBand. It pins polynomial, bit order, masks
// and the order of the four bytes on the wire.
func TestICRCSample(t *testing.T) {
	lrh, _ := hex.DecodeString("7012375c000e17d2")
	pkt, _ := hex.DecodeString("0a2024870087b1b3000dec2a" + "01710a1c015d400238f27a050000000e" +
		"bb884d85fd5cfba4728bc0690ed40000")
	if p, err := Parse(pkt); err != nil || p.Opcode() != RCWriteOnly || p.DMALen() != 14 || len(p.Payload()) != 14 {
		t.Errorf("sample parsed as %+v, %v", p, err)
	}
	lrh[0] |= 0xf0 // virtual lane
	// Behind a header of its own, the state handles the masked BTH as ever.
	s := ICRCState{base: ^crc32.ChecksumIEEE(lrh)}
	reg := s.base ^ maskEffect[pkt[4]]
	sum := crc32.Update(^reg, crc32.IEEETable, pkt)
	if len(lrh)+len(pkt) != 52 || sum != 0x5ab72596 {
		t.Errorf("CRC of %d bytes is %#08x, want 0x5ab72596", len(lrh)+len(pkt), sum)
	}
	if wire := binary.LittleEndian.AppendUint32(nil, sum); !bytes.Equal(wire, []byte{0x96, 0x25, 0xb7, 0x5a}) {
		t.Errorf("on the wire % x", wire)
	}
}

// TestICRCSum compares with masking and summing the whole datagram, for every
// length from the shortest to beyond the largest path MTU.
func TestICRCSum(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	buf := make([]byte, 4200)
	for _, v6 := range []bool{false, true} {
		r := testRoute(v6)
		s := NewICRC(r, UDPPort)
		for n := BTHLen; n <= len(buf); n++ {
			for i := range buf {
				buf[i] = byte(rng.Uint32())
			}
			id, df, pkt := uint16(rng.Uint32()), n%2 == 0, buf[:n]
			ip := ipPacket(r, id, df, pkt)
			want := slowICRC(ip)
			if got := s.Sum(id, df, pkt); got != want {
				t.Fatalf("IPv6 %v, %d bytes: ICRC %#08x, want %#08x", v6, n, got, want)
			}
		}
	}
}

// TestICRCMaskedFields: what routers may change is not covered, and BTH byte 4
// is read but never written.
func TestICRCMaskedFields(t *testing.T) {
	for _, v6 := range []bool{false, true} {
		r := testRoute(v6)
		pkt := samplePacket(RCWriteOnly, 100)
		want := NewICRC(r, UDPPort).Sum(7, true, pkt)
		r.TrafficClass, r.HopLimit, r.FlowLabel = 0, 1, 0
		for v := range 256 {
			pkt[4] = byte(v)
			if got := NewICRC(r, UDPPort).Sum(7, true, pkt); got != want || pkt[4] != byte(v) {
				t.Fatalf("IPv6 %v, byte 4 %#02x: %#08x, want %#08x", v6, v, got, want)
			}
		}
		r.SrcPort++
		if NewICRC(r, UDPPort).Sum(7, true, pkt) == want {
			t.Errorf("IPv6 %v: source port is not covered", v6)
		}
	}
}

func TestICRCPutCheck(t *testing.T) {
	for _, v6 := range []bool{false, true} {
		s := NewICRC(testRoute(v6), UDPPort)
		pkt := append(samplePacket(RCSendOnly, 33), 0xee, 0xee, 0xee, 0xee)
		s.Put(pkt, 3)
		if !s.Check(pkt, 3, true) {
			t.Errorf("IPv6 %v: own packet refused", v6)
		}
		if got := s.Check(pkt, 4, true); got != v6 {
			t.Errorf("IPv6 %v: with another identification: %v", v6, got)
		}
		if got := s.Check(pkt, 3, false); got != v6 {
			t.Errorf("IPv6 %v: with another flag: %v", v6, got)
		}
		for n := range BTHLen + ICRCLen {
			if _, _, ok := s.CheckUnknownID(pkt[:n], nil); ok || s.Check(pkt[:n], 3, true) {
				t.Errorf("IPv6 %v: %d bytes accepted", v6, n)
			}
		}
	}
}

func TestICRCMappedAddresses(t *testing.T) {
	r := testRoute(false)
	mapped := *r
	mapped.Src, mapped.Dst = netip.AddrFrom16(r.Src.As16()), netip.AddrFrom16(r.Dst.As16())
	pkt := samplePacket(RCAck, 0)
	if NewICRC(&mapped, UDPPort).Sum(1, true, pkt) != NewICRC(r, UDPPort).Sum(1, true, pkt) {
		t.Error("IPv4-mapped addresses are not taken for IPv4")
	}
	NewICRC(&Route{}, UDPPort).Sum(0, true, pkt) // must not panic
}

// seal returns pkt with the ICRC it has on this route.
func seal(s ICRCState, id uint16, df bool, pkt []byte) []byte {
	return binary.LittleEndian.AppendUint32(bytes.Clone(pkt), s.Sum(id, df, pkt))
}

// TestUnknownID solves for every identification.
func TestUnknownID(t *testing.T) {
	s := NewICRC(testRoute(false), UDPPort)
	for _, payload := range []int{0, 1024} {
		for _, df := range []bool{true, false} {
			hint := &DFHint{clear: !df}
			body := samplePacket(RCSendOnly, payload)
			for id := range 1 << 16 {
				pkt := seal(s, uint16(id), df, body)
				gotID, gotDF, ok := s.CheckUnknownID(pkt, hint)
				if int(gotID) != id || gotDF != df || !ok {
					t.Fatalf("payload %d, ID %#04x, DF %v: solved %#04x, %v, %v",
						payload, id, df, gotID, gotDF, ok)
				}
			}
		}
	}
}

// TestSingleBitErrors flips each bit of packets of each size and expects a
// refusal, from the exact check and from the solver whatever it has learnt. The
// bits that the ICRC does not cover are the exception.
func TestSingleBitErrors(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for _, v6 := range []bool{false, true} {
		s := NewICRC(testRoute(v6), UDPPort)
		for _, payload := range []int{0, 4, 157, 158, 160, 164, 256, 1024, 1824, 2048, 4096} {
			for _, df := range []bool{true, false} {
				id := uint16(rng.Uint32())
				pkt := seal(s, id, df, samplePacket(RCWriteOnly, payload))
				for bit := range 8 * len(pkt) {
					if bit/8 == 4 {
						continue
					}
					pkt[bit/8] ^= 1 << (bit % 8)
					if s.Check(pkt, id, df) {
						t.Errorf("IPv6 %v, payload %d, bit %d: exact check passes", v6, payload, bit)
					}
					for _, hint := range []*DFHint{nil, {clear: !df}} {
						if hint == nil && !df && len(pkt) >= dfAmbiguousLen {
							continue // refused even when intact
						}
						if _, _, ok := s.CheckUnknownID(pkt, hint); ok {
							t.Errorf("IPv6 %v, payload %d, DF %v, bit %d: solver passes", v6, payload, df, bit)
						}
					}
					pkt[bit/8] ^= 1 << (bit % 8)
				}
			}
		}
	}
}

// TestNoBitLooksLikeAnID proves for all lengths and identifications what
// TestSingleBitErrors tries on some. The effect of a flipped bit, rolled back to the
// identification, depends only on the distance between the two.
func TestNoBitLooksLikeAnID(t *testing.T) {
	const bthAt = ipv4Len - ipv4IDOffset + udpLen
	for at := 0; at < 1<<14; at++ { // byte in the packet, ICRC included
		for bit := range 8 {
			trace := rollBack(1<<bit, bthAt+at)
			if trace&^0xffff == 0 {
				t.Errorf("byte %d bit %d looks like an identification", at, bit)
			}
			if trace&^(0xffff|ipv4FlagDF<<16) == 0 && at+1 < dfAmbiguousLen {
				t.Errorf("byte %d bit %d looks like an identification without DF", at, bit)
			}
		}
	}
	// The reason for the limit.
	if trace := rollBack(1<<3, bthAt+dfAmbiguousLen-1); trace&^(0xffff|ipv4FlagDF<<16) != 0 {
		t.Errorf("byte %d bit 3 is not ambiguous", dfAmbiguousLen-1)
	}
}

// TestDFHint: a sender without don't-fragment is learnt from one short packet or
// from several long ones, and unlearnt the same way.
func TestDFHint(t *testing.T) {
	s := NewICRC(testRoute(false), UDPPort)
	packet := func(df bool, payload int) []byte { return seal(s, 99, df, samplePacket(RCSendOnly, payload)) }
	const long, short = 1024, 8
	type step struct {
		df      bool
		payload int
		want    bool
	}
	for name, steps := range map[string][]step{
		"usual":         {{true, long, true}, {true, short, true}, {true, long, true}},
		"by short":      {{false, long, false}, {false, short, true}, {false, long, true}, {true, long, false}},
		"by repetition": {{false, long, false}, {false, long, false}, {false, long, false}, {false, long, true}, {false, long, true}},
		"interrupted":   {{false, long, false}, {false, long, false}, {false, long, false}, {true, long, true}, {false, long, false}},
		"back again":    {{false, short, true}, {true, short, true}, {true, long, true}, {false, long, false}},
	} {
		var hint DFHint
		for i, st := range steps {
			if _, df, ok := s.CheckUnknownID(packet(st.df, st.payload), &hint); ok != st.want || df != st.df {
				t.Errorf("%s, step %d: DF %v, accepted %v, want %v", name, i, df, ok, st.want)
			}
		}
	}
	if _, _, ok := s.CheckUnknownID(packet(false, long), nil); ok {
		t.Error("long packet without DF accepted without a hint")
	}
	if _, _, ok := s.CheckUnknownID(packet(false, short), nil); !ok {
		t.Error("short packet without DF refused without a hint")
	}
}

func TestCRCMath(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for range 1000 {
		a, b, c := rng.Uint32(), rng.Uint32(), rng.Uint32()
		if divX(mulX(a)) != a || mulX(divX(a)) != a {
			t.Fatalf("divX does not undo mulX of %#x", a)
		}
		if mul(a, b) != mul(b, a) || mul(a, b^c) != mul(a, b)^mul(a, c) || mul(a, 1<<31) != a {
			t.Fatalf("mul is no product for %#x, %#x, %#x", a, b, c)
		}
	}
	for n := 0; n < 1<<16; n += 251 {
		a := rng.Uint32()
		if got := rollBack(rollForward(a, n), n); got != a {
			t.Fatalf("rollBack(rollForward(%#x, %d)) = %#x", a, n, got)
		}
	}
}

func TestICRCNoAllocation(t *testing.T) {
	for _, v6 := range []bool{false, true} {
		r := testRoute(v6)
		pkt := append(samplePacket(RCSendMiddle, 1024), 0, 0, 0, 0)
		hint := new(DFHint)
		if n := testing.AllocsPerRun(10, func() {
			s := NewICRC(r, UDPPort)
			s.Put(pkt, 77)
			s.Check(pkt, 77, true)
			s.CheckUnknownID(pkt, hint)
		}); n != 0 {
			t.Errorf("IPv6 %v: %v allocations", v6, n)
		}
	}
}
