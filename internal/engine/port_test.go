package engine

import (
	"bytes"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/gorxe/gorxe/rocev2"
	"github.com/gorxe/gorxe/rxe"
	"github.com/gorxe/gorxe/wire"
)

// network is a network in memory, by address. Its ports are engine.Port.
type network struct {
	mu    sync.Mutex
	ports map[netip.Addr]*memoryPort
}

func newNetwork() *network { return &network{ports: make(map[netip.Addr]*memoryPort)} }

// open is Config.OpenPort.
func (s *network) open(cfg rocev2.Config) (Port, error) {
	p := &memoryPort{network: s, cfg: cfg, in: make(chan func(), 1024), closed: make(chan struct{})}
	p.ended.Go(func() {
		for {
			select {
			case f := <-p.in:
				f()
			case <-p.closed:
				return
			}
		}
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ports[cfg.Address] = p
	return p, nil
}

// memoryPort receives in a goroutine, as a port of sockets does.
type memoryPort struct {
	network  *network
	cfg      rocev2.Config
	in       chan func()
	closed   chan struct{}
	ended    sync.WaitGroup
	down     atomic.Bool
	counters rocev2.Counters
	frames   atomic.Pointer[func([][]byte)]
}

// deliver runs f in the goroutine of the port at addr, or loses it.
func (s *network) deliver(addr netip.Addr, f func(*memoryPort)) {
	s.mu.Lock()
	to := s.ports[addr]
	s.mu.Unlock()
	if to == nil {
		return
	}
	select {
	case to.in <- func() { f(to) }:
	default: // the buffer is full
	}
}

func (p *memoryPort) Send(bursts []wire.Burst) error {
	for _, b := range bursts {
		batch := make([]wire.Datagram, b.N())
		for i := range batch {
			pkt := b.Packet(i)
			batch[i] = wire.Datagram{Data: slices.Clone(pkt[:len(pkt)-wire.ICRCLen]), Src: b.Route.Src, Dst: b.Route.Dst,
				SrcPort: b.Route.SrcPort, TrafficClass: b.Route.TrafficClass, HopLimit: b.Route.HopLimit}
		}
		p.network.deliver(b.Route.Dst, func(to *memoryPort) { to.cfg.Receiver(batch) })
	}
	return nil
}

// SendFrames sends to all other ports: a hub.
func (p *memoryPort) SendFrames(frames [][]byte) {
	for addr := range p.network.ports {
		if addr == p.cfg.Address {
			continue
		}
		copies := make([][]byte, len(frames))
		for i, f := range frames {
			copies[i] = slices.Clone(f)
		}
		p.network.deliver(addr, func(to *memoryPort) {
			if receive := to.frames.Load(); receive != nil {
				(*receive)(copies)
			}
		})
	}
}

func (p *memoryPort) OnFrames(receive func([][]byte)) { p.frames.Store(&receive) }

func (p *memoryPort) Info() rocev2.PortInfo {
	info := rocev2.PortInfo{Name: "memory", Index: 3, State: rocev2.PortActive, MTU: 1500, ActiveMTU: 1024,
		GIDs: []wire.GID{wire.GIDFromAddr(p.cfg.Address)}, SpeedMbps: 100000}
	if p.down.Load() {
		info.State = rocev2.PortDown
	}
	return info
}

func (p *memoryPort) Close() error {
	close(p.closed)
	p.ended.Wait()
	return nil
}

func (p *memoryPort) SourcePort(*wire.Route) uint16 { return 50000 }
func (p *memoryPort) JoinGroup(netip.Addr) error    { return nil }
func (p *memoryPort) LeaveGroup(netip.Addr) error   { return nil }
func (p *memoryPort) SetMark(wire.QPNMark)          {}
func (p *memoryPort) AddPeer(netip.Addr)            {}
func (p *memoryPort) RemovePeer(netip.Addr)         {}
func (p *memoryPort) Counters() *rocev2.Counters    { return &p.counters }

// TestOtherPort: engines whose ports are not sockets have the port's state, and write to each
// other.
func TestOtherPort(t *testing.T) {
	const here, there = "192.0.2.10", "192.0.2.11"
	s := newNetwork()
	var events atomic.Int64
	start := func(addr string) *host {
		return newHostOf(t, Config{Name: "rxe0", Address: netip.MustParseAddr(addr), OpenPort: s.open,
			OnEvent: func(ev rxe.Event) {
				if ev.Type == rxe.EventPortErr {
					events.Add(1)
				}
			}})
	}
	a, b := start(here), start(there)
	if port := a.e.Device().QueryPort(); port.State != rxe.PortActive || port.Mbps != 100000 {
		t.Errorf("the port is %v with %d Mb/s", port.State, port.Mbps)
	}
	qa, qb := newQueue(a), newQueue(b)
	qa.connect(there, qb.qp.Num(), 14)
	qb.connect(here, qa.qp.Num(), 14)
	transfer(t, a, b, qa)

	p := s.ports[netip.MustParseAddr(here)]
	p.down.Store(true)
	p.cfg.OnPort(p.Info())
	if state := a.e.Device().QueryPort().State; state != rxe.PortDown || events.Load() != 1 {
		t.Errorf("after the port went down it is %v, with %d events", state, events.Load())
	}
}

// TestFrames: a device finds what carries frames on its port, and frames pass unchanged. A port of
// sockets carries none.
func TestFrames(t *testing.T) {
	s := newNetwork()
	var devices []*rxe.Device
	for _, addr := range []string{"192.0.2.10", "192.0.2.11"} {
		h := newHostOf(t, Config{Name: "rxe0", Address: netip.MustParseAddr(addr), OpenPort: s.open})
		devices = append(devices, h.e.Device())
	}
	got := make(chan []byte, 4)
	devices[1].Framer().OnFrames(func(frames [][]byte) {
		for _, f := range frames {
			got <- slices.Clone(f)
		}
	})
	want := [][]byte{bytes.Repeat([]byte{0xff}, 60), append(make([]byte, 12), 0x88, 0xb5, 1, 2, 3)}
	devices[0].Framer().SendFrames(want)
	for i := range want {
		if f := <-got; !bytes.Equal(f, want[i]) {
			t.Errorf("frame %d is %x", i, f)
		}
	}
	if f := newHost(t, "127.78.0.90").e.Device().Framer(); f != nil {
		t.Errorf("a port of sockets has %v", f)
	}
}

// TestMoveGID: a GID goes to the lowest index that was empty, or behind the last one.
func TestMoveGID(t *testing.T) {
	a, b := wire.GID{15: 1}, wire.GID{15: 2}
	for _, c := range []struct {
		from []wire.GID
		move []int
		want []wire.GID
	}{
		{[]wire.GID{a, b}, []int{1}, []wire.GID{a, {}, b}},
		{[]wire.GID{a, {}, b}, []int{2}, []wire.GID{a, b, {}}},
		{[]wire.GID{a, b}, []int{0, 1}, []wire.GID{b, {}, a}},
		{[]wire.GID{a, {}}, []int{1, 2, 1023}, []wire.GID{a, {}}},
	} {
		change := PortChange{Moved: c.move}
		before := slices.Clone(c.from)
		info, _ := change.apply(rocev2.PortInfo{GIDs: c.from}, 0)
		if !slices.Equal(info.GIDs, c.want) || !slices.Equal(c.from, before) {
			t.Errorf("%v moved of %v: %v, want %v; the port's own are %v", c.move, before, info.GIDs, c.want, c.from)
		}
	}
}
