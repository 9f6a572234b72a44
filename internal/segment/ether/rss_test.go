package ether

import (
	"encoding/binary"
	"math/rand/v2"
	"net/netip"
	"testing"
)

// The key and the vectors of Microsoft's "Verifying the RSS Hash Calculation".
var microsoftKey = [HashKeySize]byte{
	0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67, 0x25, 0x3d, 0x43, 0xa3, 0x8f, 0xb0,
	0xd0, 0xca, 0x2b, 0xcb, 0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3, 0x80, 0x30, 0xf2, 0x0c,
	0x6a, 0x42, 0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa,
}

func tcpFrame(src, dst netip.AddrPort) Frame {
	b := make([]byte, HeaderSize)
	if src.Addr().Is4() {
		b = append(b, 0x45, 0, 0, ipv4Size+tcpSize, 0, 0, 0, 0, 64, ProtoTCP, 0, 0)
		binary.BigEndian.PutUint16(b[12:], TypeIPv4)
	} else {
		b = append(b, 0x60, 0, 0, 0, 0, tcpSize, ProtoTCP, 64)
		binary.BigEndian.PutUint16(b[12:], TypeIPv6)
	}
	b = append(append(b, src.Addr().AsSlice()...), dst.Addr().AsSlice()...)
	b = binary.BigEndian.AppendUint16(b, src.Port())
	b = binary.BigEndian.AppendUint16(b, dst.Port())
	return Parse(append(b, make([]byte, tcpSize-4)...))
}

func TestMicrosoft(t *testing.T) {
	for _, c := range []struct {
		dst, src   string
		addrs, all uint32
	}{
		{"161.142.100.80:1766", "66.9.149.187:2794", 0x323e8fc2, 0x51ccc178},
		{"65.69.140.83:4739", "199.92.111.2:14230", 0xd718262a, 0xc626b0ea},
		{"12.22.207.184:38024", "24.19.198.95:12898", 0xd2d0a5de, 0x5c2b394a},
		{"209.142.163.6:2217", "38.27.205.30:48228", 0x82989176, 0xafc7327f},
		{"202.188.127.2:1303", "153.39.163.191:44251", 0x5d1809c5, 0x10e828a2},
		{"[3ffe:2501:200:3::1]:1766", "[3ffe:2501:200:1fff::7]:2794", 0x2cc18cd5, 0x40207d3d},
		{"[ff02::1]:4739", "[3ffe:501:8::260:97ff:fe40:efab]:14230", 0x0f0c461c, 0xdde51bbf},
		{"[fe80::200:f8ff:fe21:67cf]:38024", "[3ffe:1900:4545:3:200:f8ff:fe21:67cf]:44251", 0x4b61e985, 0x02d1feef},
	} {
		f := tcpFrame(netip.MustParseAddrPort(c.src), netip.MustParseAddrPort(c.dst))
		addrs := RSS{Key: microsoftKey, Fields: HashSrcIPv4 | HashDstIPv4}
		if f.Version == 6 {
			addrs.Fields = HashSrcIPv6 | HashDstIPv6
		}
		all := addrs
		all.Fields |= HashSrcTCP | HashDstTCP
		if got := addrs.Hash(&f); got != c.addrs {
			t.Errorf("%s to %s: %#x, want %#x", c.src, c.dst, got, c.addrs)
		}
		if got := all.Hash(&f); got != c.all {
			t.Errorf("%s to %s with ports: %#x, want %#x", c.src, c.dst, got, c.all)
		}
		if got := all.Index(&f, 8); got != int(c.all&7) {
			t.Errorf("%s to %s: place %d of 8", c.src, c.dst, got)
		}
		udp := addrs
		udp.Fields |= HashSrcUDP | HashDstUDP
		if got := udp.Hash(&f); got != c.addrs {
			t.Errorf("%s to %s: ports of TCP were hashed for UDP", c.src, c.dst)
		}
		f.L4, f.Fragment = 0, true
		if got := all.Hash(&f); got != c.addrs {
			t.Errorf("%s to %s, a fragment: %#x, want %#x", c.src, c.dst, got, c.addrs)
		}
	}
}

// Each field changes the hash if it is asked for, and does not otherwise.
func TestHashFields(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 49))
	for _, s := range []shape{{}, {udp: true}, {six: true}, {six: true, udp: true}} {
		b := build(t, r, s)
		f := Parse(b)
		n := len(f.addresses()) / 2
		base := f.L4 - 2*n // extension headers are absent
		for bit, at := range map[HashFields]int{
			HashSrcIPv4 | HashSrcIPv6: base, HashDstIPv4 | HashDstIPv6: base + n,
			HashSrcTCP | HashSrcUDP: f.L4, HashDstTCP | HashDstUDP: f.L4 + 2,
		} {
			for _, fields := range []HashFields{bit, HashAll &^ bit} {
				rss := RSS{Key: microsoftKey, Fields: fields}
				before := rss.Hash(&f)
				b[at+1] ^= 1
				if changed := rss.Hash(&f) != before; changed != (fields == bit) {
					t.Errorf("%+v, fields %#x, byte %d: changed %v", s, fields, at, changed)
				}
				b[at+1] ^= 1
			}
		}
	}
	f := Parse(make([]byte, 60))
	if got := (&RSS{Key: microsoftKey, Fields: HashAll}).Hash(&f); got != 0 {
		t.Errorf("a frame without IP: %#x", got)
	}
}

func TestValidFields(t *testing.T) {
	for fields, want := range map[HashFields]bool{
		0: true, HashSrcIPv4 | HashDstIPv4 | HashSrcTCP: true, HashSrcUDP | HashDstUDP: true, HashDstIPv6 | HashDstTCP: true,
		HashSrcIPv4 | HashDstIPv6: false, HashSrcTCP | HashDstUDP: false, 1 << 8: false, 1 << 31: false,
	} {
		if fields.Valid() != want {
			t.Errorf("%#x: %v", fields, fields.Valid())
		}
	}
}

func BenchmarkHash(b *testing.B) {
	f := tcpFrame(netip.MustParseAddrPort("[fe80::1]:1"), netip.MustParseAddrPort("[fe80::2]:2"))
	rss := RSS{Key: microsoftKey, Fields: HashSrcIPv6 | HashDstIPv6 | HashSrcTCP | HashDstTCP}
	b.ReportAllocs()
	for b.Loop() {
		rss.Hash(&f)
	}
}
