package conformance

import (
	"bytes"
	"encoding/binary"
	"slices"
	"testing"
	"time"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
	"github.com/google/gopacket/pcapgo"
	"github.com/gorxe/gorxe/rocev2/capture"
	"github.com/gorxe/gorxe/wire"
)

// The same conversation over the networks that share RoCEv2's transport.

// grhOf returns the GRH of a packet of a scene.
func grhOf(p *scenePacket, length int) []byte {
	src, dst := sceneA.As16(), sceneB.As16()
	if p.fromB {
		src, dst = dst, src
	}
	b := make([]byte, wire.GRHLen)
	b[0], b[6], b[7] = 0x60, 0x1b, 64
	binary.BigEndian.PutUint16(b[4:], uint16(length))
	copy(b[8:], src[:])
	copy(b[24:], dst[:])
	return b
}

func (p *scenePacket) transport() []byte {
	b := append(p.headers.Append(nil), p.payload...)
	return append(b, make([]byte, p.headers.Pad)...)
}

func withICRC(network, body []byte) []byte {
	sum, ok := wire.ICRCNative(network, body)
	if !ok {
		panic("no ICRC")
	}
	return binary.LittleEndian.AppendUint32(slices.Concat(network, body), sum)
}

// rocev1File is a clean conversation in RoCEv1: a GRH after ethertype 0x8915.
func rocev1File(t testing.TB) []byte {
	return framesFile(t, layers.LinkTypeEthernet, func(p *scenePacket) []byte {
		body := p.transport()
		b := withICRC(grhOf(p, len(body)+wire.ICRCLen), body)
		return slices.Concat([]byte{2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x89, 0x15}, b)
	})
}

// erfFile is one in native InfiniBand, as Endace's cards record it.
func erfFile(t testing.TB) []byte {
	return framesFile(t, layers.LinkType(capture.LinkERF), func(p *scenePacket) []byte {
		b := infiniBandPacket(p, false)
		head := make([]byte, 16)
		head[8] = 21
		binary.BigEndian.PutUint16(head[10:], uint16(len(head)+len(b)))
		binary.BigEndian.PutUint16(head[14:], uint16(len(b)))
		return slices.Concat(head, b)
	})
}

// infiniBandPacket is a packet from LRH through VCRC.
func infiniBandPacket(p *scenePacket, global bool) []byte {
	body := p.transport()
	lrh := []byte{0x00, 0x02, 0, 2, 0, 0, 0, 1}
	if p.fromB {
		lrh[3], lrh[7] = 1, 2
	}
	network := lrh
	if global {
		lrh[1] = 3
		network = slices.Concat(lrh, grhOf(p, len(body)+wire.ICRCLen))
	}
	binary.BigEndian.PutUint16(network[4:], uint16((len(network)+len(body)+wire.ICRCLen)/4))
	return append(withICRC(network, body), 0xab, 0xcd)
}

func framesFile(t testing.TB, link layers.LinkType, frame func(p *scenePacket) []byte) []byte {
	return packetsFile(t, link, brokenScene(func(*scene) {}).packets, frame)
}

func packetsFile(t testing.TB, link layers.LinkType, packets []*scenePacket, frame func(p *scenePacket) []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w := pcapgo.NewWriterNanos(&b)
	if err := w.WriteFileHeader(65535, link); err != nil {
		t.Fatal(err)
	}
	for _, p := range packets {
		f := frame(p)
		ci := gopacket.CaptureInfo{Timestamp: time.Unix(1700000000, 0).Add(p.at), CaptureLength: len(f), Length: len(f)}
		if err := w.WritePacket(ci, f); err != nil {
			t.Fatal(err)
		}
	}
	return b.Bytes()
}

// TestOtherNetworks: RoCEv1 and InfiniBand are decoded and judged alike.
func TestOtherNetworks(t *testing.T) {
	files := map[string][]byte{
		"RoCEv1":                rocev1File(t),
		"ERF":                   erfFile(t),
		"InfiniBand":            framesFile(t, layers.LinkType(capture.LinkInfiniBand), func(p *scenePacket) []byte { return infiniBandPacket(p, false) }),
		"InfiniBand with a GRH": framesFile(t, layers.LinkType(capture.LinkInfiniBand), func(p *scenePacket) []byte { return infiniBandPacket(p, true) }),
	}
	for name, file := range files {
		r, err := Check(bytes.NewReader(file), Options{})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if len(r.Findings) > 0 || len(r.Flows) != 2 || r.Flows[0].Peer != r.Flows[1] || r.RoCEv1+r.InfiniBand != r.Packets {
			t.Errorf("%s: %d packets, %d flows, findings %v", name, r.Packets, len(r.Flows), r.Findings)
		}
		file[len(file)-8] ^= 4 // in the last packet
		if r, err = Check(bytes.NewReader(file), Options{}); err != nil || r.Of("icrc").Violations != 1 {
			t.Errorf("%s: the damaged packet was not found: %v, %v", name, err, r.Findings)
		}
	}
}

// TestSubnetManagement: an InfiniBand network is managed through QP0, which RoCE does
// not have (CA17-33).
func TestSubnetManagement(t *testing.T) {
	s := newScene()
	s.datagram(1, 0, make([]byte, 256)).headers.DestQP = 0
	s.datagram(1, 0, make([]byte, 256)).headers.DestQP = 0
	packet := func(p *scenePacket) []byte { return infiniBandPacket(p, false) }
	r, err := Check(bytes.NewReader(packetsFile(t, layers.LinkType(capture.LinkInfiniBand), s.packets, packet)), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if r.InfiniBand != 2 || len(r.Findings) > 0 {
		t.Errorf("InfiniBand: %d packets, findings %v", r.InfiniBand, r.Findings)
	}
	s.report(t).only(t, ruleManagement, Violation, 2)
}

// TestXRCSentAgain: a packet of XRC that is sent again must name the SRQ that it named before.
func TestXRCSentAgain(t *testing.T) {
	for _, srqn := range []uint32{5, 6} {
		s := newScene()
		s.xrc(5, 5, 5)
		again := s.packets[2].headers
		again.XRCSRQN = srqn
		s.add(false, again, s.packets[2].payload)
		want := uint64(0)
		if srqn != 5 {
			want = 1
		}
		r, err := Check(bytes.NewReader(s.file(t)), Options{})
		if err != nil {
			t.Fatal(err)
		}
		if got := r.Of("xrc-srq").Total(); got != want {
			t.Errorf("SRQ %d in a message for SRQ 5: %d findings, want %d", srqn, got, want)
		}
	}
}
