package simnet

import (
	"bytes"
	"net/netip"
	"testing"
	"time"

	"github.com/gorxe/gorxe/rxe"
	"github.com/gorxe/gorxe/wire"
)

var (
	addrA = netip.MustParseAddr("192.0.2.1")
	addrB = netip.MustParseAddr("192.0.2.2")
)

// sink keeps what arrives.
type sink struct {
	port    *Port
	data    [][]byte
	batches int
	expired []rxe.Time
}

func (s *sink) Receive(batch []wire.Datagram) {
	s.batches++
	for _, d := range batch {
		s.data = append(s.data, bytes.Clone(d.Data))
	}
}

func (s *sink) Expire() { s.expired = append(s.expired, s.port.Now()) }

// exchange sends n packets from A to B.
func exchange(cfg Config, n int) (*Network, *sink) {
	net := New(cfg)
	a := net.NewPort(addrA)
	s := &sink{port: net.NewPort(addrB)}
	s.port.Attach(s)
	r := &wire.Route{Src: addrA, Dst: addrB, SrcPort: 0xc123}
	for i := range n {
		a.Send([]wire.Burst{{Route: r, Buf: packet(i), Seg: len(packet(i))}})
	}
	net.Drain(rxe.Time(time.Second))
	return net, s
}

func packet(i int) []byte {
	h := wire.Headers{Opcode: wire.RCSendOnly, PKey: wire.DefaultPKey, DestQP: 5, PSN: wire.PSN(i)}
	b := append(h.Append(nil), make([]byte, 60)...)
	return append(b, make([]byte, wire.ICRCLen)...)
}

func TestFaultless(t *testing.T) {
	net, s := exchange(Config{Latency: time.Microsecond, MaxBatch: 8}, 100)
	if len(s.data) != 100 || s.batches == 100 {
		t.Fatalf("%d packets in %d batches", len(s.data), s.batches)
	}
	for i, d := range s.data {
		if want := packet(i); !bytes.Equal(d, want[:len(want)-wire.ICRCLen]) {
			t.Fatalf("packet %d differs or is out of order", i)
		}
	}
	if net.Stats[Delivered] != 100 || net.Stats[Discarded] != 0 {
		t.Errorf("stats %v", net.Stats)
	}
}

// No damaged packet gets through, except with damage in BTH byte 4, which the ICRC does not
// cover.
func TestCorrupt(t *testing.T) {
	const n = 20000
	net, s := exchange(Config{Seed: 1, Corrupt: 1, MaxBatch: 64}, n)
	if net.Stats[Corrupted] != n || net.Stats[Discarded] < n*95/100 {
		t.Fatalf("stats %v", net.Stats)
	}
	for _, d := range s.data {
		p, err := wire.Parse(d)
		if err != nil {
			t.Fatal(err)
		}
		want := packet(int(p.PSN()))
		want[4] = d[4]
		if !bytes.Equal(d, want[:len(want)-wire.ICRCLen]) {
			t.Fatalf("PSN %d got through damaged", p.PSN())
		}
	}
}

func TestFaultRates(t *testing.T) {
	const n = 10000
	net, s := exchange(Config{Seed: 2, Loss: 0.2, Duplicate: 0.2, Reorder: 0.2, ReorderBy: time.Millisecond, MaxBatch: 4}, n)
	for _, fate := range [...]Fate{Lost, Duplicated, Reordered} {
		if got := net.Stats[fate]; got < n*12/100 || got > n*24/100 {
			t.Errorf("%v: %d of %d", fate, got, n)
		}
	}
	if want := n - net.Stats[Lost] + net.Stats[Duplicated]; uint64(len(s.data)) != want {
		t.Errorf("%d arrived, want %d", len(s.data), want)
	}
}

func TestReplay(t *testing.T) {
	cfg := Config{Seed: 3, Loss: 0.1, Duplicate: 0.1, Reorder: 0.1, Corrupt: 0.1, ReorderBy: time.Millisecond, MaxBatch: 4}
	one, _ := exchange(cfg, 1000)
	two, _ := exchange(cfg, 1000)
	if one.Trace() != two.Trace() {
		t.Error("the same seed gave another trace")
	}
	cfg.Seed++
	if three, _ := exchange(cfg, 1000); one.Trace() == three.Trace() {
		t.Error("another seed gave the same trace")
	}
}

// Only the latest deadline counts, and Drain stops at its limit.
func TestClock(t *testing.T) {
	net := New(Config{})
	s := &sink{port: net.NewPort(addrA)}
	s.port.Attach(s)
	s.port.Arm(100)
	s.port.Arm(300)
	s.port.Arm(200)
	net.Drain(150)
	if len(s.expired) != 0 || net.Now() != 150 {
		t.Fatalf("expired %v at %v", s.expired, net.Now())
	}
	net.Drain(1000)
	if len(s.expired) != 1 || s.expired[0] != 200 {
		t.Errorf("expired at %v, want 200", s.expired)
	}
}

func TestMulticast(t *testing.T) {
	net := New(Config{MaxBatch: 4})
	group := netip.MustParseAddr("239.1.2.3")
	a := net.NewPort(addrA)
	b, c := &sink{port: net.NewPort(addrB)}, &sink{port: net.NewPort(netip.MustParseAddr("192.0.2.3"))}
	b.port.Attach(b)
	c.port.Attach(c)
	if err := b.port.Join(wire.GIDFromAddr(group)); err != nil {
		t.Fatal(err)
	}
	r := &wire.Route{Src: addrA, Dst: group, SrcPort: 0xc123}
	a.Send([]wire.Burst{{Route: r, Buf: packet(1), Seg: len(packet(1))}})
	net.Drain(1e6)
	if len(b.data) != 1 || len(c.data) != 0 {
		t.Errorf("the member got %d, the other %d", len(b.data), len(c.data))
	}
}

func TestMemory(t *testing.T) {
	m := &Memory{Base: 0x1000, Data: make([]byte, 64)}
	for _, va := range []uint64{0xfff, 0x1000 + 57, 1<<64 - 4, 0} {
		if err := m.WriteV([]rxe.Span{{VA: va, Buf: make([]byte, 8)}}); err == nil {
			t.Errorf("wrote at %#x", va)
		}
	}
	if old, err := m.FetchAdd(0x1008, 3); err != nil || old != 0 || m.Data[8] != 3 {
		t.Errorf("FetchAdd: %d, %v", old, err)
	}
	if old, err := m.CompareSwap(0x1008, 3, 9); err != nil || old != 3 || m.Data[8] != 9 {
		t.Errorf("CompareSwap: %d, %v", old, err)
	}
	if _, err := m.FetchAdd(0x1009, 1); err == nil {
		t.Error("misaligned atomic")
	}
}
