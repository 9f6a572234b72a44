package wire

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
	"github.com/google/gopacket/pcapgo"
)

// captured is one RoCEv2 packet of a capture, with what its IP header says.
type captured struct {
	frame int // from 1, as Wireshark counts
	route Route
	id    uint16
	df    bool
	data  []byte // BTH through ICRC
}

// readCapture returns the RoCEv2 packets of an Ethernet capture.
func readCapture(t *testing.T, name string) (packets []captured) {
	t.Helper()
	file, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	r, err := pcapgo.NewReader(bytes.NewReader(file))
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	for frame := 1; ; frame++ {
		b, _, err := r.ReadPacketData()
		if errors.Is(err, io.EOF) {
			return packets
		}
		if err != nil {
			t.Fatalf("%s frame %d: %v", name, frame, err)
		}
		p := gopacket.NewPacket(b, layers.LayerTypeEthernet, gopacket.DecodeOptions{})
		udp, ok := p.Layer(layers.LayerTypeUDP).(*layers.UDP)
		if !ok || udp.DstPort != UDPPort {
			continue
		}
		c := captured{frame: frame, data: udp.Payload}
		switch ip := p.NetworkLayer().(type) {
		case *layers.IPv4:
			c.route.Src, _ = netip.AddrFromSlice(ip.SrcIP)
			c.route.Dst, _ = netip.AddrFromSlice(ip.DstIP)
			c.id, c.df = ip.Id, ip.Flags&layers.IPv4DontFragment != 0
		case *layers.IPv6:
			c.route.Src, _ = netip.AddrFromSlice(ip.SrcIP)
			c.route.Dst, _ = netip.AddrFromSlice(ip.DstIP)
		}
		c.route.SrcPort = uint16(udp.SrcPort)
		packets = append(packets, c)
	}
}

// corruptFrames are the damaged frames of netem_corrupt2.pcap, as
// testdata/tools/icrc_check.py lists them; all other captures are intact.
var corruptFrames = []int{
	60, 72, 89, 160, 174, 251, 305, 354, 472, 508, 551, 578, 580, 599, 679, 685, 746,
	748, 767, 776, 793, 866, 927, 963, 1053, 1071,
}

// TestCaptures: every packet that the Linux kernel sent parses and has the ICRC that
// this package computes. The check finds all damaged packets and no others, with and
// without knowledge of the identification.
func TestCaptures(t *testing.T) {
	files, err := filepath.Glob("../testdata/pcaps/*.pcap")
	if err != nil || len(files) == 0 {
		t.Fatalf("no captures: %v", err)
	}
	seen := map[Opcode]bool{}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			packets := readCapture(t, file)
			if len(packets) == 0 {
				t.Fatal("no RoCEv2 packets")
			}
			var exact, solved []int
			hints := map[netip.Addr]*DFHint{}
			for _, c := range packets {
				hint := hints[c.route.Src]
				if hint == nil {
					hint = new(DFHint)
					hints[c.route.Src] = hint
				}
				s := NewICRC(&c.route, UDPPort)
				id, df, ok := s.CheckUnknownID(c.data, hint)
				if !ok {
					solved = append(solved, c.frame)
				}
				if !s.Check(c.data, c.id, c.df) {
					exact = append(exact, c.frame)
					continue
				}
				if c.route.Src.Is4() && (id != c.id || df != c.df) {
					t.Errorf("frame %d: solved ID %#x, DF %v; want %#x, %v", c.frame, id, df, c.id, c.df)
				}
				p := checkKernelPacket(t, c)
				seen[p.Opcode()] = true
			}
			var want []int
			if filepath.Base(file) == "netem_corrupt2.pcap" {
				want = corruptFrames
			}
			if !slices.Equal(exact, want) {
				t.Errorf("exact check refuses frames %v\nwant %v", exact, want)
			}
			if !slices.Equal(solved, want) {
				t.Errorf("solver refuses frames %v\nwant %v", solved, want)
			}
		})
	}
	for op := range 256 {
		op := Opcode(op)
		inCaptures := op <= RCSendOnlyInv || op.Service() == ServiceUC || op.Service() == ServiceUD
		if op.Info().Valid() && inCaptures && !seen[op] {
			t.Errorf("no capture has %v", op)
		}
	}
}

// checkKernelPacket parses an intact packet, rebuilds it to the byte, and seals
// it again.
func checkKernelPacket(t *testing.T, c captured) Packet {
	t.Helper()
	body, _ := splitICRC(c.data)
	p, err := Parse(body)
	if err != nil {
		t.Fatalf("frame %d: %v", c.frame, err)
	}
	h := p.Headers()
	again := append(h.Append(nil), body[h.Len():]...)
	s := NewICRC(&c.route, UDPPort)
	again = binary.LittleEndian.AppendUint32(again, s.Sum(c.id, c.df, again))
	if !bytes.Equal(again, c.data) {
		t.Errorf("frame %d, %v: rebuilt as\n% x, want\n% x", c.frame, p.Opcode(), again, c.data)
	}
	if !p.Info().Has(OpPayload) && len(p.Payload()) != 0 {
		t.Errorf("frame %d: %v with payload", c.frame, p.Opcode())
	}
	return p
}
