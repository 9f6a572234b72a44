package simnet

import (
	"net/netip"
	"time"

	"github.com/gorxe/gorxe/rxe"
	"github.com/gorxe/gorxe/wire"
)

// Port is one end of the network: the Link and the Clock of a device.
type Port struct {
	net    *Network
	recv   Receiver
	groups map[wire.GID]bool
	icrc   map[wire.Route]wire.ICRCState
	nextID uint16
	txFree rxe.Time // when the last packet has left

	armed  uint64 // generation of the deadline that counts; 0 for none
	gen    uint64
	queue  []*flight // arrived, not handed over yet
	polled bool      // a poll is scheduled
	batch  []wire.Datagram
}

// NewPort returns a port that receives what is sent to addrs. It drops it until
// Attach.
func (n *Network) NewPort(addrs ...netip.Addr) *Port {
	p := &Port{
		net:    n,
		groups: make(map[wire.GID]bool),
		icrc:   make(map[wire.Route]wire.ICRCState),
		nextID: uint16(n.rng.Uint32()),
	}
	for _, a := range addrs {
		n.ports[a.Unmap()] = p
	}
	n.order = append(n.order, p)
	return p
}

// Attach says who takes what arrives.
func (p *Port) Attach(r Receiver) { p.recv = r }

// Now implements rxe.Clock.
func (p *Port) Now() rxe.Time { return p.net.now }

// Arm implements rxe.Clock.
func (p *Port) Arm(deadline rxe.Time) {
	p.gen++
	p.armed = p.gen
	p.net.events.push(event{at: max(deadline, p.net.now), port: p, arm: p.gen})
}

func (p *Port) expire() {
	p.armed = 0
	if p.recv != nil {
		p.recv.Expire()
	}
}

// Join implements rxe.Link.
func (p *Port) Join(mgid wire.GID) error { p.groups[mgid] = true; return nil }

// Leave implements rxe.Link.
func (p *Port) Leave(mgid wire.GID) error { delete(p.groups, mgid); return nil }

// Send implements rxe.Link: it seals each packet and sends it on its way.
func (p *Port) Send(bursts []wire.Burst) {
	for i := range bursts {
		b := &bursts[i]
		icrc := p.state(b.Route)
		for j := range b.N() {
			pkt := b.Packet(j)
			p.nextID += 1 + uint16(p.net.rng.Uint32()&3)
			icrc.Put(pkt, p.nextID)
			p.send(pkt, b.Route, p.nextID)
		}
	}
}

func (p *Port) state(r *wire.Route) wire.ICRCState {
	s, ok := p.icrc[*r]
	if !ok {
		s = wire.NewICRC(r, wire.UDPPort)
		p.icrc[*r] = s
	}
	return s
}

// send draws the fate of one sealed packet.
func (p *Port) send(pkt []byte, r *wire.Route, id uint16) {
	n := p.net
	f := n.newFlight(pkt, r, id)
	if n.Filter != nil && !n.Filter(&f.Packet) || n.chance(n.cfg.Loss) {
		n.note(Lost, f)
		n.release(f)
		return
	}
	if f.Route.TrafficClass&3 != 0 && n.chance(n.cfg.Mark) {
		f.Route.TrafficClass |= 3 // RFC 3168: congestion experienced
	}
	p.txFree = max(p.txFree, n.now) + rxe.Time(n.cfg.PerByte)*rxe.Time(len(pkt))
	at := p.txFree + rxe.Time(n.cfg.Latency)
	if n.chance(n.cfg.Duplicate) {
		n.note(Duplicated, f)
		dup := n.newFlight(pkt, r, id)
		n.fly(dup, at+n.heldBack())
	}
	switch {
	case n.chance(n.cfg.Corrupt):
		n.note(Corrupted, f)
		n.damage(f)
	case n.chance(n.cfg.Reorder):
		n.note(Reordered, f)
		at += n.heldBack()
	default:
		n.note(Sent, f)
	}
	n.fly(f, at)
}

func (n *Network) fly(f *flight, at rxe.Time) { n.events.push(event{at: at, flight: f}) }

func (n *Network) chance(p float64) bool { return p > 0 && n.rng.Float64() < p }

func (n *Network) heldBack() rxe.Time {
	if n.cfg.ReorderBy <= 0 {
		return 0
	}
	return rxe.Time(n.rng.Int64N(int64(n.cfg.ReorderBy)))
}

// damage flips bits anywhere in what the ICRC covers, or cuts the tail off.
func (n *Network) damage(f *flight) {
	if n.rng.IntN(16) == 0 {
		f.Data = f.Data[:n.rng.IntN(len(f.Data))]
		return
	}
	const headerBits = 32 // identification and source port
	for range 1 + n.rng.IntN(1+n.rng.IntN(8)) {
		switch bit := n.rng.IntN(headerBits + 8*len(f.Data)); {
		case bit < 16:
			f.ID ^= 1 << bit
		case bit < headerBits:
			f.Route.SrcPort ^= 1 << (bit - 16)
		default:
			bit -= headerBits
			f.Data[bit/8] ^= 1 << (bit % 8)
		}
	}
}

// arrive puts a packet into the queues of those it is for.
func (n *Network) arrive(f *flight) {
	if f.Route.Dst.IsMulticast() {
		g := wire.GIDFromAddr(f.Route.Dst)
		for _, p := range n.order {
			if p.groups[g] {
				p.take(n.newFlight(f.Data, &f.Route, f.ID))
			}
		}
		n.release(f)
		return
	}
	p := n.ports[f.Route.Dst.Unmap()]
	if p == nil {
		n.release(f)
		return
	}
	p.take(f)
}

// pollDelay spreads the hand-over, so that batches of more than one form.
const pollDelay = 3 * time.Microsecond

func (p *Port) take(f *flight) {
	n := p.net
	s := wire.ICRCState{}
	if f.Route.SrcPort != 0 || len(f.Data) > 0 {
		s = wire.NewICRC(&f.Route, wire.UDPPort)
	}
	if !s.Check(f.Data, f.ID, true) {
		n.note(Discarded, f)
		n.release(f)
		return
	}
	p.queue = append(p.queue, f)
	p.schedulePoll()
}

func (p *Port) schedulePoll() {
	if p.polled {
		return
	}
	p.polled = true
	at := p.net.now + rxe.Time(p.net.rng.Int64N(int64(pollDelay)))
	p.net.events.push(event{at: at, port: p})
}

// poll hands a batch of what has arrived to the receiver.
func (p *Port) poll() {
	p.polled = false
	k := min(len(p.queue), 1+p.net.rng.IntN(p.net.cfg.MaxBatch))
	p.batch = p.batch[:0]
	for _, f := range p.queue[:k] {
		p.net.note(Delivered, f)
		p.batch = append(p.batch, wire.Datagram{
			Data: f.Data[:len(f.Data)-wire.ICRCLen],
			Src:  f.Route.Src, Dst: f.Route.Dst, SrcPort: f.Route.SrcPort,
			TrafficClass: f.Route.TrafficClass, HopLimit: f.Route.HopLimit,
		})
	}
	if p.recv != nil && k > 0 {
		p.recv.Receive(p.batch)
	}
	for _, f := range p.queue[:k] {
		// The batch was the device's for the call only: spoil it.
		for i := range min(len(f.Data), 64) {
			f.Data[i] = 0xdb
		}
		p.net.release(f)
	}
	p.queue = append(p.queue[:0], p.queue[k:]...)
	if len(p.queue) > 0 {
		p.schedulePoll()
	}
}
