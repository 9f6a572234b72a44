package faultlink

import (
	"slices"

	"github.com/gorxe/gorxe/internal/fault"
	"github.com/gorxe/gorxe/wire"
)

// Receive implements engine.Decorator.
func (l *Link) Receive(batch []wire.Datagram, next func([]wire.Datagram)) {
	if l.ports.down.Load() {
		return
	}
	var kept []wire.Datagram // instead of batch; nil: all of it so far
	for i := range batch {
		d := &batch[i]
		p := fault.Packet{Data: d.Data, Src: d.Src, Dst: d.Dst}
		p.SrcQP, p.DestQP = ends(d.Data, 0)
		hit, ok := l.judge(&p, true, false)
		if !ok && l.heldIn.none() {
			if kept != nil {
				kept = append(kept, *d)
			}
			continue
		}
		if kept == nil {
			kept = append(make([]wire.Datagram, 0, len(batch)), batch[:i]...)
		}
		if !ok {
			kept = append(kept, *d)
		} else {
			kept, ok = l.arrive(hit, &p, d, kept)
			if !ok {
				continue
			}
		}
		kept = append(kept, l.heldIn.passed(flowOf(&p))...)
	}
	if kept == nil {
		kept = batch
	}
	if len(kept) > 0 {
		next(kept)
	}
}

// arrive is hit for a packet from the network, whose ICRC was right and is no longer there.
func (l *Link) arrive(h fault.Hit, p *fault.Packet, d *wire.Datagram, kept []wire.Datagram) ([]wire.Datagram, bool) {
	one := *d
	switch h.What {
	case fault.Drop, fault.Silent, fault.HalfOpen:
		return kept, false
	case fault.Delay:
		one.Data = slices.Clone(d.Data)
		l.delay(late{came: one, due: h.Due(h.Wait())})
		return kept, false
	case fault.Reorder:
		one.Data = slices.Clone(d.Data)
		l.delay(late{came: one, take: l.heldIn.hold(flowOf(p), h.By, one), due: h.Due(holdTime(h))})
		return kept, false
	case fault.Duplicate:
		for range max(h.Copies, 1) {
			kept = append(kept, one)
		}
	case fault.Corrupt:
		one.Data = slices.Clone(d.Data)
		if corrupt(h, one.Data) != 0 {
			l.eng.Port().Counters().ICRCErrors.Add(1)
			return kept, false
		}
	case fault.Truncate:
		one.Data = d.Data[:h.Length]
	case fault.Shape:
		pass := h.Shape(p)
		if pass.Mark && one.TrafficClass&congested != 0 {
			one.TrafficClass |= congested
		}
		switch {
		case pass.Lost:
			return kept, false
		case pass.Wait > 0:
			one.Data = slices.Clone(d.Data)
			l.delay(late{came: one, due: h.Due(pass.Wait)})
			return kept, false
		}
	case fault.Mark:
		one.TrafficClass |= congested
	default: // as in hit
	}
	return append(kept, one), true
}
