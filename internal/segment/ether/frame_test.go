package ether

import (
	"encoding/binary"
	"math/rand/v2"
	"net"
	"testing"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
)

// shape says what a frame of a test has.
type shape struct {
	vlans, options, payload, padding int
	six, udp                         bool
	hopByHop, destination            bool
	fragment                         uint16 // of IPv4: the offset in units of 8 bytes
	more                             bool
}

func randomShape(r *rand.Rand) shape {
	s := shape{
		vlans: r.IntN(4), options: r.IntN(11), payload: r.IntN(200), padding: r.IntN(2) * r.IntN(40),
		six: r.IntN(2) == 0, udp: r.IntN(2) == 0, hopByHop: r.IntN(3) == 0, destination: r.IntN(3) == 0,
	}
	if r.IntN(4) == 0 {
		s.fragment, s.more = uint16(r.IntN(3)), r.IntN(2) == 0
	}
	return s
}

// build lets gopacket make a frame.
func build(t testing.TB, r *rand.Rand, s shape) []byte {
	t.Helper()
	some := func(n int) []byte {
		b := make([]byte, n)
		for i := range b {
			b[i] = byte(r.Uint32())
		}
		return b
	}
	var stack []gopacket.SerializableLayer
	ip := layers.EthernetTypeIPv4
	if s.six {
		ip = layers.EthernetTypeIPv6
	}
	types := []layers.EthernetType{ip}
	for range s.vlans {
		types = append(types, layers.EthernetTypeDot1Q)
	}
	stack = append(stack, &layers.Ethernet{DstMAC: some(6), SrcMAC: some(6), EthernetType: types[s.vlans]})
	for i := range s.vlans {
		stack = append(stack, &layers.Dot1Q{VLANIdentifier: uint16(r.IntN(4096)), Priority: uint8(r.IntN(8)), Type: types[s.vlans-1-i]})
	}
	proto := layers.IPProtocolTCP
	if s.udp {
		proto = layers.IPProtocolUDP
	}
	var network gopacket.NetworkLayer
	if s.six {
		h := &layers.IPv6{
			Version: 6, SrcIP: net.IP(some(16)), DstIP: net.IP(some(16)), NextHeader: proto, HopLimit: uint8(r.Uint32()),
			TrafficClass: uint8(r.Uint32()), FlowLabel: r.Uint32() & 0xfffff,
		}
		stack, network = append(stack, h), h
		next := &h.NextHeader
		if s.hopByHop {
			x := &layers.IPv6HopByHop{Options: []*layers.IPv6HopByHopOption{{OptionType: 1, OptionData: make([]byte, 4)}}}
			x.NextHeader, *next, next = proto, layers.IPProtocolIPv6HopByHop, &x.NextHeader
			stack = append(stack, x)
		}
		if s.destination {
			x := &layers.IPv6Destination{Options: []*layers.IPv6DestinationOption{{OptionType: 1, OptionData: make([]byte, 12)}}}
			x.NextHeader, *next = proto, layers.IPProtocolIPv6Destination
			stack = append(stack, x)
		}
	} else {
		h := &layers.IPv4{
			Version: 4, SrcIP: net.IP(some(4)), DstIP: net.IP(some(4)), Protocol: proto, TTL: uint8(r.Uint32()), TOS: uint8(r.Uint32()),
			Id: uint16(r.Uint32()), FragOffset: s.fragment,
		}
		if s.more {
			h.Flags = layers.IPv4MoreFragments
		}
		for range s.options {
			h.Options = append(h.Options, layers.IPv4Option{OptionType: 1, OptionLength: 1})
		}
		stack, network = append(stack, h), h
	}
	if s.udp {
		h := &layers.UDP{SrcPort: layers.UDPPort(r.Uint32()), DstPort: layers.UDPPort(r.Uint32())}
		must(t, h.SetNetworkLayerForChecksum(network))
		stack = append(stack, h)
	} else {
		h := &layers.TCP{
			SrcPort: layers.TCPPort(r.Uint32()), DstPort: layers.TCPPort(r.Uint32()), Seq: r.Uint32(), Window: uint16(r.Uint32()),
			ACK: true, PSH: true, FIN: r.IntN(2) == 0, CWR: r.IntN(2) == 0,
		}
		must(t, h.SetNetworkLayerForChecksum(network))
		stack = append(stack, h)
	}
	stack = append(stack, gopacket.Payload(some(s.payload)))
	buf := gopacket.NewSerializeBuffer()
	must(t, gopacket.SerializeLayers(buf, gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true}, stack...))
	return append(append([]byte(nil), buf.Bytes()...), some(s.padding)...)
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// compare asks gopacket what a frame has. whole is false for frames that gopacket finds wrong.
func compare(t testing.TB, b []byte, whole bool) {
	t.Helper()
	f := Parse(b)
	p := gopacket.NewPacket(b, layers.LayerTypeEthernet, gopacket.DecodeOptions{NoCopy: true})
	vlans := 0
	for _, l := range p.Layers() {
		d, ok := l.(*layers.Dot1Q)
		if !ok {
			continue
		}
		tci := uint16(d.Priority)<<13 | d.VLANIdentifier
		if d.DropEligible {
			tci |= 1 << 12
		}
		if vlans == 0 && f.VLAN != tci {
			t.Errorf("VLAN %#x, gopacket has %#x", f.VLAN, tci)
		}
		vlans++
	}
	if f.VLANs != min(vlans, maxVLANs) && whole {
		t.Errorf("%d tags, gopacket has %d", f.VLANs, vlans)
	}
	switch n := p.NetworkLayer().(type) {
	case *layers.IPv4:
		if f.Version != 4 || f.Proto != uint8(n.Protocol) || f.Data[f.IP+8] != n.TTL {
			t.Errorf("%+v, gopacket has %+v", f, n)
		}
		if got := f.Data[f.IP:f.End]; len(got) != int(n.Length) {
			t.Errorf("%d bytes of IP, gopacket has %d", len(got), n.Length)
		}
	case *layers.IPv6:
		if f.Version != 6 || len(f.Data[f.IP:f.End]) != int(n.Length)+ipv6Size {
			t.Errorf("%+v, gopacket has %+v", f, n)
		}
	default:
		if whole {
			t.Errorf("gopacket finds no IP in % x", b)
		}
	}
	tl := p.TransportLayer()
	if tl == nil {
		if f.L4 != 0 && whole {
			t.Errorf("%+v has ports, by gopacket it has none: %v", f, p)
		}
		return
	}
	src, dst := tl.TransportFlow().Endpoints()
	if f.L4 == 0 {
		t.Errorf("no ports in %+v, gopacket has %v", f, p)
		return
	}
	if got := b[f.L4:]; binary.BigEndian.Uint16(got) != binary.BigEndian.Uint16(src.Raw()) || binary.BigEndian.Uint16(got[2:]) != binary.BigEndian.Uint16(dst.Raw()) {
		t.Errorf("ports % x, gopacket has %v", got[:4], tl.TransportFlow())
	}
}

func TestParse(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 49))
	for range 3000 {
		s := randomShape(r)
		b := build(t, r, s)
		compare(t, b, true)
		if t.Failed() {
			t.Fatalf("%+v: % x", s, b)
		}
	}
}

// Fragments have no ports: only one of a packet's fragments could have them.
func TestFragments(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 49))
	for _, s := range []shape{{fragment: 3}, {more: true}, {fragment: 1, more: true}} {
		f := Parse(build(t, r, s))
		if !f.Fragment || f.L4 != 0 || f.Proto != ProtoTCP {
			t.Errorf("%+v: %+v", s, f)
		}
	}
	b := build(t, r, shape{six: true, udp: true})
	fragmented := func(part uint16) Frame {
		x := append([]byte(nil), b[:HeaderSize+ipv6Size]...)
		x[HeaderSize+6] = extFragment
		binary.BigEndian.PutUint16(x[HeaderSize+4:], binary.BigEndian.Uint16(x[HeaderSize+4:])+8)
		x = append(x, ProtoUDP, 0)
		x = binary.BigEndian.AppendUint16(x, part)
		x = append(x, 1, 2, 3, 4)
		return Parse(append(x, b[HeaderSize+ipv6Size:]...))
	}
	if f := fragmented(0); f.Fragment || f.L4 == 0 {
		t.Errorf("a fragment that is the whole packet: %+v", f)
	}
	for _, part := range []uint16{1, 8, 9} {
		if f := fragmented(part); !f.Fragment || f.L4 != 0 || f.Proto != ProtoUDP {
			t.Errorf("%d: %+v", part, f)
		}
	}
}

// Lies in lengths, and frames that end early.
func TestLies(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 49))
	v4 := build(t, r, shape{udp: true, payload: 30})
	v6 := build(t, r, shape{six: true, udp: true, payload: 30, hopByHop: true})
	change := func(b []byte, at int, v byte) Frame {
		b = append([]byte(nil), b...)
		b[at] = v
		return Parse(b)
	}
	for _, c := range []struct {
		what                string
		f                   Frame
		version             uint8
		short, l4, checksum bool
	}{
		{"as it was", Parse(v4), 4, false, true, true},
		{"IHL 4", change(v4, HeaderSize, 0x44), 0, false, false, false},
		{"IHL 15, beyond the packet", change(v4, HeaderSize, 0x4f), 0, false, false, false},
		{"version 5", change(v4, HeaderSize, 0x55), 0, false, false, false},
		{"total length beyond the frame", change(v4, HeaderSize+2, 1), 4, true, true, false},
		{"total length below the header", change(v4, HeaderSize+3, 19), 0, false, false, false},
		{"total length without all of UDP", change(v4, HeaderSize+3, 27), 4, false, false, false},
		{"UDP length 7", change(v4, HeaderSize+ipv4Size+5, 7), 4, false, true, false},
		{"UDP length beyond the packet", change(v4, HeaderSize+ipv4Size+5, 39), 4, false, true, false},
		{"IPv6 as it was", Parse(v6), 6, false, true, true},
		{"payload length 0", change(v6, HeaderSize+5, 0), 6, false, false, false},
		{"payload length beyond the frame", change(v6, HeaderSize+4, 1), 6, true, true, false},
		{"an extension beyond the packet", change(v6, HeaderSize+ipv6Size+1, 9), 6, false, false, false},
		{"an unknown extension", change(v6, HeaderSize+6, 200), 6, false, false, false},
	} {
		_, l4 := c.f.Sums()
		if c.f.Version != c.version || c.f.Short != c.short || c.f.L4 > 0 != c.l4 || l4 != c.checksum {
			t.Errorf("%s: version %d, short %v, ports at %d, checksum %v", c.what, c.f.Version, c.f.Short, c.f.L4, l4)
		}
	}
	for _, b := range [][]byte{v4, v6} {
		for n := range b {
			f := Parse(b[:n])
			if f.L4 > n || f.End > n || n < HeaderSize && f.EtherType != 0 {
				t.Errorf("%d bytes: %+v", n, f)
			}
		}
	}
}

// Each function takes any bytes. Where gopacket finds nothing wrong, both see the same.
func FuzzParse(f *testing.F) {
	r := rand.New(rand.NewPCG(4, 49))
	for range 40 {
		f.Add(build(f, r, randomShape(r)))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		x := Parse(b)
		if x.IP > len(b) || x.L4 > x.End || x.End > len(b) {
			t.Fatalf("%+v", x)
		}
		rss := RSS{Fields: HashAll}
		_ = rss.Hash(&x)
		keyOf(&x)
		c := append([]byte(nil), b...)
		s := Parse(c)
		s.SetSums(true, true)
		s = Parse(c)
		ip, l4 := s.Sums()
		if _, _, whole := s.l4(); s.Version != 0 && !ip || l4 != whole {
			t.Errorf("checksums that SetSums wrote: %v %v of % x", ip, l4, c)
		}
		if got := AppendVLAN(nil, c, 7); len(c) >= HeaderSize {
			if v := Parse(got); string(got[:12]) != string(c[:12]) || string(got[16:]) != string(c[12:]) || !v.Tagged || v.VLAN != 7 {
				t.Errorf("% x is % x with a tag", c, got)
			}
		}
		if seq, err := Segments(b, min(len(b), 54), 100, make([]byte, 200)); err == nil {
			for range seq {
			}
		}
	})
}
