package ether

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
)

// gopacket's checksums are right, a changed byte makes them wrong, and SetSums makes them right
// again.
func TestSums(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 49))
	for range 2000 {
		s := randomShape(r)
		s.fragment, s.more = 0, false
		b := build(t, r, s)
		f := Parse(b)
		if ip, l4 := f.Sums(); !ip || !l4 {
			t.Fatalf("%+v: %v %v", s, ip, l4)
		}
		want := append([]byte(nil), b...)
		if f.Version == 4 {
			b[f.IP+8] ^= 0x10 // the time to live
			if ip, l4 := f.Sums(); ip || !l4 {
				t.Fatalf("%+v with another TTL: %v %v", s, ip, l4)
			}
			b[f.IP+8] ^= 0x10
			b[f.IP+10]++
		}
		b[f.L4+1] ^= 4
		if _, l4 := f.Sums(); l4 {
			t.Fatalf("%+v with another port is right", s)
		}
		b[f.L4+1] ^= 4
		at := f.L4 + 16
		if s.udp {
			at = f.L4 + 6
		}
		b[at] ^= 0xff
		f.SetSums(false, false)
		if bytes.Equal(b, want) {
			t.Fatal("a checksum that nobody asked for")
		}
		if f.SetSums(true, true); !bytes.Equal(b, want) {
			t.Fatalf("%+v: % x, want % x", s, b, want)
		}
	}
}

// UDP may have no checksum over IPv4, and has to have one over IPv6.
func TestNoSum(t *testing.T) {
	r := rand.New(rand.NewPCG(6, 49))
	for _, six := range []bool{false, true} {
		f := Parse(build(t, r, shape{udp: true, six: six}))
		binary.BigEndian.PutUint16(f.Data[f.L4+6:], 0)
		if _, l4 := f.Sums(); l4 == six {
			t.Errorf("IPv6 %v: %v", six, l4)
		}
	}
}

// A sum of 0 is sent as 0xffff by UDP.
func TestSumZero(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 49))
	f := Parse(build(t, r, shape{udp: true, payload: 2}))
	// The payload takes the checksum to 0.
	sum := binary.BigEndian.Uint16(f.Data[f.L4+6:])
	at := f.L4 + udpSize
	total := uint32(sum) + uint32(binary.BigEndian.Uint16(f.Data[at:]))
	binary.BigEndian.PutUint16(f.Data[at:], uint16(total>>16+total))
	f.SetSums(true, true)
	if got := binary.BigEndian.Uint16(f.Data[f.L4+6:]); got != 0xffff {
		t.Errorf("%#x", got)
	}
	if _, ok := f.Sums(); !ok {
		t.Error("it is wrong")
	}
}

func TestVLAN(t *testing.T) {
	r := rand.New(rand.NewPCG(8, 49))
	for range 200 {
		s := randomShape(r)
		s.vlans = 0
		b := build(t, r, s)
		tagged := AppendVLAN(nil, b, 0xa123)
		if f := Parse(tagged); !f.Tagged || f.VLAN != 0xa123 || f.VLANs != 1 {
			t.Fatalf("%+v", f)
		}
		compare(t, tagged, true)
		if !bytes.Equal(tagged[:12], b[:12]) || !bytes.Equal(tagged[16:], b[12:]) {
			t.Fatalf("% x is % x with a tag", b, tagged)
		}
	}
	if got := AppendVLAN(nil, []byte{1, 2}, 3); !bytes.Equal(got, []byte{1, 2}) {
		t.Errorf("% x", got)
	}
	outer := AppendVLAN(nil, make([]byte, HeaderSize), 5)
	binary.BigEndian.PutUint16(outer[12:], typeSTag)
	if f := Parse(outer); f.Tagged || f.VLANs != 1 {
		t.Errorf("%+v", f)
	}
}

// The segments together have the payload, in order, and gopacket agrees with each header.
func TestSegments(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 49))
	for range 300 {
		s := randomShape(r)
		s.udp, s.fragment, s.more, s.padding, s.payload = false, 0, false, 0, r.IntN(5000)
		b := build(t, r, s)
		f := Parse(b)
		headers, mss := f.L4+tcpSize, 1+r.IntN(1500)
		if r.IntN(2) == 0 {
			clear(b[f.IP+2+int(f.Version/6*2) : f.IP+4+int(f.Version/6*2)]) // the length
		}
		seq, err := Segments(b, headers, mss, make([]byte, headers+mss))
		must(t, err)
		var payload []byte
		n := 0
		for out := range seq {
			checkSegment(t, b, &f, out, n, len(payload), len(payload)+len(out)-headers == len(b)-headers)
			payload = append(payload, out[headers:]...)
			n++
		}
		if !bytes.Equal(payload, b[headers:]) || n != max(1, (len(payload)+mss-1)/mss) {
			t.Fatalf("%d bytes in %d segments of %d", len(payload), n, mss)
		}
	}
}

func checkSegment(t *testing.T, b []byte, f *Frame, out []byte, n, before int, last bool) {
	t.Helper()
	p := gopacket.NewPacket(out, layers.LayerTypeEthernet, gopacket.Default)
	if p.ErrorLayer() != nil {
		t.Fatal(p.ErrorLayer().Error())
	}
	tcp := p.TransportLayer().(*layers.TCP)
	head := b[f.L4:]
	fin, cwr := head[13]&tcpFIN != 0, head[13]&tcpCWR != 0
	if tcp.Seq != binary.BigEndian.Uint32(head[4:])+uint32(before) || tcp.PSH != last || tcp.FIN != (last && fin) || tcp.CWR != (n == 0 && cwr) || !tcp.ACK {
		t.Fatalf("segment %d (last %v): %+v", n, last, tcp)
	}
	if v4, ok := p.NetworkLayer().(*layers.IPv4); ok && (v4.Id != binary.BigEndian.Uint16(b[f.IP+4:])+uint16(n) || int(v4.Length) != len(out)-f.IP) {
		t.Fatalf("segment %d: %+v", n, v4)
	}
	x := Parse(out)
	if ip, l4 := x.Sums(); !ip || !l4 {
		t.Fatalf("segment %d: checksums %v %v", n, ip, l4)
	}
}

func TestSegmentsRefused(t *testing.T) {
	r := rand.New(rand.NewPCG(10, 49))
	tcp := build(t, r, shape{payload: 100})
	udp := build(t, r, shape{udp: true, payload: 100})
	const headers = HeaderSize + ipv4Size + tcpSize
	for _, c := range []struct {
		what              string
		b                 []byte
		headers, mss, buf int
	}{
		{"UDP", udp, HeaderSize + ipv4Size + udpSize, 10, 100},
		{"headers too short", tcp, headers - 4, 10, 100},
		{"headers too long", tcp, headers + 4, 10, 100},
		{"headers beyond the frame", tcp[:headers], headers + 1, 10, 100},
		{"no headers", tcp, 0, 10, 100},
		{"no segment size", tcp, headers, 0, 100},
		{"a small buffer", tcp, headers, 80, headers + 79},
		{"no IP", make([]byte, 100), headers, 10, 100},
	} {
		if _, err := Segments(c.b, c.headers, c.mss, make([]byte, c.buf)); !errors.Is(err, errSegments) {
			t.Errorf("%s: %v", c.what, err)
		}
	}
	if _, err := Segments(tcp, headers, 80, make([]byte, headers+80)); err != nil {
		t.Error(err)
	}
}
