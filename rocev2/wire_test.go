package rocev2

import (
	"bytes"
	"net"
	"net/netip"
	"slices"
	"testing"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
	"github.com/gorxe/gorxe/internal/test/must"
	"github.com/gorxe/gorxe/internal/test/testenv"
	rocelayers "github.com/gorxe/gorxe/rocev2/layers"
	"github.com/gorxe/gorxe/wire"
	"github.com/vishvananda/netlink"
)

// TestGSOSegmentsOnTheWire: segment i of a GSO send carries IPv4 identification i and
// the don't-fragment flag on the wire. Every ICRC depends on that.
func TestGSOSegmentsOnTheWire(t *testing.T) {
	if !testenv.OwnNetwork(t) {
		return
	}
	c := newCable(t, "10.9.0.1/24", "fd09::1/64")
	p := open(t, Config{Interface: "v0", Receiver: discard})
	if n := p.cfg.SourcePorts; n != DefaultSourcePorts {
		t.Errorf("%d source ports", n)
	}
	for _, pair := range [][2]string{{"10.9.0.1", "10.9.0.2"}, {"fd09::1", "fd09::2"}} {
		src, dst := netip.MustParseAddr(pair[0]), netip.MustParseAddr(pair[1])
		c.neighbour(dst)
		for _, shape := range []struct{ n, size, tail int }{{1, 16, 0}, {1, 1040, 0}, {2, 28, 20}, {62, 1040, 0}, {128, 276, 0}, {15, 4112, 24}, {200, 300, 16}} {
			route := &wire.Route{Src: src, Dst: dst, SrcPort: 0xc765, TrafficClass: 0x6a, HopLimit: 17, FlowLabel: 0x54321}
			out := burst(route, shape.n, shape.size, shape.tail)
			calls := p.Counters().SendCalls.Load()
			must.OK(t, p.Send([]wire.Burst{out}))
			// Messages of one burst may differ in size from one another only in
			// their number of packets.
			perCall := min(maxGSOBytes/shape.size, int(p.segmentLimit.Load()))
			for i := range shape.n {
				checkSegment(t, c.next(), &out, i, i%perCall, p.SourcePort(route))
			}
			if n := p.Counters().SendCalls.Load() - calls; n != 1 {
				t.Errorf("%v: %d calls for one burst", shape, n)
			}
		}
	}
	if p.gsoOff.Load() {
		t.Error("GSO was given up")
	}
}

// Flows that share a message share its identifications, and nothing else of the
// headers.
func TestSharedGSOOnTheWire(t *testing.T) {
	if !testenv.OwnNetwork(t) {
		return
	}
	c := newCable(t, "10.9.0.1/24", "fd09::1/64")
	p := open(t, Config{Interface: "v0", Receiver: discard, SourcePorts: 1})
	for _, pair := range [][2]string{{"10.9.0.1", "10.9.0.2"}, {"fd09::1", "fd09::2"}} {
		src, dst := netip.MustParseAddr(pair[0]), netip.MustParseAddr(pair[1])
		c.neighbour(dst)
		plain := wire.Route{Src: src, Dst: dst, SrcPort: 0xc001, HopLimit: 64, FlowLabel: 0x54321}
		other := plain
		other.SrcPort = 0xc002
		class := other
		class.TrafficClass = 0x20
		var bursts []wire.Burst
		var ids []int // of each burst's first packet
		for _, b := range []struct {
			route         *wire.Route
			n, size, tail int
			id            int
		}{
			// three flows' worth
			{&plain, 1, 20, 0, 0}, {&other, 2, 20, 0, 1}, {&plain, 1, 20, 0, 3},
			{&class, 1, 20, 0, 0}, {&other, 1, 20, 0, 0}, // another class is another message
			{&plain, 2, 40, 32, 0}, {&plain, 1, 40, 0, 0}, // a short packet is the last
			{&other, 150, 40, 0, 1}, // fills one message and begins another
		} {
			bursts = append(bursts, burst(b.route, b.n, b.size, b.tail))
			ids = append(ids, b.id)
		}
		calls := p.Counters().SendCalls.Load()
		must.OK(t, p.Send(bursts))
		if n := p.Counters().SendCalls.Load() - calls; n != 1 {
			t.Errorf("%d calls for one socket", n)
		}
		for k := range bursts {
			for i := range bursts[k].N() {
				checkSegment(t, c.next(), &bursts[k], i, (ids[k]+i)%int(p.segmentLimit.Load()), p.SourcePort(bursts[k].Route))
			}
		}
	}
}

func checkSegment(t *testing.T, p gopacket.Packet, out *wire.Burst, i, id int, srcPort uint16) {
	t.Helper()
	udp := p.Layer(layers.LayerTypeUDP).(*layers.UDP)
	if !bytes.Equal(udp.Payload, out.Packet(i)) {
		t.Fatalf("packet %d of %d bytes: not what Send left in the buffer", i, len(udp.Payload))
	}
	if uint16(udp.SrcPort) != srcPort || srcPort < sourcePortFirst || udp.DstPort != wire.UDPPort {
		t.Errorf("ports %d to %d, want %d to %d", udp.SrcPort, udp.DstPort, srcPort, wire.UDPPort)
	}
	r := out.Route
	if v4, ok := p.NetworkLayer().(*layers.IPv4); ok {
		if int(v4.Id) != id || v4.Flags != layers.IPv4DontFragment || v4.TOS != r.TrafficClass || v4.TTL != r.HopLimit {
			t.Fatalf("packet %d: ID %d flags %v TOS %#x TTL %d, want ID %d, DF, TOS %#x, TTL %d",
				i, v4.Id, v4.Flags, v4.TOS, v4.TTL, id, r.TrafficClass, r.HopLimit)
		}
	} else {
		v6 := p.NetworkLayer().(*layers.IPv6)
		if v6.TrafficClass != r.TrafficClass || v6.FlowLabel != r.FlowLabel || v6.HopLimit != r.HopLimit {
			t.Fatalf("packet %d: traffic class %#x, flow label %#x, hop limit %d", i, v6.TrafficClass, v6.FlowLabel, v6.HopLimit)
		}
	}
	state := wire.NewICRC(&wire.Route{Src: r.Src, Dst: r.Dst, SrcPort: srcPort}, wire.UDPPort)
	if !state.Check(udp.Payload, uint16(id), true) {
		t.Errorf("packet %d: bad ICRC for identification %d", i, id)
	}
}

// TestReceiveKernelPackets sends captured packets of the kernel's rdma_rxe to a port:
// identifications vary, the UDP checksum is 0 even over IPv6, and GRO joins nothing.
func TestReceiveKernelPackets(t *testing.T) {
	if !testenv.OwnNetwork(t) {
		return
	}
	c := newCable(t)
	dsts := map[netip.Addr]bool{}
	var frames []gopacket.Packet
	for _, file := range []string{"allops_rc_gid1.pcap", "allops_rc_gid0_v6.pcap"} {
		for _, p := range captured(t, "../testdata/pcaps/"+file) {
			if p.Layer(rocelayers.LayerTypeBTH) == nil {
				continue
			}
			dst, _ := netip.AddrFromSlice(p.NetworkLayer().NetworkFlow().Dst().Raw())
			dsts[dst] = true
			frames = append(frames, p)
		}
	}
	// The addresses of both directions are on one interface, each with its own port,
	// and one at a time: otherwise the kernel would drop the frames as spoofed.
	for dst := range dsts {
		t.Run(dst.String(), func(t *testing.T) {
			prefix := dst.String() + "/64"
			if dst.Is4() {
				prefix = dst.String() + "/24"
			}
			c.addAddr(prefix)
			defer c.delAddr(prefix)
			s := newSink(t)
			p := open(t, Config{Interface: "v0", Address: dst, Receiver: s.receive})
			var mine []gopacket.Packet
			for _, f := range frames {
				if a, _ := netip.AddrFromSlice(f.NetworkLayer().NetworkFlow().Dst().Raw()); a == dst {
					mine = append(mine, f)
				}
			}
			// A few at a time: the kernel's queue behind a cable is short.
			for part := range slices.Chunk(mine, 64) {
				for _, f := range part {
					ip := f.NetworkLayer()
					c.inject(append(bytes.Clone(ip.LayerContents()), ip.LayerPayload()...), c.near.Attrs().HardwareAddr)
				}
				for i, d := range s.wait(len(part)) {
					udp := part[i].Layer(layers.LayerTypeUDP).(*layers.UDP)
					if !bytes.Equal(d.Data, udp.Payload[:len(udp.Payload)-icrcLen]) || d.SrcPort != uint16(udp.SrcPort) {
						t.Fatal("a packet differs from the one sent")
					}
				}
			}
			if n := p.Counters().ICRCErrors.Load(); n != 0 {
				t.Errorf("icrc_errors is %d", n)
			}
		})
	}
}

func TestMulticastOnTheWire(t *testing.T) {
	if !testenv.OwnNetwork(t) {
		return
	}
	c := newCable(t, "10.9.0.1/24", "fd09::1/64")
	s := newSink(t)
	p := open(t, Config{Interface: "v0", Receiver: s.receive})
	tests := []struct {
		src, far, group netip.Addr
		mac             net.HardwareAddr
	}{
		{netip.MustParseAddr("10.9.0.1"), netip.MustParseAddr("10.9.0.2"), netip.MustParseAddr("239.1.2.3"), net.HardwareAddr{1, 0, 0x5e, 1, 2, 3}},
		{netip.MustParseAddr("fd09::1"), netip.MustParseAddr("fd09::2"), netip.MustParseAddr("ff15::1:2"), net.HardwareAddr{0x33, 0x33, 0, 1, 0, 2}},
	}
	for _, tt := range tests {
		t.Run(tt.group.String(), func(t *testing.T) {
			must.OK(t, p.JoinGroup(tt.group))
			must.OK(t, p.JoinGroup(tt.group))
			must.OK(t, p.LeaveGroup(tt.group)) // one use is left

			out := burst(&wire.Route{Src: tt.src, Dst: tt.group, HopLimit: 1}, 3, 64, 0)
			must.OK(t, p.Send([]wire.Burst{out}))
			for i := range 3 {
				if got := c.next(); !bytes.Equal(got.Layer(layers.LayerTypeUDP).LayerPayload(), out.Packet(i)) {
					t.Errorf("packet %d on the wire differs", i)
				}
			}
			// The port's own packets do not come back; the neighbour's come.
			in := tapPacket{src: tt.far, dst: tt.group, srcPort: 0xc000, dstPort: wire.UDPPort, hops: 1, id: 77, df: true, pkt: make([]byte, 32)}
			wire.NewICRC(&wire.Route{Src: tt.far, Dst: tt.group, SrcPort: 0xc000}, wire.UDPPort).Put(in.pkt, 77)
			if tt.src.Is4() {
				c.inject(appendIPv4(nil, &in), tt.mac)
			} else {
				c.inject(appendIPv6(nil, &in), tt.mac)
			}
			got := s.wait(1)
			if len(got) != 1 || got[0].Src != tt.far || got[0].Dst != tt.group {
				t.Errorf("received %+v", got)
			}
			must.OK(t, p.LeaveGroup(tt.group))
			if p.LeaveGroup(tt.group) == nil {
				t.Error("left more often than joined")
			}
		})
	}
}

// TestCableRepeats: the test's cable brings a packet although an end is down at first. The kernel
// loses such packets silently.
func TestCableRepeats(t *testing.T) {
	if !testenv.OwnNetwork(t) {
		return
	}
	c := newCable(t, "10.9.0.1/24")
	s := newSink(t)
	open(t, Config{Interface: "v0", Receiver: s.receive})
	in := tapPacket{src: netip.MustParseAddr("10.9.0.2"), dst: netip.MustParseAddr("10.9.0.1"), srcPort: 0xc000, dstPort: wire.UDPPort, hops: 64, df: true, pkt: make([]byte, 32)}
	wire.NewICRC(&wire.Route{Src: in.src, Dst: in.dst, SrcPort: in.srcPort}, in.dstPort).Put(in.pkt, 0)
	must.OK(t, netlink.LinkSetDown(c.near))
	before := c.lost()
	injected := make(chan struct{})
	go func() {
		defer close(injected)
		c.inject(appendIPv4(nil, &in), c.near.Attrs().HardwareAddr)
	}()
	must.Eventually(t, "a packet is lost", func() bool { return c.lost() > before })
	must.OK(t, netlink.LinkSetUp(c.near))
	if got := s.wait(1); len(got) != 1 || got[0].Src != in.src {
		t.Errorf("received %+v", got)
	}
	<-injected
}
