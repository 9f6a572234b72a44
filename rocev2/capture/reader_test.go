package capture

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"io"
	"net/netip"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
	"github.com/google/gopacket/pcapgo"
	"github.com/gorxe/gorxe/wire"
)

const captures = "../../testdata/pcaps/"

// readAll returns the packets of a file, each with its own bytes, and what ended it.
func readAll(t testing.TB, file []byte) (all []Packet, end error) {
	t.Helper()
	r, err := NewReader(bytes.NewReader(file))
	if err != nil {
		return nil, err
	}
	for {
		var p Packet
		if err := r.Next(&p); err != nil {
			return all, err
		}
		p.Frame = slices.Clone(p.Frame)
		p.Decode()
		all = append(all, p)
	}
}

func mustRead(t testing.TB, file []byte) []Packet {
	t.Helper()
	all, err := readAll(t, file)
	if !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	return all
}

func sample(t testing.TB) []Packet {
	t.Helper()
	var all []Packet
	for _, name := range []string{"allops_rc_gid1.pcap", "allops_rc_gid0_v6.pcap", "udaddy.pcap"} {
		file, err := os.ReadFile(captures + name)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, mustRead(t, file)...)
	}
	return all
}

// TestAgainstGopacket: every packet is what gopacket finds in it.
func TestAgainstGopacket(t *testing.T) {
	roce := 0
	for _, p := range sample(t) {
		g := gopacket.NewPacket(p.Frame, layers.LayerTypeEthernet, gopacket.DecodeOptions{})
		udp, ok := g.Layer(layers.LayerTypeUDP).(*layers.UDP)
		if !ok || udp.DstPort != wire.UDPPort {
			if p.Kind != Other {
				t.Errorf("packet %d is %v", p.Number, p.Kind)
			}
			continue
		}
		roce++
		want := Packet{IP: IPHeader{}}
		switch ip := g.NetworkLayer().(type) {
		case *layers.IPv4:
			want.Src, _ = netip.AddrFromSlice(ip.SrcIP)
			want.Dst, _ = netip.AddrFromSlice(ip.DstIP)
			want.IP = IPHeader{
				Version: 4, HeaderLen: 20, TrafficClass: ip.TOS, HopLimit: ip.TTL, ID: ip.Id,
				DF: ip.Flags&layers.IPv4DontFragment != 0, Length: int(ip.Length), Checksum: ChecksumGood,
			}
		case *layers.IPv6:
			want.Src, _ = netip.AddrFromSlice(ip.SrcIP)
			want.Dst, _ = netip.AddrFromSlice(ip.DstIP)
			want.IP = IPHeader{
				Version: 6, HeaderLen: 40, TrafficClass: ip.TrafficClass, HopLimit: ip.HopLimit,
				FlowLabel: ip.FlowLabel, Length: 40 + int(ip.Length),
			}
		}
		if p.Kind != RoCEv2 || p.Src != want.Src || p.Dst != want.Dst || p.IP != want.IP || p.Truncated() ||
			p.UDP.SrcPort != uint16(udp.SrcPort) || p.UDP.Length != int(udp.Length) || !bytes.Equal(p.Transport, udp.Payload) {
			t.Errorf("packet %d: %+v\nwant %+v", p.Number, p, want)
		}
	}
	if roce < 300 {
		t.Errorf("%d packets", roce)
	}
}

// wrap puts the packet of a sample's Ethernet frame into another link layer.
func wrap(link LinkType, frame []byte) []byte {
	kind, ip := frame[12:14], frame[14:]
	switch link {
	case LinkLinuxSLL:
		return slices.Concat([]byte{0, 0, 0, 1, 0, 6, 2, 0, 0, 0, 0, 1, 0, 0}, kind, ip)
	case LinkLinuxSLL2:
		return slices.Concat(kind, make([]byte, 18), ip)
	case LinkNull:
		return slices.Concat([]byte{2, 0, 0, 0}, ip)
	case LinkERF:
		head := make([]byte, 16)
		head[8] = erfEthernet
		return slices.Concat(head, []byte{0, 0}, frame)
	case LinkEthernet:
		return frame
	default:
		return ip
	}
}

func vlan(frame []byte, kinds ...uint16) []byte {
	b := slices.Clone(frame[:12])
	for _, k := range kinds {
		b = binary.BigEndian.AppendUint16(b, k)
		b = append(b, 0x60, 42)
	}
	return append(b, frame[12:]...)
}

// TestLinkTypes: the reader finds the same packets in every link layer.
func TestLinkTypes(t *testing.T) {
	type form struct {
		name string
		link LinkType
		make func(frame []byte) []byte
	}
	var forms []form
	for _, link := range []LinkType{
		LinkEthernet, LinkLinuxSLL, LinkLinuxSLL2, LinkNull, LinkERF,
		LinkRaw, LinkRawBSD, LinkRawOpenBSD, LinkIPv4, LinkIPv6,
	} {
		forms = append(forms, form{link.String(), link, func(f []byte) []byte { return wrap(link, f) }})
	}
	forms = append(forms,
		form{"VLAN", LinkEthernet, func(f []byte) []byte { return vlan(f, etherVLAN) }},
		form{"QinQ", LinkEthernet, func(f []byte) []byte { return vlan(f, etherQinQ, etherVLAN) }},
		form{"padded", LinkEthernet, func(f []byte) []byte { return append(slices.Clone(f), 1, 2, 3, 4, 5, 6) }},
	)
	for _, want := range sample(t) {
		if want.Kind == Other {
			continue
		}
		for _, f := range forms {
			got := Packet{Number: want.Number, Link: f.link, Frame: f.make(want.Frame)}
			got.Length = len(got.Frame)
			got.Decode()
			if got.Kind != want.Kind || got.Src != want.Src || got.Dst != want.Dst || got.IP != want.IP || got.UDP != want.UDP ||
				!bytes.Equal(got.Transport, want.Transport) || got.TransportLen != want.TransportLen {
				t.Fatalf("%s, packet %d: %+v\nwant %+v", f.name, want.Number, got, want)
			}
			if want.Number > 30 {
				continue
			}
			for n := range got.Frame {
				cut := Packet{Link: f.link, Frame: got.Frame[:n], Length: got.Length}
				if cut.Decode(); cut.Kind != Other && !cut.Truncated() && f.name != "padded" {
					t.Fatalf("%s, packet %d: %d of %d bytes, and not cut", f.name, want.Number, n, len(got.Frame))
				}
			}
		}
	}
}

// writeForms writes frames in every form of file.
func writeForms(t *testing.T, packets []Packet) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	for _, big := range []bool{false, true} {
		for _, nano := range []bool{false, true} {
			files["pcap "+map[bool]string{false: "little", true: "big"}[big]+map[bool]string{false: " µs", true: " ns"}[nano]] = pcapFile(packets, big, nano)
		}
		files["pcapng "+map[bool]string{false: "little", true: "big"}[big]] = pcapngFile(packets, big)
	}
	var b bytes.Buffer
	ng, err := pcapgo.NewNgWriter(&b, layers.LinkTypeEthernet)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range packets {
		if err := ng.WritePacket(gopacket.CaptureInfo{Timestamp: p.Time, CaptureLength: len(p.Frame), Length: p.Length}, p.Frame); err != nil {
			t.Fatal(err)
		}
	}
	if err := ng.Flush(); err != nil {
		t.Fatal(err)
	}
	files["pcapng of pcapgo"] = b.Bytes()
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	if _, err := z.Write(b.Bytes()); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	files["gzip"] = zipped.Bytes()
	return files
}

// byteOrder is the byte order of a file.
type byteOrder interface {
	binary.ByteOrder
	binary.AppendByteOrder
}

func orderOf(big bool) byteOrder {
	if big {
		return binary.BigEndian
	}
	return binary.LittleEndian
}

func pcapFile(packets []Packet, big, nano bool) []byte {
	o := orderOf(big)
	magic, unit := uint32(0xa1b2c3d4), 1000
	if nano {
		magic, unit = 0xa1b23c4d, 1
	}
	b := o.AppendUint32(nil, magic)
	b = o.AppendUint16(b, 2)
	b = o.AppendUint16(b, 4)
	for _, v := range []uint32{0, 0, 65535, uint32(LinkEthernet)} {
		b = o.AppendUint32(b, v)
	}
	for _, p := range packets {
		for _, v := range []int{int(p.Time.Unix()), p.Time.Nanosecond() / unit, len(p.Frame), p.Length} {
			b = o.AppendUint32(b, uint32(v))
		}
		b = append(b, p.Frame...)
	}
	return b
}

// pcapngFile has all parts of the format that matter: an interface with another clock,
// unknown block types, statistics, and a second section.
func pcapngFile(packets []Packet, big bool) []byte {
	o := orderOf(big)
	var b []byte
	block := func(kind uint32, body []byte) {
		for len(body)%4 != 0 {
			body = append(body, 0)
		}
		b = o.AppendUint32(b, kind)
		b = o.AppendUint32(b, uint32(12+len(body)))
		b = append(b, body...)
		b = o.AppendUint32(b, uint32(12+len(body)))
	}
	begin := func() {
		head := o.AppendUint32(nil, 0x1a2b3c4d)
		head = o.AppendUint32(head, o.Uint32([]byte{0, 1, 0, 0}))
		block(blockSection, append(head, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff))
		for _, resol := range []byte{9, 0x80 | 30} {
			i := o.AppendUint16(nil, uint16(LinkEthernet))
			i = o.AppendUint16(i, 0)
			i = o.AppendUint32(i, 0)
			i = o.AppendUint16(i, optionTSResol)
			i = o.AppendUint16(i, 1)
			block(blockInterface, append(i, resol, 0, 0, 0, 0, 0, 0, 0))
		}
	}
	begin()
	for n, p := range packets {
		if n == len(packets)/2 {
			begin()
		}
		if n%50 == 0 {
			block(0x0bad, make([]byte, 400000)) // more than the buffer
		}
		id, ticks := uint32(n%2), uint64(p.Time.UnixNano())
		if id == 1 {
			ticks = uint64(p.Time.Unix())<<30 | (uint64(p.Time.Nanosecond())<<30+1e9-1)/1e9
		}
		var e []byte
		for _, v := range []uint32{id, uint32(ticks >> 32), uint32(ticks), uint32(len(p.Frame)), uint32(p.Length)} {
			e = o.AppendUint32(e, v)
		}
		block(blockEnhanced, append(e, p.Frame...))
	}
	s := o.AppendUint32(nil, 0)
	s = append(s, make([]byte, 8)...)
	s = o.AppendUint16(s, optionIfDrop)
	s = o.AppendUint16(s, 8)
	block(blockStatistics, o.AppendUint64(s, 5))
	return b
}

// TestFormats: the reader finds the same packets in every form of file.
func TestFormats(t *testing.T) {
	want := sample(t)
	for name, file := range writeForms(t, want) {
		got := mustRead(t, file)
		if len(got) != len(want) {
			t.Fatalf("%s: %d packets, want %d", name, len(got), len(want))
		}
		for i := range got {
			g, w := &got[i], &want[i]
			if g.Number != i+1 || !bytes.Equal(g.Frame, w.Frame) || g.Length != w.Length || g.Link != LinkEthernet {
				t.Fatalf("%s: packet %d is %+v", name, i+1, g)
			}
			if d := g.Time.Sub(w.Time); d < -time.Microsecond || d > time.Microsecond {
				t.Fatalf("%s: packet %d at %v, want %v", name, i+1, g.Time, w.Time)
			}
		}
	}
	r, err := NewReader(bytes.NewReader(pcapngFile(want[:2], false)))
	if err != nil {
		t.Fatal(err)
	}
	for err == nil {
		err = r.Next(new(Packet))
	}
	if r.Drops() != 5 || r.Offset() == 0 {
		t.Errorf("%d drops, want 5", r.Drops())
	}
}

// TestCut: if a file is cut anywhere, all whole packets before that are read.
func TestCut(t *testing.T) {
	packets := sample(t)[:6]
	for name, file := range writeForms(t, packets) {
		step := 1
		if len(file) > 100000 {
			step = 9973
		}
		last := 0
		for n := 0; n < len(file); n += step {
			all, err := readAll(t, file[:n])
			if err == nil || len(all) < last || len(all) > len(packets) {
				t.Fatalf("%s, %d of %d bytes: %d packets, %v", name, n, len(file), len(all), err)
			}
			if last = len(all); !errors.Is(err, io.EOF) && !errors.Is(err, ErrCut) && !errors.Is(err, ErrFormat) {
				t.Fatalf("%s, %d of %d bytes: %v", name, n, len(file), err)
			}
		}
	}
}

// TestNotCaptures: other files are refused, with the reason.
func TestNotCaptures(t *testing.T) {
	for _, file := range []string{"", "x", "#!/bin/sh\necho a shell script of some length", "\x1f\x8bno gzip at all", "\n\r\r\n\x1c\x00\x00\x00neither"} {
		if _, err := readAll(t, []byte(file)); !errors.Is(err, ErrFormat) {
			t.Errorf("%q: %v", file, err)
		}
	}
	huge := pcapFile(sample(t)[:1], false, false)
	binary.LittleEndian.PutUint32(huge[pcapHeaderLen+8:], 1<<31)
	if _, err := readAll(t, huge); !errors.Is(err, ErrFormat) {
		t.Errorf("a packet of 2 GB: %v", err)
	}
}

// TestAllocations: a packet costs no allocation.
func TestAllocations(t *testing.T) {
	var long []Packet
	for one := sample(t); len(long) < 5000; {
		long = append(long, one...)
	}
	for name, file := range writeForms(t, long) {
		if name == "gzip" {
			continue
		}
		r, err := NewReader(bytes.NewReader(file))
		if err != nil {
			t.Fatal(err)
		}
		var p Packet
		if n := testing.AllocsPerRun(1000, func() {
			if err := r.Next(&p); err != nil {
				t.Fatal(err)
			}
		}); n > 0 {
			t.Errorf("%s: %v allocations for a packet", name, n)
		}
	}
}

// FuzzReader: no file makes the reader panic, or keep more than a buffer.
func FuzzReader(f *testing.F) {
	packets := sample(f)[:5]
	f.Add(pcapFile(packets, false, false))
	f.Add(pcapFile(packets, true, true))
	f.Add(pcapngFile(packets[:2], false))
	f.Add(pcapngFile(packets[:2], true))
	f.Fuzz(func(t *testing.T, file []byte) {
		r, err := NewReader(bytes.NewReader(file))
		if err != nil {
			return
		}
		var p Packet
		for r.Next(&p) == nil {
			if p.Truncated() != (len(p.Transport) < p.TransportLen) || len(p.Frame) > p.Length || len(p.Transport) > len(p.Frame) {
				t.Fatalf("%+v", p)
			}
		}
		if len(r.buf) > maxFrame+bufferSize {
			t.Fatalf("a buffer of %d bytes", len(r.buf))
		}
	})
}

// BenchmarkReader reads packets of 1 KiB, with this package and with pcapgo.
func BenchmarkReader(b *testing.B) {
	frame := sample(b)[20].Frame
	packets := make([]Packet, 50000)
	for i := range packets {
		packets[i] = Packet{Time: time.Unix(1e9, int64(i)), Frame: append(slices.Clone(frame[:58]), make([]byte, 1024)...), Length: 1082}
	}
	file := pcapFile(packets, false, false)
	b.Run("capture", func(b *testing.B) {
		b.ReportAllocs()
		for n := 0; n < b.N; {
			r, err := NewReader(bytes.NewReader(file))
			if err != nil {
				b.Fatal(err)
			}
			var p Packet
			for ; n < b.N && r.Next(&p) == nil; n++ {
			}
		}
	})
	b.Run("pcapgo", func(b *testing.B) {
		b.ReportAllocs()
		for n := 0; n < b.N; {
			r, err := pcapgo.NewReader(bytes.NewReader(file))
			if err != nil {
				b.Fatal(err)
			}
			for ; n < b.N; n++ {
				if _, _, err := r.ZeroCopyReadPacketData(); err != nil {
					break
				}
			}
		}
	})
}
