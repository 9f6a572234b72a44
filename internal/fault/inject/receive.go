package inject

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
	var hits [hitsPerPacket]fault.Hit
	var to wire.QPN // the last packet's, and whether a rule may concern it
	asked, concerned := false, false
	for i := range batch {
		d := &batch[i]
		src, dest := ends(d.Data, 0)
		if !asked || dest != to {
			asked, to, concerned = true, dest, l.concerns(dest, fault.In)
		}
		var hit []fault.Hit
		var p fault.Packet
		if concerned {
			p = fault.Packet{Src: d.Src, Dst: d.Dst}
			p.Put(d.Data, src, dest)
			hit = l.judge(&p, true, false, hits[:0])
		}
		if len(hit) == 0 && (!concerned || l.heldIn.none()) {
			if kept != nil {
				kept = append(kept, *d)
			}
			continue
		}
		if kept == nil {
			kept = append(make([]wire.Datagram, 0, len(batch)), batch[:i]...)
		}
		if len(hit) == 0 {
			kept = append(kept, *d)
		} else {
			var now bool
			if kept, now = l.arrive(hit, &p, d, kept); !now {
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
func (l *Link) arrive(hits []fault.Hit, p *fault.Packet, d *wire.Datagram, kept []wire.Datagram) ([]wire.Datagram, bool) {
	e := effectOf(hits, d.Data)
	if e.lost {
		return kept, false
	}
	if e.damage != 0 {
		l.eng.Port().Counters().ICRCErrors.Add(uint64(1 + e.copies))
		return kept, false
	}
	one := *d
	one.Data, one.TrafficClass = e.data, e.class(d.TrafficClass)
	for range 1 + e.copies {
		if e.keeper == nil {
			kept = append(kept, one)
			continue
		}
		mine := one
		mine.Data = slices.Clone(e.data)
		l.keepCame(&e, p, mine)
	}
	return kept, e.keeper == nil
}

// keepCame keeps a packet that has arrived.
func (l *Link) keepCame(e *effect, p *fault.Packet, one wire.Datagram) {
	k := &late{hit: *e.keeper, came: one, due: e.keeper.Due(e.wait)}
	if e.hold != nil {
		if k.take = l.heldIn.hold(flowOf(p), e.hold.By, one); k.take == nil {
			e.hold.NoRoom()
			return
		}
	}
	if !l.later.Load().add(k) && k.take != nil {
		k.take()
	}
}
