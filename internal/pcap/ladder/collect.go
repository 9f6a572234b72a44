package ladder

import (
	"bytes"
	"cmp"
	"net/netip"
	"slices"
	"time"

	"github.com/gorxe/gorxe/internal/pcap/plot"
	"github.com/gorxe/gorxe/rocev2/capture"
	"github.com/gorxe/gorxe/rocev2/conformance"
	"github.com/gorxe/gorxe/wire"
)

const (
	// defaultRows is how many packets a Collector keeps if MaxRows is 0.
	defaultRows = 2000
	// Shares of MaxRows, in eighths. The first packets of the capture take at most
	// headShare. Together with the first few of each flow they take at most
	// flowShare, and with the notable ones at most notableShare. The rest is for
	// packets that break a rule.
	headShare    = 5
	flowShare    = 6
	notableShare = 7
	// few is how many first packets are kept of a flow that begins late.
	few = 8
	// around is how many packets are kept before and after a notable one.
	around = 6
	// maxStreams bounds the flows; the packets of others are only counted.
	maxStreams = 1 << 15
	// maxPerRow bounds the findings that one row shows.
	maxPerRow = 16
)

// Collector keeps the packets of a capture that a ladder shows: the first ones of the
// capture and of each flow, and those around notable packets. It is for one goroutine.
type Collector struct {
	Filter Filter
	// MaxRows bounds the packets kept; 0 means defaultRows.
	MaxRows int
	// Story is what else is known of the run whose packets these are; nil: nothing.
	Story *Story
	// Plot collects what the charts of a page show; nil: it has none.
	Plot *plot.Collector
	// MaxPage bounds the page in bytes; 0 means 50 MB.
	MaxPage int

	streams map[streamKey]*stream
	order   []*stream
	rows    map[int]*Row // kept, by number
	start   time.Time
	started bool
	chosen  uint64
	later   []conformance.Finding // about packets that are not kept
	dropped uint64                // findings beyond those
	deeds   deeds                 // of fault rules
	events  int                   // notable packets
	every   int                   // one in so many of them is kept, with those around it; 0 is 1
}

// streamKey names a flow, or the packets between two hosts that belong to none.
type streamKey struct {
	flow     *conformance.Flow
	src, dst netip.Addr
}

type stream struct {
	flow   *conformance.Flow
	first  *Row // for its addresses, if flow is nil
	kept   []*Row
	recent [around]Row // a ring of the last packets that are not kept
	filled int         // rows of the ring in use
	pos    int         // of the next row
	follow int         // packets that will be kept after a notable one
	group  int         // of those
	kinds  remark      // of packets that were seen
	starts []Row       // a ring of the last packets with which messages begin
	start  int         // of the next one
	late   [3]*Row     // see late.go
	seen   uint64
}

// Add adds a packet, if the filter chooses it.
func (c *Collector) Add(p *capture.Packet, v *conformance.Verdict) {
	if !c.started {
		c.start, c.started = p.Time, true
		c.streams, c.rows = make(map[streamKey]*stream), make(map[int]*Row)
	}
	if c.Filter.flow(p, v) {
		c.add(p, v)
		c.plotted(p, v)
	}
	c.Findings(v.Findings)
}

func (c *Collector) add(p *capture.Packet, v *conformance.Verdict) {
	c.chosen++
	key := streamKey{flow: v.Flow}
	if v.Flow == nil {
		key.src, key.dst = p.Src, p.Dst
	}
	s := c.streams[key]
	if s == nil {
		if len(c.order) == maxStreams {
			return
		}
		s = &stream{flow: v.Flow}
		c.streams[key] = s
		c.order = append(c.order, s)
	}
	s.seen++
	slot := &s.recent[s.pos]
	slot.set(p, v)
	slot.index = s.seen
	if s.flow == nil && s.first == nil {
		s.first = slot.clone()
	}
	s.pos = (s.pos + 1) % around
	s.filled = min(s.filled+1, around)

	blamed := slices.ContainsFunc(v.Findings, func(x conformance.Finding) bool {
		return x.Packet == p.Number && x.Severity > conformance.Note
	})
	notable := slot.Notable()
	first := s.remarked(slot) && (notable || !c.Filter.Notable)
	if notable {
		c.events++
	}
	c.begins(s, slot)
	switch {
	case blamed, c.Story.wants(slot):
		c.keepAround(s, c.maxRows(), 0)
	case first, notable && c.events%max(c.every, 1) == 0:
		c.room()
		group := c.events
		if first {
			group = 0
		}
		c.keepAround(s, c.share(notableShare), group)
	case s.follow > 0:
		s.follow--
		c.keepRecent(s, c.share(notableShare), s.group)
	case c.Filter.Notable:
	case len(c.rows) < c.share(headShare):
		c.keepRecent(s, c.share(headShare), 0)
	case len(s.kept) < few:
		c.keepRecent(s, c.share(flowShare), 0)
	}
}

// keepAround keeps the last packets of both directions, and those that follow, up to limit rows in
// all: a NAK says little without the requests around it. group is the number of the notable packet;
// 0: they stay.
func (c *Collector) keepAround(s *stream, limit, group int) {
	c.keepRecent(s, limit, group)
	s.follow, s.group = around, group
	if s.flow == nil || s.flow.Peer == nil {
		return
	}
	if o := c.streams[streamKey{flow: s.flow.Peer}]; o != nil {
		c.keepRecent(o, limit, group)
		o.follow, o.group = around, group
	}
}

func (c *Collector) share(eighths int) int { return (c.maxRows()*eighths + 7) / 8 }

func (c *Collector) maxRows() int { return cmp.Or(max(c.MaxRows, 0), defaultRows) }

// keepRecent keeps the packets of the ring, up to limit rows in all.
func (c *Collector) keepRecent(s *stream, limit, group int) {
	for i := range s.filled {
		if len(c.rows) >= limit {
			return
		}
		r := &s.recent[(s.pos-s.filled+i+around)%around]
		if c.rows[r.Number] == nil {
			k := r.clone()
			k.group = group
			c.rows[k.Number] = k
			s.kept = append(s.kept, k)
		}
	}
	s.filled = 0
}

// clone returns a copy of a row that shares no memory with it.
func (r *Row) clone() *Row {
	k := *r
	k.Findings = slices.Clone(r.Findings)
	k.head, k.sample = bytes.Clone(r.head), bytes.Clone(r.sample)
	if r.parsed {
		k.pkt, _ = wire.Parse(k.head) // as it did before
	}
	return &k
}

// Findings adds findings to the rows of their packets. Add does that for its packet;
// Findings is for those that the end of the capture brings.
func (c *Collector) Findings(all []conformance.Finding) {
	for i := range all {
		x := &all[i]
		if r := c.rows[x.Packet]; r != nil {
			if len(r.Findings) == maxPerRow {
				c.dropped++
				continue
			}
			r.Findings = append(r.Findings, *x)
			continue
		}
		// The packet is not kept, but if it is recent, it still can be.
		if r := c.retrieve(x); r != nil && len(r.Findings) < maxPerRow {
			r.Findings = append(r.Findings, *x)
			continue
		}
		if x.Severity == conformance.Note || len(c.later) >= c.maxRows() {
			c.dropped++
			continue
		}
		c.later = append(c.later, *x)
	}
}

// retrieve keeps a packet that is still in its flow's ring, and returns its row.
func (c *Collector) retrieve(x *conformance.Finding) *Row {
	s := c.streams[streamKey{flow: x.Flow}]
	if s == nil || x.Flow == nil {
		return nil
	}
	for i := range s.filled {
		if s.recent[(s.pos-s.filled+i+around)%around].Number == x.Packet {
			c.keepRecent(s, c.maxRows(), 0)
			return c.rows[x.Packet]
		}
	}
	return nil
}

// Conversation is the packets between two ends: both directions of a connection, the
// datagrams in both directions, or one direction if the other is not known.
type Conversation struct {
	ID          int
	Service     wire.Service
	Left, Right End
	Rows        []*Row // by number
	Packets     uint64 // all of them, of which Rows has those kept
	Stats       []conformance.FlowStats
	// Guessed reports that pcap/pairflows paired the two directions.
	Guessed bool
	// Other are findings about packets that are not kept.
	Other []conformance.Finding

	flows []*conformance.Flow
	left  map[*Row]bool // to the left, although the flow goes to the right
}

// End is one end of a conversation.
type End struct {
	Addr netip.Addr
	QPN  wire.QPN
	// Known reports whether QPN is known. It is not if the end only sends.
	Known bool
}

// OneWay reports whether only one direction was seen.
func (c *Conversation) OneWay() bool { return len(c.flows) == 1 }

// Sum adds up one count of both directions.
func (c *Conversation) Sum(count func(*conformance.FlowStats) uint64) uint64 {
	var n uint64
	for i := range c.Stats {
		n += count(&c.Stats[i])
	}
	return n
}

// ToRight reports whether a row's packet goes from left to right.
func (c *Conversation) ToRight(r *Row) bool {
	return r.Flow == c.flows[0] && !c.left[r]
}

// countSkipped counts the packets that were left out before each row.
func (c *Conversation) countSkipped() {
	last := make(map[*conformance.Flow]uint64, len(c.flows))
	for _, r := range c.Rows {
		r.skipped = r.index - last[r.Flow] - 1
		last[r.Flow] = r.index
	}
}

// Conversations returns the conversations of the packets kept, in order of appearance.
func (c *Collector) Conversations() []*Conversation {
	c.settle()
	later := make(map[*conformance.Flow][]conformance.Finding)
	for _, x := range c.later {
		later[x.Flow] = append(later[x.Flow], x)
	}
	datagrams, guesses := c.datagrams(), c.guesses()
	var all []*Conversation
	placed := make(map[*stream]bool)
	for _, s := range c.order {
		if placed[s] {
			continue
		}
		placed[s] = true
		v := &Conversation{ID: len(all) + 1}
		v.add(s)
		o := c.opposite(s, datagrams)
		if g := guesses[s]; o == nil && g != nil {
			o, v.Guessed = g, true
		}
		if o != nil && !placed[o] {
			placed[o] = true
			v.add(o)
		}
		v.name(s)
		slices.SortFunc(v.Rows, func(a, b *Row) int { return a.Number - b.Number })
		v.countSkipped()
		v.answersToItself()
		for _, f := range v.flows {
			v.Other = append(v.Other, later[f]...)
			delete(later, f)
		}
		all = append(all, v)
	}
	return all
}

func (v *Conversation) add(s *stream) {
	v.flows = append(v.flows, s.flow)
	v.Rows = append(v.Rows, s.kept...)
	v.Packets += s.seen
	if s.flow != nil {
		v.Stats = append(v.Stats, s.flow.Stats)
	}
}

// name sets the two ends. s is the direction to the right.
func (v *Conversation) name(s *stream) {
	f := s.flow
	if f == nil {
		v.Left.Addr, v.Right.Addr = s.first.Src, s.first.Dst
		return
	}
	v.Service = f.Service
	v.Left, v.Right = End{Addr: f.Src}, End{Addr: f.Dst, QPN: f.QPN, Known: true}
	switch {
	case f.Peer != nil:
		v.Left.QPN, v.Left.Known = f.Peer.QPN, true
	case f.Service == wire.ServiceUD:
		v.Left.QPN, v.Left.Known = f.SourceQPN, true
	case v.Guessed && len(v.flows) > 1:
		v.Left.QPN, v.Left.Known = v.flows[1].QPN, true
	}
}

// datagramKey names the datagrams from one queue pair to another.
type datagramKey struct {
	src, dst netip.Addr
	from, to wire.QPN
}

func (c *Collector) datagrams() map[datagramKey]*stream {
	m := make(map[datagramKey]*stream)
	for _, s := range c.order {
		if f := s.flow; f != nil && f.Service == wire.ServiceUD {
			m[datagramKey{f.Src, f.Dst, f.SourceQPN, f.QPN}] = s
		}
	}
	return m
}

// opposite returns the other direction of a flow.
func (c *Collector) opposite(s *stream, datagrams map[datagramKey]*stream) *stream {
	f := s.flow
	switch {
	case f == nil:
		return nil
	case f.Peer != nil:
		return c.streams[streamKey{flow: f.Peer}]
	case f.Service == wire.ServiceUD:
		return datagrams[datagramKey{f.Dst, f.Src, f.QPN, f.SourceQPN}]
	}
	return nil
}

// Chosen returns how many packets the filter chose, whether notable or not.
func (c *Collector) Chosen() uint64 { return c.chosen }

// LeftOut returns how many chosen packets and findings are not in any conversation.
func (c *Collector) LeftOut() (packets, findings uint64) {
	c.settle()
	return c.chosen - uint64(len(c.rows)), c.dropped
}
