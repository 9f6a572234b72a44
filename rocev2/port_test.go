package rocev2

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/gorxe/gorxe/internal/test/must"
	"github.com/gorxe/gorxe/internal/test/testenv"
	"github.com/gorxe/gorxe/wire"
)

// testPort is UDP port 4791 itself, because no other process uses the tests' addresses.
func open(t testing.TB, cfg Config) *Port {
	t.Helper()
	p, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

// sink collects copies of the packets that a port receives.
type sink struct {
	t       testing.TB
	host    drops // what found no room in the sockets of this network namespace
	mu      sync.Mutex
	cond    *sync.Cond
	packets []wire.Datagram
	batches int
}

func newSink(t testing.TB) *sink {
	s := &sink{t: t}
	s.host.open()
	t.Cleanup(s.host.close)
	s.cond = sync.NewCond(&s.mu)
	return s
}

func (s *sink) receive(batch []wire.Datagram) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.batches++
	for _, d := range batch {
		d.Data = bytes.Clone(d.Data)
		s.packets = append(s.packets, d)
	}
	s.cond.Broadcast()
}

// wait returns the packets once there are n of them. Without them, it ends the test and says
// whether the kernel had no room for packets.
func (s *sink) wait(n int) []wire.Datagram {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	late := false
	defer time.AfterFunc(must.Limit, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		late = true
		s.cond.Broadcast()
	}).Stop()
	for len(s.packets) < n {
		if late {
			s.t.Fatalf("%d of %d packets came; %d datagrams found no room in sockets of this network namespace",
				len(s.packets), n, s.host.read()-s.host.noRoom)
		}
		s.cond.Wait()
	}
	out := s.packets
	s.packets = nil
	return out
}

func discard([]wire.Datagram) {}

// roomFor returns how many small datagrams a port holds while nothing reads them, up to most. An
// ordinary user has less room than root. The kernel counts about 768 bytes for each.
func roomFor(p *Port, most int) int { return min(p.Info().ReceiveBuffer>>10, most) }

// burst makes n packets of size bytes each, ICRC included. If tail is not 0, the last
// one has only so many bytes. BTH byte 4, which the ICRC leaves out, is random too.
func burst(route *wire.Route, n, size, tail int) wire.Burst {
	total := n * size
	if tail != 0 {
		total = (n-1)*size + tail
	}
	buf := make([]byte, total)
	for i := range buf {
		buf[i] = byte(i*7 + i>>8)
	}
	b := wire.Burst{Route: route, Buf: buf, Seg: size}
	for i := range b.N() {
		b.Packet(i)[0], b.Packet(i)[1] = byte(wire.UCSendMiddle), 0 // so that it decodes
	}
	return b
}

func body(b *wire.Burst, i int) []byte {
	pkt := b.Packet(i)
	return pkt[:len(pkt)-icrcLen]
}

func TestSendReceive(t *testing.T) {
	shapes := []struct{ n, size, tail int }{
		{1, 16, 0}, {1, 4112, 0}, {2, 20, 16}, {3, 1040, 0}, {62, 1040, 0}, {63, 1040, 1036},
		{15, 4112, 0}, {16, 4112, 20}, {128, 276, 0}, {129, 276, 0}, {300, 24, 16}, {17, 4128, 0}, {1, 65469, 0},
	}
	hosts := []struct {
		name string
		a, b netip.Addr
	}{
		{"IPv4", netip.MustParseAddr("127.0.4.1"), netip.MustParseAddr("127.0.4.2")},
		{"IPv6", netip.MustParseAddr("::1"), netip.MustParseAddr("::1")},
	}
	modes := []struct {
		name         string
		noGSO, noGRO bool
	}{{"GSO GRO", false, false}, {"no GSO", true, false}, {"no GRO", false, true}, {"neither", true, true}}
	for _, h := range hosts {
		t.Run(h.name, func(t *testing.T) {
			if h.b.Is6() && !testenv.OwnNetwork(t) {
				return
			}
			for _, m := range modes {
				t.Run(m.name, func(t *testing.T) {
					s := newSink(t)
					b := open(t, Config{Address: h.b, Receiver: s.receive, NoGSO: m.noGSO, NoGRO: m.noGRO})
					a := b
					if h.a != h.b {
						a = open(t, Config{Address: h.a, Receiver: discard, NoGSO: m.noGSO, NoGRO: m.noGRO})
					}
					for _, shape := range shapes {
						route := &wire.Route{Src: h.a, Dst: h.b, SrcPort: 0xc123, TrafficClass: 0x68, HopLimit: 33, FlowLabel: 0x12345}
						out := burst(route, shape.n, shape.size, shape.tail)
						if err := a.Send([]wire.Burst{out}); err != nil {
							t.Fatal(err)
						}
						for i, d := range s.wait(shape.n) {
							want := wire.Datagram{Src: h.a, Dst: h.b, SrcPort: a.SourcePort(route), TrafficClass: 0x68, HopLimit: 33}
							if !bytes.Equal(d.Data, body(&out, i)) {
								t.Fatalf("%v: packet %d differs: %d bytes, want %d", shape, i, len(d.Data), len(body(&out, i)))
							}
							if d.Data = nil; d.Src != want.Src || d.Dst != want.Dst || d.SrcPort != want.SrcPort ||
								d.TrafficClass != want.TrafficClass || d.HopLimit != want.HopLimit {
								t.Fatalf("%v: packet %d: got %+v, want %+v", shape, i, d, want)
							}
						}
					}
					c := b.Counters()
					if n := c.ICRCErrors.Load() + c.Malformed.Load() + c.Truncated.Load(); n != 0 {
						t.Errorf("%d bad packets", n)
					}
				})
			}
		})
	}
}

func TestSendSeveralBursts(t *testing.T) {
	s := newSink(t)
	addr1, addr2, dst := netip.MustParseAddr("127.0.5.1"), netip.MustParseAddr("127.0.5.2"), netip.MustParseAddr("127.0.5.3")
	open(t, Config{Address: dst, Receiver: s.receive})
	for _, src := range []netip.Addr{addr1, addr2} {
		p := open(t, Config{Address: src, Receiver: discard})
		var bursts []wire.Burst
		total := 0
		for i := range 3 * sendBatchLen {
			n := 1 + i%3
			bursts = append(bursts, burst(&wire.Route{Src: src, Dst: dst, SrcPort: uint16(i / 7)}, n, 100+i, 0))
			total += n
		}
		if err := p.Send(bursts); err != nil {
			t.Fatal(err)
		}
		got := map[string]int{}
		for _, d := range s.wait(total) {
			got[string(d.Data)]++
		}
		for i := range bursts {
			for j := range bursts[i].N() {
				got[string(body(&bursts[i], j))]--
			}
		}
		for _, n := range got {
			if n != 0 {
				t.Fatal("packets received are not the ones sent")
			}
		}
	}
}

// Packets of many flows need no more calls than there are sockets, and none
// overtakes another of its flow.
func TestSendManyFlows(t *testing.T) {
	const each = 3
	for _, cfg := range []Config{{}, {SourcePorts: 1}, {SourcePorts: 64}, {NoGSO: true}} {
		s := newSink(t)
		src, dst := netip.MustParseAddr("127.0.11.1"), netip.MustParseAddr("127.0.11.2")
		in := open(t, Config{Address: dst, Receiver: s.receive})
		flows := roomFor(in, 1000*each) / each
		cfg.Address, cfg.Receiver = src, discard
		p := open(t, cfg)
		if cfg.SourcePorts == 0 && p.cfg.SourcePorts != 1 {
			t.Errorf("%d source ports on the loopback interface", p.cfg.SourcePorts)
		}
		var bursts []wire.Burst
		for i := range flows * each {
			b := burst(&wire.Route{Src: src, Dst: dst, SrcPort: uint16(0xc000 + i%flows)}, 1, 20, 0)
			binary.BigEndian.PutUint32(b.Buf[8:], uint32(i))
			bursts = append(bursts, b)
		}
		if err := p.Send(bursts); err != nil {
			t.Fatal(err)
		}
		last := map[uint32]uint32{}
		for _, d := range s.wait(flows * each) {
			i := binary.BigEndian.Uint32(d.Data[8:])
			flow := i % uint32(flows)
			if n, seen := last[flow]; seen && n >= i || d.SrcPort != p.SourcePort(bursts[i].Route) {
				t.Fatalf("%+v: packet %d from port %d, after %d", cfg, i, d.SrcPort, n)
			}
			last[flow] = i
		}
		calls := int(p.Counters().SendCalls.Load())
		if most := flows*each/sendPieces + p.cfg.SourcePorts; !cfg.NoGSO && calls > most {
			t.Errorf("%d ports: %d calls, want at most %d", p.cfg.SourcePorts, calls, most)
		}
		p.Close()
		in.Close()
	}
}

func TestSendErrors(t *testing.T) {
	src, dst := netip.MustParseAddr("127.0.6.1"), netip.MustParseAddr("127.0.6.2")
	p := open(t, Config{Address: src, Receiver: discard})
	tests := []struct {
		name  string
		burst wire.Burst
		want  error
	}{
		{"foreign source", burst(&wire.Route{Src: dst, Dst: src}, 1, 64, 0), ErrNoAddress},
		{"no source", burst(&wire.Route{Dst: src}, 1, 64, 0), ErrNoAddress},
		{"no destination", burst(&wire.Route{Src: src}, 1, 64, 0), ErrNoAddress},
		{"other IP version", burst(&wire.Route{Src: src, Dst: netip.IPv6Loopback()}, 1, 64, 0), ErrNoAddress},
		{"short packet", burst(&wire.Route{Src: src, Dst: dst}, 1, 15, 0), ErrConfig},
		{"short last packet", burst(&wire.Route{Src: src, Dst: dst}, 2, 64, 15), ErrConfig},
		{"mapped addresses", burst(&wire.Route{Src: netip.AddrFrom16(src.As16()), Dst: netip.AddrFrom16(dst.As16())}, 1, 64, 0), nil},
		{"nothing", wire.Burst{Route: &wire.Route{Src: src, Dst: dst}}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if err := p.Send([]wire.Burst{tt.burst}); !errors.Is(err, tt.want) {
				t.Errorf("got %v, want %v", err, tt.want)
			}
		})
	}
	p.Close()
	if err := p.Send(nil); !errors.Is(err, ErrClosed) {
		t.Errorf("after Close: got %v", err)
	}
}

func TestTooBigIsCounted(t *testing.T) {
	src, dst := netip.MustParseAddr("127.0.7.1"), netip.MustParseAddr("127.0.7.2")
	p := open(t, Config{Address: src, Receiver: discard})
	if err := p.Send([]wire.Burst{burst(&wire.Route{Src: src, Dst: dst}, 1, 65530, 0)}); err != nil {
		t.Fatal(err)
	}
	if n := p.Counters().SendDropTooBig.Load(); n != 1 {
		t.Errorf("send_drop_too_big is %d", n)
	}
	for name, v := range p.Counters().All() {
		if v != 0 && name != "send_calls" && name != "send_drop_too_big" {
			t.Errorf("%s is %d", name, v)
		}
	}
}

func TestBadPacketsAreCounted(t *testing.T) {
	s := newSink(t)
	src, dst := netip.MustParseAddr("127.0.8.1"), netip.MustParseAddr("127.0.8.2")
	p := open(t, Config{Address: dst, Receiver: s.receive})
	conn := dialFrom(t, src, dst)
	for _, pkt := range [][]byte{make([]byte, 15), make([]byte, 16), bytes.Repeat([]byte{1}, 1500), {}} {
		if _, err := conn.Write(pkt); err != nil {
			t.Fatal(err)
		}
	}
	a := open(t, Config{Address: src, Receiver: discard})
	if err := a.Send([]wire.Burst{burst(&wire.Route{Src: src, Dst: dst}, 1, 64, 0)}); err != nil {
		t.Fatal(err)
	}
	if got := s.wait(1); len(got) != 1 {
		t.Errorf("received %d packets", len(got))
	}
	c := p.Counters()
	// Nothing orders the packets of two senders.
	must.Eventually(t, "2 malformed packets and 2 bad ICRCs", func() bool { return c.Malformed.Load() >= 2 && c.ICRCErrors.Load() >= 2 })
	if c.Malformed.Load() != 2 || c.ICRCErrors.Load() != 2 || c.ReceivedPackets.Load() != 1 {
		t.Errorf("malformed %d, icrc_errors %d, rcvd_pkts %d", c.Malformed.Load(), c.ICRCErrors.Load(), c.ReceivedPackets.Load())
	}
}

func TestConcurrentSend(t *testing.T) {
	const senders, each = 8, 3
	s := newSink(t)
	src, dst := netip.MustParseAddr("127.0.9.1"), netip.MustParseAddr("127.0.9.2")
	in := open(t, Config{Address: dst, Receiver: s.receive})
	p := open(t, Config{Address: src, Receiver: discard})
	rounds := roomFor(in, 50*senders*each) / (senders * each) // as many as without GSO
	var wg sync.WaitGroup
	for i := range senders {
		wg.Go(func() {
			for range rounds {
				b := burst(&wire.Route{Src: src, Dst: dst, SrcPort: uint16(i)}, each, 64+i, 0)
				if err := p.Send([]wire.Burst{b}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	s.wait(senders * rounds * each)
	wg.Wait()
}

func ExamplePort_Send() {
	got := make(chan string)
	receive := func(batch []wire.Datagram) {
		for _, d := range batch {
			got <- fmt.Sprintf("%d bytes from %v", len(d.Data), d.Src)
		}
	}
	a, err := Open(Config{Address: netip.MustParseAddr("127.0.10.1"), Receiver: func([]wire.Datagram) {}})
	if err != nil {
		panic(err)
	}
	defer a.Close()
	b, err := Open(Config{Address: netip.MustParseAddr("127.0.10.2"), Receiver: receive})
	if err != nil {
		panic(err)
	}
	defer b.Close()

	// One packet: a BTH, 16 bytes of payload, and room for the ICRC.
	route := &wire.Route{Src: netip.MustParseAddr("127.0.10.1"), Dst: netip.MustParseAddr("127.0.10.2"), SrcPort: 0xc000}
	if err := a.Send([]wire.Burst{{Route: route, Buf: make([]byte, 32), Seg: 32}}); err != nil {
		panic(err)
	}
	fmt.Println(<-got)
	// Output: 28 bytes from 127.0.10.1
}
