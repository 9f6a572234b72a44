package inject

import (
	"slices"

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
	var hits [hitsPerPacket]fault.Hit
	for i := range bursts {
		switch b := &bursts[i]; {
		case l.wants(b):
			o = l.sendEach(b, bursts[:i], o, hits[:0])
		case o != nil:
			o.bursts = append(o.bursts, *b)
		}
	}
	if o == nil {
		next.Send(bursts)
		return
	}
	o.pass(next)
	l.outs.Put(o)
}

// sendEach judges each packet of a burst, behind the bursts before it. It returns o, or a new one
// if something is not passed on as it is.
func (l *Link) sendEach(b *wire.Burst, before []wire.Burst, o *out, hits []fault.Hit) *out {
	toSelf := l.dev.HasAddr(b.Route.Dst)
	p := fault.Packet{Src: b.Route.Src, Dst: b.Route.Dst}
	from, at := 0, 0 // of what is not in o; of the packet
	for j := range b.N() {
		pkt := b.Packet(j)
		data := pkt[:len(pkt)-wire.ICRCLen]
		src, dest := ends(data, b.Route.SrcQP)
		p.Put(data, src, dest)
		hit := l.judge(&p, toSelf, true, hits)
		start := at
		at += len(pkt)
		if len(hit) == 0 && l.heldOut.none() {
			continue
		}
		if o == nil {
			o = l.outs.Get().(*out)
			o.bursts = append(o.bursts, before...)
		}
		goes := true
		if len(hit) == 0 {
			o.run(b, from, at)
		} else {
			o.run(b, from, start)
			goes = l.hit(hit, &p, b, pkt, o)
		}
		from = at
		if goes {
			o.bursts = append(o.bursts, l.heldOut.passed(flowOf(&p))...)
		}
	}
	if o != nil {
		o.run(b, from, len(b.Buf))
	}
	return o
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

// hit does to a packet what rules say. It reports whether the packet goes its way now.
func (l *Link) hit(hits []fault.Hit, p *fault.Packet, b *wire.Burst, pkt []byte, o *out) bool {
	e := effectOf(hits, pkt[:len(pkt)-wire.ICRCLen])
	one := wire.Burst{Route: b.Route, Buf: pkt, Seg: len(pkt)}
	if l.tapped() {
		one.Note = note(hits)
	}
	if e.lost {
		o.pass(l.next) // a capture has the lost packet behind those before it
		l.next.Lose([]wire.Burst{one})
		return false
	}
	if e.changed {
		one.Buf = append(e.data, make([]byte, wire.ICRCLen)...)
		one.Seg, one.Damage = len(one.Buf), e.damage
	}
	if class := e.class(one.Route.TrafficClass); class != one.Route.TrafficClass {
		route := *one.Route
		route.TrafficClass = class
		one.Route = &route
	}
	if e.keeper == nil {
		o.bursts = append(o.bursts, one)
		for range e.copies {
			o.bursts = append(o.bursts, own(one))
		}
		return true
	}
	for range 1 + e.copies {
		l.keepSent(&e, p, own(one))
	}
	return false
}

// keepSent keeps a packet that the device has sent.
func (l *Link) keepSent(e *effect, p *fault.Packet, one wire.Burst) {
	k := &late{hit: *e.keeper, sent: one, due: e.keeper.Due(e.wait)}
	if e.hold != nil {
		if k.take = l.heldOut.hold(flowOf(p), e.hold.By, one); k.take == nil {
			e.hold.NoRoom()
			l.next.Lose([]wire.Burst{one})
			return
		}
	}
	if l.later.Load().add(k) {
		return
	}
	if k.take != nil {
		k.take()
	}
	if l.tapped() {
		one.Note += "; lost by fault rule " + k.hit.Label() + ": no room to keep it"
	}
	l.next.Lose([]wire.Burst{one})
}

// own returns a copy of a burst that the device does not use again.
func own(b wire.Burst) wire.Burst {
	route := *b.Route
	b.Route, b.Buf = &route, slices.Clone(b.Buf)
	return b
}
