package plot

import (
	"time"

	"github.com/gorxe/gorxe/rocev2/capture"
	"github.com/gorxe/gorxe/rocev2/conformance"
	"github.com/gorxe/gorxe/wire"
)

const (
	// MaxFlows is how many flows have charts.
	MaxFlows = 256
	// maxPoints is how many points all charts have together. They take some 8 MB of a page.
	maxPoints = 1 << 20
	// least points are kept of each kind when there are too many.
	least = 256
)

// Collector collects the points and the series. It is for one goroutine.
type Collector struct {
	Start time.Time // times count from here; zero: from the first packet
	// maxPoints bounds the points; 0 means the constant.
	MaxPoints int

	flows   map[*conformance.Flow]*Flow
	order   []*Flow
	points  int
	unseen  map[*conformance.Flow]bool // beyond MaxFlows
	message func(*Message)             // is called for each that ended; nil: none
	packet  func(*Packet)              // is called for each; nil: none
}

// Packet is a packet as a point of a chart.
type Packet struct {
	Flow   *Flow // that the point belongs to, as a request; for a response: its own
	Kind   Kind
	At     time.Duration
	PSN    wire.PSN
	Number int
}

// flow returns the state of a flow; nil if there are too many.
func (c *Collector) flow(of *conformance.Flow) *Flow {
	f := c.flows[of]
	if f != nil {
		return f
	}
	if c.flows == nil {
		c.flows, c.unseen = make(map[*conformance.Flow]*Flow), make(map[*conformance.Flow]bool)
	}
	if len(c.order) == MaxFlows {
		if len(c.unseen) < MaxFlows*MaxFlows {
			c.unseen[of] = true
		}
		return nil
	}
	f = &Flow{of: of}
	c.flows[of] = f
	c.order = append(c.order, f)
	return f
}

// Effect is what a fault rule did to a packet.
type Effect uint8

// The effects.
const (
	Untouched Effect = iota
	Changed          // or delayed, or doubled
	Dropped
)

// kind returns the kind of a packet that a rule hit.
func (e Effect) kind(k Kind) Kind {
	switch {
	case e == Dropped:
		return Lost
	case e == Changed && k.ordinary():
		return Hit
	}
	return k
}

// Add adds a packet. effect is what a fault rule did to it.
func (c *Collector) Add(p *capture.Packet, v *conformance.Verdict, effect Effect) {
	if v.Flow == nil || !v.Parsed || v.ICRC == conformance.ICRCBad {
		return
	}
	if c.Start.IsZero() {
		c.Start = p.Time
	}
	f := c.flow(v.Flow)
	if f == nil {
		return
	}
	at := p.Time.Sub(c.Start)
	if n := v.Flow.Stats.Timeouts; n > f.timeouts {
		last := f.last
		if o := c.flows[v.Flow.Peer]; o != nil {
			last = max(last, o.last)
		}
		f.timedOut(at, at-last, p.Number, n)
	}
	f.last = max(f.last, at)
	info := v.Packet.Info()
	payload := uint64(max(0, p.TransportLen-wire.ICRCLen-info.HeaderLen-v.Packet.Pad()))
	f.bytes.add(at, payload)
	switch {
	case v.Packet.Opcode() == wire.OpCNP:
		c.point(f, &f.came, effect.kind(CNP), at, v.Packet.PSN(), p.Number, f.responses.offset)
	case info.Has(wire.OpResponse):
		k, a := responseKind(v.Packet)
		a.at = at
		c.point(f, &f.came, effect.kind(k), at, v.Packet.PSN(), p.Number, f.responses.place(v.Packet.PSN()))
		if effect != Dropped {
			c.answer(f, a)
		}
	default:
		k := Sent
		if v.Class == conformance.ClassRetransmission || v.Class == conformance.ClassDuplicate {
			k = Again
		}
		c.point(f, &f.sent, effect.kind(k), at, v.Packet.PSN(), p.Number, f.requests.place(v.Packet.PSN()))
		if v.Class == conformance.ClassRetransmission || v.Class == conformance.ClassDuplicate {
			return
		}
		if f.request(at, p.Number, v.Packet, payload) {
			if f.of.Service != wire.ServiceRC && f.of.Service != wire.ServiceXRC {
				c.done(&f.pending[len(f.pending)-1])
				f.pending = nil // no acknowledgement comes
				return
			}
			f.depth.add(at, uint64(len(f.pending)))
		}
	}
}

// answer gives a response to the flow of the requests, as soon as that is known.
func (c *Collector) answer(f *Flow, a answer) {
	if f.of.Peer == nil {
		if len(f.early) < maxEarly {
			f.early = append(f.early, a)
		}
		return
	}
	o := c.flow(f.of.Peer)
	if o == nil {
		return
	}
	for _, e := range f.early {
		o.answered(e, c.done)
	}
	f.early = nil
	o.answered(a, c.done)
}

func (c *Collector) done(m *Message) {
	if c.message != nil {
		c.message(m)
	}
}

// point keeps a point of one side of a flow, and thins all if there are too many.
func (c *Collector) point(f *Flow, side *[kinds]list, k Kind, at time.Duration, psn wire.PSN, number int, place int64) {
	if c.packet != nil {
		c.packet(&Packet{f, k, at, psn, number})
		return
	}
	if !side[k].add(point{at, place, number}) {
		return
	}
	most := maxPoints
	if c.MaxPoints > 0 {
		most = c.MaxPoints
	}
	if c.points++; c.points > most {
		c.thin(false)
		if c.points > most*3/4 {
			c.thin(true)
		}
	}
}

// thin drops every second point of long lists: of ordinary kinds, or of all.
func (c *Collector) thin(all bool) {
	for _, f := range c.order {
		for _, side := range [...]*[kinds]list{&f.sent, &f.came} {
			for k := range side {
				if l := &side[k]; len(l.points) > least && (all || Kind(k).ordinary()) {
					c.points -= l.thin()
				}
			}
		}
	}
}
