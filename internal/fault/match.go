package fault

import (
	"net/netip"
	"time"

	"github.com/gorxe/gorxe/wire"
)

// Packet is a packet that may be hit.
type Packet struct {
	Device        string
	Data          []byte // from the BTH to the pad
	Src, Dst      netip.Addr
	SrcQP, DestQP wire.QPN               // SrcQP is 0 if the packet does not tell it
	Mine          Direction              // which of its ends belong to the owner of the set
	Of            func(wire.QPN) Process // of a queue pair

	parsed bool
	length int // of the payload, if parsed; -1: it does not parse
}

// Put makes p another packet of the same route.
func (p *Packet) Put(data []byte, src, dest wire.QPN) {
	p.Data, p.SrcQP, p.DestQP, p.parsed = data, src, dest, false
}

// Process is the process that has opened a device.
type Process struct {
	PID     int
	Command string // its name
	Label   string // that of its session
}

// Hit is a rule that fires.
type Hit struct {
	*Rule
	n    uint64    // the candidate's number
	at   time.Time // when it came
	pass Passage   // of a Shape rule
	of   *entry
}

// Packet adds the rules that fire for a packet to hits, of those that are for a whole device or of
// the others. Each rule counts the packet if it is a candidate. After one that loses it, lost is
// true, and no further rule sees the packet.
func (s *Set) Packet(p *Packet, wholeDevice bool, hits []Hit) (all []Hit, lost bool) {
	x := s.index(listOf(WherePacket, wholeDevice))
	if len(x.all) == 0 || len(p.Data) < wire.BTHLen {
		return hits, false
	}
	op := wire.Opcode(p.Data[0])
	var c candidates
	x.ofPacket(p, &c)
	for e := c.next(); e != nil; e = c.next() {
		if !e.ops.has(op) || !e.rule.selects(p) {
			continue
		}
		n, now, fires := e.decide(s.now)
		if !fires {
			continue
		}
		e.note(Event{Time: now, Device: p.Device, QP: e.rule.local(p), PSN: uint32(psnOf(p.Data)), Opcode: op.String()})
		h := Hit{Rule: &e.rule, n: n, at: now, of: e}
		if h.What == Shape {
			h.pass = h.shape(p)
		}
		if hits = append(hits, h); h.Loses() {
			return hits, true
		}
	}
	return hits, false
}

// Loses reports whether the packet is lost.
func (h Hit) Loses() bool { return loses(h.What) || h.pass.Lost }

// loses reports whether a packet does not survive a fault.
func loses(w What) bool { return w == Drop || w == Silent || w == HalfOpen }

func psnOf(b []byte) wire.PSN {
	return wire.PSN(uint32(b[9])<<16 | uint32(b[10])<<8 | uint32(b[11]))
}

// selects reports whether the packet, whose opcode fits, is a candidate.
func (r *Rule) selects(p *Packet) bool {
	side := r.direction() & p.Mine
	switch {
	case side == 0:
	case r.Device != "" && r.Device != p.Device:
	case r.QP != 0 && !side.has(p.SrcQP == r.QP, p.DestQP == r.QP):
	case r.Peer.IsValid() && !side.has(p.Dst == r.Peer, p.Src == r.Peer):
	case r.limited() && !side.has(r.opened(p, p.SrcQP), r.opened(p, p.DestQP)):
	case r.PSN != nil && psnOf(p.Data) != *r.PSN:
	case r.Size != nil && !r.Size.has(p.payload()):
	case !r.Changes(p.Data):
	default:
		return true
	}
	return false
}

// Changes reports whether a packet has what the rule, if it is one that changes packets, changes.
func (e *Effect) Changes(data []byte) bool {
	switch {
	case e.Length != 0 && uint64(len(data)) <= e.Length: // there is nothing to cut
	case e.Bit != nil && *e.Bit >= 8*uint64(len(data)):
	case e.Field != "" && !e.hasField(wire.Opcode(data[0]), len(data)):
	default:
		return true
	}
	return false
}

// opened reports whether a queue pair belongs to a process that the rule names.
func (r *Rule) opened(p *Packet, n wire.QPN) bool { return r.names(p.Of(n)) }

// limited reports whether these are some processes only.
func (g *Program) limited() bool { return g.PID != 0 || g.Command != "" || g.Label != "" }

// names reports whether a process is one of these.
func (g *Program) names(p Process) bool {
	return (g.PID == 0 || g.PID == uint64(p.PID)) && (g.Command == "" || g.Command == p.Command) &&
		(g.Label == "" || g.Label == p.Label)
}

// has reports whether out is true for a sender, or in for a receiver.
func (d Direction) has(out, in bool) bool { return d&Out != 0 && out || d&In != 0 && in }

func (g *Range) has(n int) bool { return n >= 0 && uint64(n) >= g.Min && uint64(n) <= g.Max }

// payload returns the length of the payload, -1 for a packet that does not parse. All rules share
// it.
func (p *Packet) payload() int {
	if p.parsed {
		return p.length
	}
	p.parsed, p.length = true, -1
	if pkt, err := wire.Parse(p.Data); err == nil {
		p.length = len(pkt.Payload())
	}
	return p.length
}

func (e *Effect) hasField(op wire.Opcode, length int) bool {
	f := findField(e.Field)
	return f == nil || f.in(op) && f.header(op.Info())+f.at+f.bytes <= length
}

// local returns the queue pair within the scope that the packet is about: the sender if it is
// in the scope.
func (s *Scope) local(p *Packet) wire.QPN {
	if s.direction()&p.Mine&Out != 0 && p.SrcQP != 0 {
		return p.SrcQP
	}
	return p.DestQP
}

// decide counts a candidate and reports whether it is hit. The time is set if it is.
func (e *entry) decide(clock func() time.Time) (n uint64, now time.Time, hit bool) {
	r := &e.rule
	e.candidates.Add(1)
	if r.AfterTime != 0 && clock().Before(e.from) {
		return 0, now, false
	}
	if r.Until != 0 && !clock().Before(e.to) {
		return 0, now, false
	}
	if n = e.numbered.Add(1); n <= r.After {
		return n, now, false
	}
	n -= r.After
	switch {
	case r.First != 0 && n > r.First:
	case r.Every != 0 && n%r.Every != 0:
	case r.P != 0 && draw(r.Seed, n, 0) >= r.P:
	case !e.fire(r.Count):
	default:
		return n, clock(), true
	}
	return n, now, false
}

// fire counts a hit, unless there were most already; 0 means that there is no limit.
func (e *entry) fire(most uint64) bool {
	if most == 0 {
		e.fired.Add(1)
		return true
	}
	for {
		n := e.fired.Load()
		if n >= most {
			return false
		}
		if e.fired.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

// draw returns a number from 0 up to 1. It depends only on its arguments, so that threads need
// not agree on an order, and equal traffic meets equal faults. It is SplitMix64 at the place
// that the arguments name.
func draw(seed, n, kind uint64) float64 {
	return float64(mix(mix(mix(seed)+n)+kind)>>11) / (1 << 53)
}

func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// Due returns the time that comes a while after the candidate. It does not depend on how long the
// caller took meanwhile, so equal waits keep the order of packets.
func (h Hit) Due(wait time.Duration) time.Time { return h.at.Add(wait) }

// Wait returns how long a Delay rule delays the candidate.
func (h Hit) Wait() time.Duration {
	if h.Jitter == 0 {
		return h.Time
	}
	return h.Time + time.Duration((2*draw(h.Seed, h.n, 1)-1)*float64(h.Jitter))
}
