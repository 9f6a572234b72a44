package wire

import (
	"bytes"
	"encoding/binary"
	"errors"
	"testing"
)

// FuzzParse: any bytes are either refused with one of the four errors, or give a
// packet whose getters all work and whose parts add up.
func FuzzParse(f *testing.F) {
	for _, op := range validOps() {
		f.Add(samplePacket(op, 5))
	}
	f.Add([]byte{})
	f.Add(bytes.Repeat([]byte{0xff}, 64))
	f.Fuzz(func(t *testing.T, b []byte) {
		before := bytes.Clone(b)
		p, err := Parse(b)
		if err != nil {
			var pe *ParseError
			if !errors.As(err, &pe) || pe.Error() == "" {
				t.Fatalf("error is %T: %v", err, err)
			}
			kinds := 0
			for _, kind := range []error{ErrTruncated, ErrTVer, ErrPad, ErrOpcode} {
				if errors.Is(err, kind) {
					kinds++
				}
			}
			if kinds != 1 {
				t.Fatalf("%v is %d of the four kinds", err, kinds)
			}
			return
		}
		h := p.Headers()
		if got := h.Len() + len(p.Payload()) + p.Pad(); got != len(b) {
			t.Fatalf("headers %d, payload %d and pad %d of %d bytes", h.Len(), len(p.Payload()), p.Pad(), len(b))
		}
		if h != onlyPresent(h) {
			t.Fatalf("absent headers are not zero: %+v", h)
		}
		if !bytes.Equal(b, before) {
			t.Fatal("Parse changed its input")
		}
	})
}

// FuzzRoundTrip: parse, build, parse gives the same bytes, up to reserved bits,
// and the same fields.
func FuzzRoundTrip(f *testing.F) {
	for _, op := range validOps() {
		for pad := range 4 {
			f.Add(samplePacket(op, 8-pad))
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := Parse(b)
		if err != nil {
			return
		}
		h := p.Headers()
		again := append(h.Append(nil), b[h.Len():]...)
		if want := withoutReserved(p); !bytes.Equal(again, want) {
			t.Fatalf("%v rebuilt as\n% x, want\n% x", p.Opcode(), again, want)
		}
		q, err := Parse(again)
		if err != nil {
			t.Fatalf("rebuilt packet is refused: %v", err)
		}
		if q.Headers() != h || !bytes.Equal(q.Payload(), p.Payload()) {
			t.Fatalf("got  %+v\nwant %+v", q.Headers(), h)
		}
	})
}

// withoutReserved returns the bytes of p with all reserved bits zero.
func withoutReserved(p Packet) []byte {
	b, i := bytes.Clone(p.Bytes()), p.Info()
	b[4] &= bthFECN | bthBECN
	b[8] &= bthAckReq
	if i.DETH != 0 {
		b[i.DETH+4] = 0
	}
	if i.XRCETH != 0 {
		b[i.XRCETH] = 0
	}
	if i.FETH != 0 {
		copy(b[i.FETH:], []byte{0, 0, 0})
		b[i.FETH+3] &= 0x3f
	}
	if i.CNP != 0 {
		clear(b[i.CNP : i.CNP+CNPLen])
	}
	return b
}

// FuzzICRC: the state agrees with masking and summing the whole datagram, the
// solver finds what was put in, and any one flipped bit is refused.
func FuzzICRC(f *testing.F) {
	f.Add(samplePacket(RCSendOnly, 0), uint16(0), true, false, uint16(0))
	f.Add(samplePacket(RCWriteOnly, 33), uint16(0xffff), false, false, uint16(130))
	f.Add(samplePacket(UDSendOnlyImm, 256), uint16(127), true, true, uint16(2047))
	f.Fuzz(func(t *testing.T, pkt []byte, id uint16, df, v6 bool, flip uint16) {
		if len(pkt) < BTHLen || len(pkt) > 8192 {
			return
		}
		r := testRoute(v6)
		s := NewICRC(r, UDPPort)
		want := slowICRC(ipPacket(r, id, df, pkt))
		if got := s.Sum(id, df, pkt); got != want {
			t.Fatalf("ICRC %#08x, want %#08x", got, want)
		}
		sealed := binary.LittleEndian.AppendUint32(pkt[:len(pkt):len(pkt)], want)
		hint := DFHint{clear: !df}
		gotID, gotDF, ok := s.CheckUnknownID(sealed, &hint)
		if !ok || !v6 && (gotID != id || gotDF != df) {
			t.Fatalf("solved %#04x, %v, %v; want %#04x, %v", gotID, gotDF, ok, id, df)
		}
		bit := int(flip) % (8 * len(sealed))
		if bit/8 == 4 {
			return // not covered
		}
		sealed[bit/8] ^= 1 << (bit % 8)
		if _, _, ok := s.CheckUnknownID(sealed, &hint); ok || s.Check(sealed, id, df) {
			t.Fatalf("flip of bit %d passes", bit)
		}
	})
}

// FuzzGRH: what ParseGRH accepts has addresses of one family, and PutGRH of what
// it read gives a header that reads the same.
func FuzzGRH(f *testing.F) {
	for _, v6 := range []bool{false, true} {
		r := testRoute(v6)
		b := make([]byte, GRHLen)
		PutGRH(b, &Datagram{Src: r.Src, Dst: r.Dst, TrafficClass: 3, HopLimit: 4}, 24)
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		src, dst, tclass, hop, err := ParseGRH(b)
		if err != nil {
			if !errors.Is(err, ErrGRH) && !errors.Is(err, ErrTruncated) {
				t.Fatalf("error %v", err)
			}
			return
		}
		if src.Is4() != dst.Is4() {
			return // an IPv6 header with one mapped address; nothing to rebuild
		}
		again := make([]byte, GRHLen)
		PutGRH(again, &Datagram{Src: src, Dst: dst, TrafficClass: tclass, HopLimit: hop}, 8)
		src2, dst2, tclass2, hop2, err := ParseGRH(again)
		if src2 != src || dst2 != dst || tclass2 != tclass || hop2 != hop || err != nil {
			t.Fatalf("%v %v %d %d read back as %v %v %d %d, %v", src, dst, tclass, hop, src2, dst2, tclass2, hop2, err)
		}
	})
}
