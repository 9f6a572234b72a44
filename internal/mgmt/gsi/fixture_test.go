package gsi

import (
	"bytes"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/gorxe/gorxe/internal/test/must"
	"github.com/gorxe/gorxe/rxe"
	"github.com/gorxe/gorxe/wire"
)

const timeout = time.Minute // only ends a test that would otherwise hang

var (
	here  = netip.MustParseAddr("10.0.0.1")
	there = netip.MustParseAddr("10.0.0.2")
	other = netip.MustParseAddr("fd00::2") // of the device at there too
)

// network delivers packets between devices, at once.
type network struct {
	mu      sync.Mutex
	devices map[netip.Addr]*rxe.Device
}

func (n *network) Send(bursts []wire.Burst) {
	for i := range bursts {
		b := &bursts[i]
		for j := range b.N() {
			p := b.Packet(j)
			dg := wire.Datagram{Data: bytes.Clone(p[:len(p)-wire.ICRCLen]), Src: b.Route.Src, Dst: b.Route.Dst,
				SrcPort: b.Route.SrcPort, TrafficClass: b.Route.TrafficClass, HopLimit: b.Route.HopLimit}
			n.mu.Lock()
			dev := n.devices[dg.Dst]
			n.mu.Unlock()
			if dev != nil {
				dev.Receive([]wire.Datagram{dg})
			}
		}
	}
}

func (*network) Join(wire.GID) error  { return nil }
func (*network) Leave(wire.GID) error { return nil }
func (*network) Now() rxe.Time        { return 1 }
func (*network) Arm(rxe.Time)         {}

// host is a device with its Mux.
type host struct {
	t   testing.TB
	dev *rxe.Device
	mux *Mux
}

// newHost makes a device whose Mux has not started.
func newHost(t testing.TB, n *network, cfg Config, addrs ...netip.Addr) *host {
	t.Helper()
	h := &host{t: t, mux: New(cfg)}
	h.init(n, h.mux, addrs)
	return h
}

func (h *host) init(n *network, gsi rxe.GSI, addrs []netip.Addr) {
	t := h.t
	t.Helper()
	h.dev = must.Get[*rxe.Device](t)(rxe.New(rxe.Config{Name: "rxe0", Link: n, Clock: n, Seed: [32]byte{1}, GSI: gsi}))
	var gids []wire.GID
	n.mu.Lock()
	for _, a := range addrs {
		gids = append(gids, wire.GIDFromAddr(a))
		if n.devices == nil {
			n.devices = make(map[netip.Addr]*rxe.Device)
		}
		n.devices[a] = h.dev
	}
	n.mu.Unlock()
	h.must(h.dev.SetGIDs(gids))
	h.must(h.dev.SetPort(rxe.PortActive, 4096))
	t.Cleanup(func() {
		h.mux.Close()
		_ = h.dev.Close()
	})
}

func (h *host) must(err error) {
	h.t.Helper()
	if err != nil {
		h.t.Fatal(err)
	}
}

// counters returns the counters that are not zero.
func (h *host) counters() map[string]uint64 {
	m := make(map[string]uint64)
	for _, c := range h.mux.Counters() {
		if c.Value != 0 {
			m[c.Name] = c.Value
		}
	}
	return m
}

// pair returns a device at here that passes on what it receives, and one at there and other.
func pair(t testing.TB, cfg Config) (n *network, asks *host, answers chan received, asked *host) {
	t.Helper()
	n, answers = new(network), make(chan received, 64)
	asks, asked = &host{t: t, mux: New(Config{})}, newHost(t, n, cfg, there, other)
	asks.init(n, &reader{to: answers}, []netip.Addr{here})
	asks.mux.Start(asks.dev)
	return n, asks, answers, asked
}

// received is what an agent received.
type received struct {
	from rxe.AHAttr
	src  wire.QPN
	mad  *wire.MAD
}

// reader passes on what it receives.
type reader struct{ to chan received }

func (r *reader) ReceiveMAD(from rxe.AHAttr, src wire.QPN, mad *wire.MAD) {
	r.to <- received{from, src, mad}
}

// ReceiveGSI makes the reader the handler of a device.
func (r *reader) ReceiveGSI(pkt wire.Packet, from *wire.Datagram) {
	mad, err := wire.ParseMAD(bytes.Clone(pkt.Payload()))
	if err != nil {
		panic(err)
	}
	r.ReceiveMAD(to(from.Src), pkt.SrcQP(), mad)
}

// next waits for a datagram.
func (h *host) next(c chan received) received {
	h.t.Helper()
	select {
	case r := <-c:
		return r
	case <-time.After(timeout):
		h.t.Fatal("no datagram came")
	}
	panic("unreachable")
}

func to(a netip.Addr) rxe.AHAttr { return rxe.AHAttr{DGID: wire.GIDFromAddr(a), PortNum: 1} }

// request returns a datagram with a pattern for its data.
func request(class wire.MADClass, method wire.MADMethod, attribute uint16) *wire.MAD {
	mad := new(wire.MAD)
	mad.Init(&wire.MADHeader{Class: class, ClassVersion: 1, Method: method, TID: 0x1122334455667788, Attribute: attribute})
	for i := range mad.Data() {
		mad.Data()[i] = byte(7 * i)
	}
	return mad
}

func addr(s string) netip.Addr { return netip.MustParseAddr(s) }
