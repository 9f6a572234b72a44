package faultlink

import (
	"cmp"
	"slices"
	"time"

	"github.com/gorxe/gorxe/internal/engine"
	"github.com/gorxe/gorxe/internal/fault"
	"github.com/gorxe/gorxe/wire"
)

// out is what one call of Send passes on instead of what it was given.
type out struct {
	bursts []wire.Burst
}

// Send implements engine.Decorator.
func (l *Link) Send(bursts []wire.Burst, next engine.Carrier) {
	if l.ports.down.Load() {
		return
	}
	var o *out // nil: everything before is passed on as it is
	for i := range bursts {
		b := &bursts[i]
		toSelf := l.dev.HasAddr(b.Route.Dst)
		p := fault.Packet{Src: b.Route.Src, Dst: b.Route.Dst}
		from := 0 // of what is not in o
		for j, at := 0, 0; j < b.N(); j++ {
			pkt := b.Packet(j)
			p.Data = pkt[:len(pkt)-wire.ICRCLen]
			p.SrcQP, p.DestQP = ends(p.Data, b.Route.SrcQP)
			hit, ok := l.judge(&p, toSelf, true)
			start := at
			at += len(pkt)
			if !ok && l.heldOut.none() {
				continue
			}
			end := start
			if !ok {
				end = at
			}
			if o == nil {
				o = l.outs.Get().(*out)
				o.bursts = append(o.bursts, bursts[:i]...)
			}
			o.run(b, from, end)
			from = at
			if !ok || l.hit(hit, &p, b, pkt, o) {
				o.bursts = append(o.bursts, l.heldOut.passed(flowOf(&p))...)
			}
		}
		if o != nil {
			o.run(b, from, len(b.Buf))
		}
	}
	if o == nil {
		next.Send(bursts)
		return
	}
	o.pass(next)
	l.outs.Put(o)
}

// pass passes on what was collected.
func (o *out) pass(next engine.Carrier) {
	if len(o.bursts) > 0 {
		next.Send(o.bursts)
	}
	clear(o.bursts)
	o.bursts = o.bursts[:0]
}

// run passes on a run of packets of a burst, if there is one.
func (o *out) run(b *wire.Burst, from, to int) {
	if from < to {
		o.bursts = append(o.bursts, wire.Burst{Route: b.Route, Buf: b.Buf[from:to:to], Seg: b.Seg})
	}
}

// hit does to a packet what a rule says. It reports whether the packet goes its way now.
func (l *Link) hit(h fault.Hit, p *fault.Packet, b *wire.Burst, pkt []byte, o *out) bool {
	one := wire.Burst{Route: b.Route, Buf: pkt, Seg: len(pkt)}
	switch h.What {
	case fault.Drop, fault.Silent, fault.HalfOpen:
		o.pass(l.next) // a capture has the lost packet behind those before it
		l.next.Lose([]wire.Burst{one})
		return false
	case fault.Delay:
		l.delay(late{sent: own(one), due: h.Due(h.Wait())})
		return false
	case fault.Reorder:
		one = own(one)
		l.delay(late{sent: one, take: l.heldOut.hold(flowOf(p), h.By, one), due: h.Due(holdTime(h))})
		return false
	case fault.Duplicate:
		o.bursts = append(o.bursts, one)
		for range max(h.Copies, 1) {
			o.bursts = append(o.bursts, own(one))
		}
		return true
	case fault.Corrupt:
		one = own(one)
		one.Damage = corrupt(h, one.Buf[:len(pkt)-wire.ICRCLen])
	case fault.Truncate:
		one = own(one)
		one.Buf = one.Buf[:h.Length+wire.ICRCLen]
		one.Seg = len(one.Buf)
	case fault.Shape:
		return l.shape(h, p, one, o)
	case fault.Mark:
		route := *b.Route
		route.TrafficClass |= congested
		one.Route = &route
	default: // the grammar has no other fault of a packet
	}
	o.bursts = append(o.bursts, one)
	return true
}

// shape lets a packet pass a link. It reports whether the packet goes its way now.
func (l *Link) shape(h fault.Hit, p *fault.Packet, one wire.Burst, o *out) bool {
	pass := h.Shape(p)
	if pass.Lost {
		o.pass(l.next)
		l.next.Lose([]wire.Burst{one})
		return false
	}
	if pass.Mark && one.Route.TrafficClass&congested != 0 {
		route := *one.Route
		route.TrafficClass |= congested
		one.Route = &route
	}
	if pass.Wait > 0 {
		l.delay(late{sent: own(one), due: h.Due(pass.Wait)})
		return false
	}
	o.bursts = append(o.bursts, one)
	return true
}

// congested is the ECN codepoint "congestion experienced" (RFC 3168).
const congested = 3

// corrupt changes a packet and returns the damage to its ICRC.
func corrupt(h fault.Hit, data []byte) (damage uint32) {
	switch {
	case h.DamagesICRC():
		return ^uint32(0)
	case h.Bit != nil:
		was := slices.Clone(data)
		data[*h.Bit/8] ^= 0x80 >> (*h.Bit % 8)
		return wire.DamageOf(was, data)
	default:
		h.ChangeField(data)
		return 0
	}
}

// own returns a copy of a burst that the device does not use again.
func own(b wire.Burst) wire.Burst {
	route := *b.Route
	b.Route, b.Buf = &route, slices.Clone(b.Buf)
	return b
}

// delay queues a packet. If the queue is full, the packet is lost.
func (l *Link) delay(p late) {
	if l.later.Load().add(p) {
		return
	}
	if p.take != nil {
		p.take()
	}
	if p.sent.Route != nil {
		l.next.Lose([]wire.Burst{p.sent})
	}
}

// holdTime is how long a packet waits for those that overtake it. Those may never come.
func holdTime(h fault.Hit) time.Duration { return cmp.Or(h.Time, 20*time.Millisecond) }
