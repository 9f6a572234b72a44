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
	link *link     // of a Shape rule
}

// Packet returns the first rule that fires for a packet, of those that are for a whole device or
// of the others. Each rule before it counts the packet if it is a candidate, and no rule after
// it does.
func (s *Set) Packet(p *Packet, wholeDevice bool) (h Hit, ok bool) {
	list := s.list(listOf(WherePacket, wholeDevice))
	if len(list) == 0 || len(p.Data) < wire.BTHLen {
		return h, false
	}
	op := wire.Opcode(p.Data[0])
	for _, e := range list {
		if !e.ops.has(op) || !e.rule.selects(p) {
			continue
		}
		if n, now, fires := e.decide(s.now); fires {
			e.note(Event{Time: now, Device: p.Device, QP: e.rule.local(p), PSN: uint32(psnOf(p.Data)), Opcode: op.String()})
			return Hit{&e.rule, n, now, &e.link}, true
		}
	}
	return h, false
}

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
	case r.process() && !side.has(r.opened(p, p.SrcQP), r.opened(p, p.DestQP)):
	case r.PSN != nil && psnOf(p.Data) != *r.PSN:
	case r.Size != nil && !r.Size.has(payloadOf(p.Data)):
	case r.Length != 0 && uint64(len(p.Data)) <= r.Length: // there is nothing to cut
	case r.Bit != nil && *r.Bit >= 8*uint64(len(p.Data)):
	case r.Field != "" && !r.hasField(wire.Opcode(p.Data[0]), len(p.Data)):
	default:
		return true
	}
	return false
}

// opened reports whether a queue pair belongs to a process that the rule names.
func (r *Rule) opened(p *Packet, n wire.QPN) bool { return r.names(p.Of(n)) }

// process reports whether the rule is only for some processes.
func (r *Rule) process() bool { return r.PID != 0 || r.Command != "" || r.Label != "" }

// names reports whether the rule is for a process.
func (r *Rule) names(p Process) bool {
	return (r.PID == 0 || r.PID == uint64(p.PID)) && (r.Command == "" || r.Command == p.Command) && (r.Label == "" || r.Label == p.Label)
}

// has reports whether out is true for a sender, or in for a receiver.
func (d Direction) has(out, in bool) bool { return d&Out != 0 && out || d&In != 0 && in }

func (g *Range) has(n int) bool { return n >= 0 && uint64(n) >= g.Min && uint64(n) <= g.Max }

// payloadOf returns the length of the payload, -1 for a packet that does not parse.
func payloadOf(b []byte) int {
	p, err := wire.Parse(b)
	if err != nil {
		return -1
	}
	return len(p.Payload())
}

func (r *Rule) hasField(op wire.Opcode, length int) bool {
	f := findField(r.Field)
	return f == nil || f.in(op) && f.header(op.Info())+f.at+f.bytes <= length
}

// local returns the queue pair within the scope that the packet is about: the sender if it is
// in the scope.
func (r *Rule) local(p *Packet) wire.QPN {
	if r.direction()&p.Mine&Out != 0 && p.SrcQP != 0 {
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
