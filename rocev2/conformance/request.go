package conformance

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/gorxe/gorxe/internal/explain/plural"
	"github.com/gorxe/gorxe/wire"
)

// The requests of one queue pair to another. A packet is compared with three others,
// which are found by PSN: the packet before it, the packet after it, and the same
// packet sent before. So neither loss nor another order changes a verdict. The
// checker judges everything that it has seen.

const (
	// far is a distance between PSNs that no window explains. The packet is either
	// wrong or the first of another connection, and the next one shows which.
	far = 1 << 16
	// settled is how long a connection must last before a packet that does not fit
	// counts as its fault, and not as a late packet of the connection before.
	settled = int64(time.Second)
)

type requests struct {
	position
	history
	messageCount
	progress

	undecided undecided
	pending   []pendingFinding

	nak     nakState
	rnr     rnrState
	running bool // in a run of retransmissions
	early   earlyState
	ran     pastRun
	back    backState
	retry   retryState
	asked   askState
	depth   depthState
	badMSNs int
}

// position is where the requests are.
type position struct {
	started  bool
	next     wire.PSN // the first that has not been sent
	nextSure bool     // false after a READ whose range is not known
	first    wire.PSN // of this life

	// life counts how often the queue pair was reset: see restart.
	life     uint32
	since    int64 // nanoseconds
	prevNext wire.PSN
}

// messageCount is the count of messages, for the MSN. An epoch ends where packets are missing,
// because it is not known how many messages they ended.
type messageCount struct {
	epoch   uint32
	msgs    uint32
	msnBase interval
	msnSure bool // no packet was missing when msnBase was learned
}

// progress is what is known of what arrived.
type progress struct {
	calm   int  // requests in order since the last sign of loss
	uneasy bool // there was such a sign

	acked      wire.PSN // the first that has not been acknowledged
	ackedKnown bool
	lossy      bool // the capture lacks packets that arrived
}

func (f *Flow) requests(s *subject) *requests {
	if f.req == nil {
		f.req = &requests{position: position{life: 1, nextSure: true, since: s.at}, messageCount: messageCount{epoch: 1}}
	}
	return f.req
}

// restart begins a new life of the queue pair: the PSNs so far no longer count.
func (f *Flow) restart() {
	if r := f.req; r != nil {
		f.gaveUp(f.Stats.Last.UnixNano())
		*r = requests{
			position:     position{life: r.life + 1, prevNext: r.next, nextSure: true},
			history:      history{ring: r.ring, reads: r.reads, holes: r.holes[:0]},
			messageCount: messageCount{epoch: r.epoch + 1},
			progress:     progress{lossy: r.lossy},
			pending:      r.pending[:0],
		}
	}
	f.Stats.PathMTU = 0
	if f.Peer != nil {
		f.Peer.Stats.PathMTU = 0
	}
	if f.resp != nil {
		*f.resp = responses{}
	}
}

func (c *Checker) request(s *subject, f *Flow) {
	r := f.requests(s)
	if !r.started {
		r.start(s)
		c.learnMTU(s, f, true)
		c.accept(s, f, r, ClassNew)
		return
	}
	if r.undecided.on && c.decide(s, f, r) {
		c.request(s, f)
		return
	}
	d := s.psn.Diff(r.next)
	if d > far || d < -far {
		c.postpone(s, f, r, rulePSN, true, fmt.Sprintf("a PSN near 0x%06x", uint32(r.next)), fmt.Sprintf("0x%06x in %s", uint32(s.psn), s.info.Name))
		return
	}
	class := c.classify(s, f, r, d)
	if class == ClassUnknown {
		return // not decided yet
	}
	s.contiguous = d == 0 && r.nextSure
	if class == ClassNew || class == ClassAfterGap || class == ClassLate {
		c.learnMTU(s, f, s.contiguous)
	}
	switch {
	case class == ClassAfterGap:
		r.pending = r.pending[:0] // because the capture lacks packets
		c.disturbed(r)
	case !s.contiguous:
		c.disturbed(r)
	}
	c.accept(s, f, r, class)
}

// headless handles a packet of which only the BTH was captured. All that is known is
// that a request was sent, so the stream continues as after a READ of unknown range.
func (c *Checker) headless(s *subject, f *Flow) {
	f.Stats.Bytes += uint64(s.payload)
	switch {
	case s.info.Service != wire.ServiceRC && s.info.Service != wire.ServiceXRC && s.info.Service != wire.ServiceUC:
		return
	case !s.info.Has(wire.OpRequest):
		f.Stats.Responses++
		return
	}
	f.Stats.Requests++
	s.psn = wire.PSN(binary.BigEndian.Uint32(s.Transport[8:]) & wire.PSNMask)
	r := f.requests(s)
	if !r.started {
		r.start(s)
	}
	d := s.psn.Diff(r.next)
	switch {
	case d > far || d < -far:
		return
	case d < 0:
		r.fill(s.psn, 1)
	default:
		r.next, r.nextSure = s.psn.Next(), false
		r.newEpoch()
	}
	c.disturbed(r)
}

func (r *requests) start(s *subject) {
	r.started, r.next, r.first, r.since = true, s.psn, s.psn, s.at
}

// classify finds the place of a request among those before it. ClassUnknown means that
// it contradicts them, and that the next request will decide about it.
func (c *Checker) classify(s *subject, f *Flow, r *requests, d int32) Class {
	mtu := f.mtu()
	if d >= 0 {
		switch {
		case d == 0:
			return ClassNew
		case !r.nextSure:
			return ClassNew // after a READ of unknown range
		}
		f.Stats.Gaps++
		r.open(hole{from: r.next, to: s.psn, packet: s.Number})
		return ClassAfterGap
	}
	if old := r.at(s.psn, s.Number); old != nil {
		again := old.op == s.pkt.Opcode() && s.info.Has(wire.OpRead) // how much of it: reread
		if !again && !same(old, s) {
			c.postpone(s, f, r, ruleRetrans, r.unacknowledged(s.psn),
				fmt.Sprintf("PSN 0x%06x as in packet %d: %v, %s", uint32(s.psn), old.packet, old.op, plural.Of(old.payload, "byte")),
				fmt.Sprintf("%s, %s", s.info.Name, bytesSeen(s.payload)))
			return ClassUnknown
		}
		if r.doubled(old, s) {
			return ClassDuplicate
		}
		if s.info.Has(wire.OpRead) {
			return c.reread(s, f, r, mtu)
		}
		return ClassRetransmission
	}
	if q, known := r.read(s.psn, mtu, s.Number); q != nil && q.psn != s.psn {
		if s.info.Has(wire.OpRead) {
			return c.reread(s, f, r, mtu)
		}
		c.postpone(s, f, r, rulePSN, known && r.unacknowledged(s.psn),
			fmt.Sprintf("no request within the range of the READ of packet %d, PSN 0x%06x", q.packet, uint32(q.psn)),
			fmt.Sprintf("%s with PSN 0x%06x", s.info.Name, uint32(s.psn)))
		return ClassUnknown
	}
	if r.fill(s.psn, 1) {
		return ClassLate
	}
	return ClassRetransmission // of a packet before the capture, or of long ago
}

// accept adds a request to the history and compares it with its neighbours.
func (c *Checker) accept(s *subject, f *Flow, r *requests, class Class) {
	c.verdict.Class = class
	mtu := f.mtu()
	span, spanSure := uint32(1), true
	if s.info.Has(wire.OpRead) {
		q := readRequest{psn: s.psn, length: s.pkt.DMALen(), va: s.pkt.VA(), rkey: s.pkt.RKey(), life: r.life, packet: s.Number}
		q.partial = !s.contiguous
		span, spanSure = q.span(mtu)
		if class != ClassDuplicate {
			if r.reads == nil {
				r.reads = make([]readRequest, maxReads)
			}
			r.reads[r.readPos] = q
			r.readPos = (r.readPos + 1) % maxReads
		}
	}
	again := r.at(s.psn, s.Number)
	if again != nil {
		c.sentAgain(s, f, r, again, class)
		return
	}
	e := r.put(c, s.psn)
	*e = record{
		psn: s.psn, op: s.pkt.Opcode(), id: s.IP.ID, life: r.life, payload: uint32(s.payload),
		packet: s.Number, last: s.Number, at: s.at, epoch: r.epoch,
	}
	if s.pkt.AckReq() {
		e.flags |= recAckReq
	}
	if s.info.Has(wire.HasRETH) {
		e.total = s.pkt.DMALen()
	}
	if s.info.Has(wire.HasXRCETH) {
		e.srqn = s.pkt.XRCSRQN()
	}
	switch class {
	case ClassNew, ClassAfterGap:
		c.advance(s, f, r, e, class, span, spanSure)
	case ClassLate:
		f.Stats.Late++
		r.goBack(s)
		r.fill(s.psn, span)
		c.overtaking(s, f, r)
		if r.nak.on && !r.nak.psn.Less(s.psn) {
			r.nak.on, r.running = false, true
		}
	case ClassRetransmission:
		f.Stats.Retransmissions++
		r.goBack(s)
		f.retried(s, 0)
		c.wentBack(s, f, r, 0)
	default:
	}
	if class != ClassRetransmission {
		// If it was not seen before, it may be of an earlier life.
		c.neighbours(s, f, r, e, mtu, span, spanSure)
	}
}

// advance makes a new packet the last one of the stream.
func (c *Checker) advance(s *subject, f *Flow, r *requests, e *record, class Class, span uint32, spanSure bool) {
	if class == ClassAfterGap || !r.nextSure {
		r.newEpoch()
		e.epoch = r.epoch
	} else {
		c.confirm(s, r)
	}
	c.goesOn(s, f, r)
	c.overtaking(s, f, r)
	r.ran.behind++
	r.next, r.nextSure = s.psn.Add(span), spanSure
	r.running = false
	if !r.ackedKnown {
		r.retry.runs = 0 // it is not known what was acknowledged, but new requests are progress
	}
	if s.info.Has(wire.OpEnd) {
		f.Stats.Messages++
		r.msgs++
	}
	e.msgs = r.msgs
	e.flags |= recCounted
	if s.pkt.AckReq() && f.Service != wire.ServiceUC {
		r.asked = askState{on: true, psn: s.psn, at: s.at, finding: s.about()}
	}
	if s.info.Has(wire.OpRead | wire.OpAtomic | wire.OpAtomicWrite | wire.OpFlush) {
		r.outstanding(s)
	}
}

// newEpoch begins a new count of messages.
func (m *messageCount) newEpoch() {
	m.epoch++
	m.msgs = 0
	m.msnBase = interval{}
}
