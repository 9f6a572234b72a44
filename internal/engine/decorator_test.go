package engine

import (
	"bytes"
	"net/netip"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/gorxe/gorxe/internal/test/must"
	"github.com/gorxe/gorxe/rxe"
	"github.com/gorxe/gorxe/wire"
)

// everyNth drops every nth packet that the device sends, and counts all of them.
type everyNth struct {
	everything
	n              int64
	sent, received atomic.Int64
}

func (d *everyNth) Send(bursts []wire.Burst, next Carrier) {
	for i := range bursts {
		for j := range bursts[i].N() {
			if d.sent.Add(1)%d.n == 0 {
				continue
			}
			p := bursts[i].Packet(j)
			next.Send([]wire.Burst{{Route: bursts[i].Route, Buf: p, Seg: len(p)}})
		}
	}
}

func (d *everyNth) Receive(batch []wire.Datagram, next func([]wire.Datagram)) {
	d.received.Add(int64(len(batch)))
	next(batch)
}

func newDecoratedHost(t *testing.T, addr string, d Decorator) *host {
	t.Helper()
	return newHostOf(t, Config{Name: "rxe0", Address: netip.MustParseAddr(addr), Decorator: d})
}

// transfer copies the answering half of a's memory to b's, 4 KiB at a time.
func transfer(t *testing.T, a, b *host, q *queue) {
	t.Helper()
	for i := range a.mem.b[:silentVA] {
		a.mem.b[i] = byte(i*7 + i>>8)
	}
	for va := uint64(0); va < silentVA; va += 4096 {
		q.write(va, b.mr.RKey())
		if s := q.wait(); s != rxe.WCSuccess {
			t.Fatalf("WRITE at %#x: %v", va, s)
		}
	}
	if !bytes.Equal(a.mem.b[:silentVA], b.mem.b[:silentVA]) {
		t.Error("the bytes that arrived are others")
	}
}

// retransmits reads how many packets a queue pair has sent again.
func retransmits(q *queue) uint64 {
	for _, c := range q.qp.Counters() {
		if c.Name == "retransmits" {
			return c.Value
		}
	}
	return 0
}

const soon = 12 // a local ACK timeout of 16.8 ms

// A decorator sees every packet between two queue pairs of one device, and RC
// recovers what it drops.
func TestDecoratorWithinDevice(t *testing.T) {
	const addr = "127.78.0.21"
	d := &everyNth{n: 7}
	h := newDecoratedHost(t, addr, d)
	q, p := newQueue(h), newQueue(h)
	q.connect(addr, p.qp.Num(), soon)
	p.connect(addr, q.qp.Num(), soon)
	for va := range h.mem.b[:silentVA] {
		h.mem.b[va] = byte(va*7 + va>>8)
	}
	want := slices.Clone(h.mem.b[:silentVA])
	// Each piece goes to the place of the one before it, because lost bytes would
	// be right if it went to its own.
	for va := uint64(4096); va < silentVA; va += 4096 {
		_, err := q.qp.PostSend([]rxe.SendWR{{Op: rxe.WRWrite, RemoteAddr: va - 4096, RKey: h.mr.RKey(),
			SGL: []rxe.SGE{{Addr: va, Length: 4096, LKey: h.mr.LKey()}}}})
		must.OK(t, err)
		if s := q.wait(); s != rxe.WCSuccess {
			t.Fatalf("WRITE from %#x: %v", va, s)
		}
	}
	if !bytes.Equal(h.mem.b[:silentVA-4096], want[4096:]) {
		t.Error("the bytes that arrived are others")
	}
	if d.sent.Load() < 35 || retransmits(q) == 0 || d.received.Load() != 0 {
		t.Errorf("%d packets seen, %d sent again, %d came from the network", d.sent.Load(), retransmits(q), d.received.Load())
	}
}

// Between two devices it sees both directions.
func TestDecoratorAcrossDevices(t *testing.T) {
	const here, there = "127.78.0.22", "127.78.0.23"
	d := &everyNth{n: 7}
	a, b := newDecoratedHost(t, here, d), newHost(t, there)
	q, p := newQueue(a), newQueue(b)
	q.connect(there, p.qp.Num(), soon)
	p.connect(here, q.qp.Num(), soon)
	transfer(t, a, b, q)
	if d.sent.Load() < 32 || retransmits(q) == 0 || d.received.Load() == 0 {
		t.Errorf("%d packets seen, %d sent again, %d received", d.sent.Load(), retransmits(q), d.received.Load())
	}
}

// late passes on every packet from a goroutine of its own.
type late struct {
	everything
	bursts chan wire.Burst
	next   chan Carrier
}

func (d *late) Send(bursts []wire.Burst, next Carrier) {
	for i := range bursts {
		route := *bursts[i].Route
		d.bursts <- wire.Burst{Route: &route, Buf: slices.Clone(bursts[i].Buf), Seg: bursts[i].Seg}
	}
	select {
	case d.next <- next:
	default:
	}
}

// everything is for decorators that get all packets.
type everything struct{}

func (everything) Concerns(wire.QPN, wire.QPN) bool { return true }
func (everything) Wants([]wire.Burst) bool          { return true }

func (d *late) Receive(batch []wire.Datagram, next func([]wire.Datagram)) { next(batch) }

func (d *late) run() {
	next := <-d.next
	for b := range d.bursts {
		next.SendLater([]wire.Burst{b})
	}
}

// Packets that a decorator passes on later arrive, within a device as well.
func TestDecoratorLater(t *testing.T) {
	const here, there = "127.78.0.24", "127.78.0.25"
	for name, to := range map[string]string{"within": here, "across": there} {
		t.Run(name, func(t *testing.T) {
			d := &late{bursts: make(chan wire.Burst, 1024), next: make(chan Carrier, 1)}
			ended := make(chan struct{})
			go func() { d.run(); close(ended) }()
			a := newDecoratedHost(t, here, d)
			b := a
			if to == there {
				b = newHost(t, there)
			}
			q, p := newQueue(a), newQueue(b)
			q.connect(to, p.qp.Num(), ackTimeout)
			p.connect(here, q.qp.Num(), ackTimeout)
			transfer(t, a, b, q)
			must.OK(t, q.qp.Modify(&rxe.QPAttr{State: rxe.QPReset}, rxe.QPAttrState))
			must.OK(t, p.qp.Modify(&rxe.QPAttr{State: rxe.QPReset}, rxe.QPAttrState))
			close(d.bursts)
			<-ended
		})
	}
}

// mads counts what reaches queue pair 1, and answers it.
type mads struct {
	t        *testing.T
	dev      *rxe.Device
	answer   bool
	received chan string
}

func (m *mads) ReceiveGSI(pkt wire.Packet, from *wire.Datagram) {
	if m.answer {
		must.OK(m.t, m.dev.SendGSI(rxe.AHAttr{DGID: wire.GIDFromAddr(from.Src), PortNum: 1}, pkt.SrcQP(), []byte("answered")))
	}
	m.received <- string(pkt.Payload())
}

// Queue pairs 1 of two running devices talk to each other.
func TestGSI(t *testing.T) {
	const here, there = "127.78.0.26", "127.78.0.27"
	asks, answers := &mads{t: t, received: make(chan string, 1)}, &mads{t: t, answer: true, received: make(chan string, 1)}
	for addr, m := range map[string]*mads{here: asks, there: answers} {
		h := newHostOf(t, Config{Name: "rxe0", Address: netip.MustParseAddr(addr), GSI: m})
		m.dev = h.e.Device()
	}
	must.OK(t, asks.dev.SendGSI(rxe.AHAttr{DGID: wire.GIDFromAddr(netip.MustParseAddr(there)), PortNum: 1}, rxe.GSIQPN, []byte("asked...")))
	if got := [2]string{<-answers.received, <-asks.received}; got != [2]string{"asked...", "answered"} {
		t.Errorf("received %q", got)
	}
}
