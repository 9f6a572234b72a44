package wire

import (
	"encoding/hex"
	"errors"
	"net/netip"
	"testing"
)

func TestGRH(t *testing.T) {
	g := GRH{
		TrafficClass: 0xa5, FlowLabel: 0xf1234, PayloadLen: 0x0102, NextHeader: 0x1b, HopLimit: 0x40,
		SGID: GIDFromAddr(netip.MustParseAddr("fe80::1")), DGID: GIDFromAddr(netip.MustParseAddr("ff0e::2")),
	}
	b := make([]byte, GRHLen)
	g.Put(b)
	const want = "6a5f123401021b40" + "fe800000000000000000000000000001" + "ff0e0000000000000000000000000002"
	if got := hex.EncodeToString(b); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	var back GRH
	if err := back.Parse(b); err != nil || back != g {
		t.Errorf("parsed %+v, %v", back, err)
	}
	for n := range GRHLen {
		if err := back.Parse(b[:n]); !errors.Is(err, ErrTruncated) {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
	b[0] = 0x45
	if err := back.Parse(b); !errors.Is(err, ErrGRH) {
		t.Errorf("version 4: %v", err)
	}
}

// TestPutGRH pins both forms of the 40 bytes; the IPv4 checksum is that which
// RFC 1071 gives.
func TestPutGRH(t *testing.T) {
	for _, c := range []struct{ src, dst, want string }{
		{"10.0.0.1", "10.0.0.2", "0000000000000000000000000000000000000000" +
			"4502003c00004000401126ad0a0000010a000002"},
		{"::ffff:10.0.0.1", "10.0.0.2", "0000000000000000000000000000000000000000" +
			"4502003c00004000401126ad0a0000010a000002"},
		{"fe80::1", "fe80::2", "6020000000281140" +
			"fe800000000000000000000000000001" + "fe800000000000000000000000000002"},
	} {
		d := Datagram{Src: netip.MustParseAddr(c.src), Dst: netip.MustParseAddr(c.dst), TrafficClass: 2, HopLimit: 64}
		b := make([]byte, GRHLen)
		for i := range b {
			b[i] = 0xee
		}
		PutGRH(b, &d, 40)
		if got := hex.EncodeToString(b); got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.src, got, c.want)
		}
		src, dst, tclass, hop, err := ParseGRH(b)
		if src != d.Src.Unmap() || dst != d.Dst || tclass != 2 || hop != 64 || err != nil {
			t.Errorf("%s: parsed %v, %v, %d, %d, %v", c.src, src, dst, tclass, hop, err)
		}
		for n := range GRHLen {
			if _, _, _, _, err := ParseGRH(b[:n]); !errors.Is(err, ErrTruncated) {
				t.Errorf("%d bytes: %v", n, err)
			}
		}
	}
}

// TestParseGRHForm: the bytes of one form may look like the version of the other.
func TestParseGRHForm(t *testing.T) {
	v4 := make([]byte, GRHLen)
	PutGRH(v4, &Datagram{Src: netip.MustParseAddr("10.0.0.1"), Dst: netip.MustParseAddr("10.0.0.2")}, 40)
	v4[0] = 0x60 // leftover bytes before the IPv4 header
	if src, _, _, _, err := ParseGRH(v4); err != nil || !src.Is4() {
		t.Errorf("IPv4 form behind leftover bytes: %v, %v", src, err)
	}
	v6 := make([]byte, GRHLen)
	want := netip.MustParseAddr("2001:db8::4500:1") // 0x45 where the IPv4 version would be
	PutGRH(v6, &Datagram{Src: want, Dst: netip.MustParseAddr("2001:db8::2")}, 40)
	if src, _, _, _, err := ParseGRH(v6); err != nil || src != want {
		t.Errorf("IPv6 form with an address byte 0x45: %v, %v", src, err)
	}
	if _, _, _, _, err := ParseGRH(make([]byte, GRHLen)); !errors.Is(err, ErrGRH) {
		t.Errorf("all zeros: %v", err)
	}
}
