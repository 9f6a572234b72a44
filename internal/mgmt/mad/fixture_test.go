package mad

import (
	"bytes"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/gorxe/gorxe/internal/mgmt/gsi"
	"github.com/gorxe/gorxe/internal/mgmt/sma"
	"github.com/gorxe/gorxe/internal/test/must"
	"github.com/gorxe/gorxe/rxe"
	"github.com/gorxe/gorxe/wire"
)

const wait = time.Minute // only ends a test that would otherwise hang

var (
	here  = netip.MustParseAddr("10.0.0.1")
	there = netip.MustParseAddr("10.0.0.2")
)

// cable joins two devices. It counts the datagrams from each, and may lose all of them.
type cable struct {
	mu   sync.Mutex
	ends map[netip.Addr]*rxe.Device
	sent map[netip.Addr]int
	cut  bool
}

func (c *cable) Send(bursts []wire.Burst) {
	for i := range bursts {
		b := &bursts[i]
		for j := range b.N() {
			p := b.Packet(j)
			dg := wire.Datagram{Data: bytes.Clone(p[:len(p)-wire.ICRCLen]), Src: b.Route.Src, Dst: b.Route.Dst,
				SrcPort: b.Route.SrcPort, TrafficClass: b.Route.TrafficClass, HopLimit: b.Route.HopLimit}
			c.mu.Lock()
			c.sent[dg.Src]++
			dev := c.ends[dg.Dst]
			if c.cut {
				dev = nil
			}
			c.mu.Unlock()
			if dev != nil {
				dev.Receive([]wire.Datagram{dg})
			}
		}
	}
}

func (c *cable) sentFrom(a netip.Addr) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.sent[a]
}

func (*cable) Join(wire.GID) error  { return nil }
func (*cable) Leave(wire.GID) error { return nil }
func (*cable) Now() rxe.Time        { return 1 }
func (*cable) Arm(rxe.Time)         {}

// newPort makes the port of a device at an end of the cable.
func newPort(t testing.TB, c *cable, addr netip.Addr) *Port {
	t.Helper()
	mux := gsi.New(gsi.Config{Counters: gsi.NewPortCounters(func() wire.PortCounters { return wire.PortCounters{RcvErrors: 7} })})
	dev := must.Get[*rxe.Device](t)(rxe.New(rxe.Config{Name: "rxe0", GUID: 0x1234, Link: c, Clock: c, Seed: [32]byte{1}, GSI: mux}))
	must.OK(t, dev.SetGIDs([]wire.GID{wire.GIDFromAddr(addr)}))
	must.OK(t, dev.SetPort(rxe.PortActive, 4096))
	c.mu.Lock()
	c.ends[addr] = dev
	c.mu.Unlock()
	p := New(mux, sma.New(dev, "a node"))
	mux.Start(dev)
	t.Cleanup(func() {
		mux.Close()
		_ = dev.Close()
	})
	return p
}

// pair makes two ports with a cable.
func pair(t testing.TB) (c *cable, a, b *Port) {
	c = &cable{ends: make(map[netip.Addr]*rxe.Device), sent: make(map[netip.Addr]int)}
	return c, newPort(t, c, here), newPort(t, c, there)
}

// program is a Handler that keeps what it hears.
type program struct {
	t        testing.TB
	received chan *Datagram
	ended    chan ending
}

type ending struct {
	context  any
	timedOut bool
}

func newProgram(t testing.TB) *program {
	return &program{t, make(chan *Datagram, 16), make(chan ending, 1024)}
}

func (p *program) Received(_ *Agent, d *Datagram)         { p.received <- d }
func (p *program) Ended(_ *Agent, context any, late bool) { p.ended <- ending{context, late} }

// next waits for a datagram.
func (p *program) next() *Datagram {
	p.t.Helper()
	select {
	case d := <-p.received:
		return d
	case <-time.After(wait):
		p.t.Fatal("no datagram came")
	}
	panic("unreachable")
}

// end waits for the end of what was sent with a context.
func (p *program) end(context any, timedOut bool) {
	p.t.Helper()
	select {
	case e := <-p.ended:
		if e.context != context || e.timedOut != timedOut {
			p.t.Errorf("ended: %+v, want %v, %v", e, context, timedOut)
		}
	case <-time.After(wait):
		p.t.Fatal("what was sent has not ended")
	}
}

// quiet reports what the program has not read.
func (p *program) quiet() {
	p.t.Helper()
	if len(p.received) != 0 || len(p.ended) != 0 {
		p.t.Errorf("%d datagrams, and %d ends", len(p.received), len(p.ended))
	}
}

const vendor wire.MADClass = 0x32

var oui = [3]byte{0, 0x14, 5}

func methods(list ...wire.MADMethod) (m Methods) {
	for _, n := range list {
		m[n/32] |= 1 << (n % 32)
	}
	return m
}

// client may send to queue pair qpn; server answers requests of the vendor class.
func client(qpn wire.QPN) Registration { return Registration{QPN: qpn} }

var server = Registration{QPN: 1, Class: vendor, Version: 1, Methods: methods(wire.MADGet, wire.MADSet), OUI: oui}

func (p *program) register(port *Port, r Registration) *Agent {
	p.t.Helper()
	return must.Get[*Agent](p.t)(port.Register(r, p))
}

// message returns a datagram with a pattern for its data.
func message(class wire.MADClass, method wire.MADMethod, attribute uint16) *wire.MAD {
	m := new(wire.MAD)
	m.Init(&wire.MADHeader{Class: class, ClassVersion: 1, Method: method, TID: 0xdead_beef_0000_0042, Attribute: attribute})
	if hasOUI(class) {
		copy(m[offVendorOUI:], oui[:])
	}
	return m
}

// to returns a request that goes over the wire.
func to(addr netip.Addr, m *wire.MAD) *Request {
	return &Request{MAD: m, GRH: true, To: rxe.AHAttr{DGID: wire.GIDFromAddr(addr), PortNum: 1}, Dest: wire.GSIQPN,
		Timeout: time.Hour, Context: m}
}

// local returns a request that stays at the port.
func local(m *wire.MAD) *Request { return &Request{MAD: m, Timeout: time.Hour, Context: m} }
