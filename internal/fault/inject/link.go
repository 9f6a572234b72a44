// Package inject does to packets what the fault rules of package fault say. A Link is the
// decorator of one device's engine. Each queue pair has an owner with rules, and some rules
// are for the whole device.
//
// A packet between two queue pairs of the device meets the rules of its sender and those of its
// receiver, as if it had crossed a network. A rule that has both ends in its scope counts it once.
// All rules that fire act, up to one that loses the packet. Packets of queue pairs that no rule may
// concern do not pass the link.
package inject

import (
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/gorxe/gorxe/internal/engine"
	"github.com/gorxe/gorxe/internal/fault"
	"github.com/gorxe/gorxe/rxe"
	"github.com/gorxe/gorxe/wire"
)

// Link applies rules to the packets of a device.
type Link struct {
	name string
	eng  *engine.Engine
	dev  *rxe.Device
	next engine.Carrier
	outs sync.Pool                    // *out
	of   func(wire.QPN) fault.Process // process

	later   atomic.Pointer[later] // nil: there are no rules
	heldOut held[wire.Burst]
	heldIn  held[wire.Datagram]

	wide  atomic.Pointer[[]*fault.Set] // those with rules for packets of the whole device
	works wide                         // likewise, for work requests
	ports portFaults

	mu   sync.Mutex              // below, and of changes
	sets map[*fault.Set]struct{} // those with rules for packets
	old  []*later                // retired, but perhaps not gone
}

// New makes the link of a running engine. The queue pairs' owners are *fault.Set, or something
// else for those that only rules of the whole device hit. Close must be called before the
// engine's.
func New(eng *engine.Engine) *Link {
	l := &Link{
		name: eng.Device().Name(), eng: eng, dev: eng.Device(), next: eng.Carrier(),
		sets: make(map[*fault.Set]struct{}),
	}
	l.of = l.process
	l.outs.New = func() any { return new(out) }
	l.ports.eng, l.ports.name = eng, l.name
	return l
}

// tapped reports whether the packets are captured.
func (l *Link) tapped() bool { return l.eng != nil && l.eng.Tapped() }

// Update looks whether a set has rules for packets. As long as no set has, the device has no
// decorator. Call it after each change of a set, and with an empty set when its owner ends.
func (l *Link) Update(set *fault.Set) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.works.update(set, fault.WherePeer, fault.WhereDevice, fault.WhereCompletion)
	l.later.Load().end(set)
	before := len(l.sets)
	if set.Has(fault.WherePacket, false) || set.Has(fault.WherePacket, true) || set.Has(fault.WherePort, true) {
		l.sets[set] = struct{}{}
	} else {
		delete(l.sets, set)
	}
	var wide, ports []*fault.Set
	for s := range l.sets {
		if s.Has(fault.WherePort, true) {
			ports = append(ports, s)
		}
		if s.Has(fault.WherePacket, true) {
			wide = append(wide, s)
		}
	}
	l.wide.Store(&wide)
	defer l.ports.update(ports)
	switch {
	case before == 0 && len(l.sets) > 0:
		l.later.Store(startLater(l.next.SendLater, l.dev.Receive))
		l.eng.Decorate(l)
	case before > 0 && len(l.sets) == 0:
		l.eng.Decorate(nil)
		q := l.later.Swap(nil)
		q.retire()
		l.old = append(slices.DeleteFunc(l.old, (*later).isGone), q)
	}
}

// Close takes the decorator away. Packets that are still delayed are lost.
func (l *Link) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ports.close()
	clear(l.sets)
	l.eng.Decorate(nil)
	if q := l.later.Swap(nil); q != nil {
		l.old = append(l.old, q)
	}
	for _, q := range l.old {
		q.close()
	}
	l.old = nil
}

// judge returns the rules that hit a packet, in place of those in hits, which is empty.
func (l *Link) judge(p *fault.Packet, toSelf, fromSelf bool, hits []fault.Hit) []fault.Hit {
	p.Device, p.Of = l.name, l.of
	p.Mine = 0
	if fromSelf {
		p.Mine |= fault.Out
	}
	if toSelf {
		p.Mine |= fault.In
	}
	lost := false
	if wide := l.wide.Load(); wide != nil {
		for _, set := range *wide {
			if hits, lost = set.Packet(p, true, hits); lost {
				return hits
			}
		}
	}
	var sender, receiver *fault.Set
	if fromSelf {
		sender = l.owner(p.SrcQP)
	}
	if toSelf {
		receiver = l.owner(p.DestQP)
	}
	if sender != nil {
		p.Mine = fault.Out
		if sender == receiver {
			p.Mine = fault.Either
		}
		if hits, lost = sender.Packet(p, false, hits); lost {
			return hits
		}
	}
	if receiver != nil && receiver != sender {
		p.Mine = fault.In
		hits, _ = receiver.Packet(p, false, hits)
	}
	return hits
}

// Concerns implements engine.Decorator.
func (l *Link) Concerns(src, dest wire.QPN) bool {
	return l.ports.down.Load() || l.concerns(src, fault.Out) || dest != 0 && l.concerns(dest, fault.In)
}

// Wants implements engine.Decorator.
func (l *Link) Wants(bursts []wire.Burst) bool {
	if l.ports.down.Load() {
		return true
	}
	for i := range bursts {
		if l.wants(&bursts[i]) {
			return true
		}
	}
	return false
}

// wants reports whether a rule may concern packets of a burst. Datagrams in one may be for several
// queue pairs.
func (l *Link) wants(b *wire.Burst) bool {
	toSelf := l.dev.HasAddr(b.Route.Dst)
	var last wire.QPN
	for i := range b.N() {
		src, dest := ends(b.Packet(i), b.Route.SrcQP)
		if i == 0 && l.concerns(src, fault.Out) {
			return true
		}
		if toSelf && (i == 0 || dest != last) && l.concerns(dest, fault.In) {
			return true
		}
		if b.Route.SrcQP != 0 {
			return false // all have the same ends
		}
		last = dest
	}
	return false
}

// concerns reports whether a rule may concern packets with a queue pair at one end.
func (l *Link) concerns(n wire.QPN, side fault.Direction) bool {
	q := l.dev.QP(n)
	end := fault.End{QP: n, Side: side, Device: l.name, Of: l.of}
	if q != nil {
		end.Type = q.Type().String()
	}
	if wide := l.wide.Load(); wide != nil {
		for _, set := range *wide {
			if set.Concerns(&end, true) {
				return true
			}
		}
	}
	if q == nil {
		return false
	}
	set, _ := q.Owner().(*fault.Set)
	return set.Concerns(&end, false)
}

// owner returns the rules of a queue pair's owner, or nil.
func (l *Link) owner(n wire.QPN) *fault.Set {
	if q := l.dev.QP(n); q != nil {
		set, _ := q.Owner().(*fault.Set)
		return set
	}
	return nil
}

// Blame returns the rules that explain why the peer of a queue pair gave no answer. With rnr they
// explain why messages found no receive there. The rules are those of the owner's user, and those
// for the whole device.
func (l *Link) Blame(q *rxe.QP, f *rxe.Failure, rnr bool) (rules []string) {
	own, _ := q.Owner().(*fault.Set)
	other := wire.QPN(0)
	var peers *fault.Set
	if l.dev.HasAddr(f.Peer.Addr()) {
		other = f.PeerQPN
		peers = l.owner(other)
	}
	rules = own.Blame(q.Num(), other, rnr)
	if peers != own && peers.SamePayer(own) {
		rules = append(rules, peers.Blame(q.Num(), other, rnr)...)
	}
	for _, wide := range []*[]*fault.Set{l.wide.Load(), l.works.sets.Load()} {
		if wide == nil {
			continue
		}
		for _, set := range *wide {
			switch found := set.Blame(q.Num(), other, rnr); {
			case set == own, set == peers && peers.SamePayer(own):
			case len(found) > 0 && !set.SamePayer(own): // what others wrote is not shown
				rules = append(rules, "of another user, for the whole device")
			default:
				rules = append(rules, found...)
			}
		}
	}
	slices.Sort(rules)
	return slices.Compact(rules)
}

// process returns the process that has opened the device for a queue pair.
func (l *Link) process(n wire.QPN) fault.Process {
	if q := l.dev.QP(n); q != nil {
		if w, ok := q.Faults().(works); ok {
			return w.of.Process
		}
	}
	return fault.Process{}
}

// ends returns the queue pair numbers of a packet. Only datagrams have that of the sender; a
// route has it for connected queue pairs.
func ends(pkt []byte, route wire.QPN) (src, dest wire.QPN) {
	if len(pkt) < wire.BTHLen {
		return route, 0
	}
	dest = number(pkt[5:])
	if at := int(wire.Opcode(pkt[0]).Info().DETH); route == 0 && at > 0 && len(pkt) >= at+wire.DETHLen {
		route = number(pkt[at+5:])
	}
	return route, dest
}

// number reads 24 bits (IBA 9.2).
func number(b []byte) wire.QPN { return wire.QPN(uint32(b[0])<<16 | uint32(b[1])<<8 | uint32(b[2])) }

// flow is the packets that may overtake each other.
type flow struct {
	src, dst netip.Addr
	from, to wire.QPN
}

func flowOf(p *fault.Packet) flow { return flow{p.Src, p.Dst, p.SrcQP, p.DestQP} }
