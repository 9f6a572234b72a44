package conformance

import (
	"fmt"
	"time"

	"github.com/gorxe/gorxe/wire"
)

// The requests of one queue pair to another. What a packet has to agree with is
// found by PSN: the packet before it, the packet after it, and the same packet
// sent before. So neither loss nor another order changes a verdict; only what has
// not been seen is not judged.

const (
	// far is a distance between PSNs that no window explains: the packet is
	// either wrong or the first of another connection. The next one tells.
	far = 1 << 16
	// settled is how long a connection has to last before a packet that does
	// not fit is held against it, not against the one before.
	settled = int64(time.Second)
)

type requests struct {
	started  bool
	next     wire.PSN // the first that has not been sent
	nextSure bool     // false behind a READ whose range is not known
	first    wire.PSN // of this life

	// life changes when the queue pair begins anew: see restart.
	life     uint32
	since    int64 // nanoseconds
	prevNext wire.PSN

	ring    []record
	reads   []readRequest // a ring of maxReads, if there are any
	readPos int
	holes   []hole

	// The count of messages, for the MSN. An epoch ends where packets are
	// missing: then it is not known how many messages they ended.
	epoch   uint32
	msgs    uint32
	msnBase interval
	msnSure bool // msnBase was learned when nothing was missing

	calm   int  // requests in order since the last sign of loss
	uneasy bool // there has been one

	acked      wire.PSN // the first that has not been acknowledged
	ackedKnown bool
	lossy      bool // the capture lacks packets that arrived

	held    heldPacket
	pending []pendingFinding

	nak     nakState
	rnr     rnrState
	running bool // in a run of retransmissions
	back    backState
	asked   askState
	depth   depthState
	badMSNs int
}

// heldPacket is a request that fits nowhere, until the next one tells why.
type heldPacket struct {
	on       bool
	subject  finding
	psn      wire.PSN
	next     wire.PSN
	at       int64
	rule     *Rule
	surely   bool // if it does not begin another connection, it is a violation
	expected string
	seen     string
}

// finding is the packet that a finding will be about.
type finding struct {
	packet int
	time   time.Time
	cut    bool // its ICRC is not known
}

// pendingFinding is one that is true only if the capture lacks nothing here: the
// next request tells.
type pendingFinding struct {
	finding
	flow           *Flow
	rule           *Rule
	expected, seen string
	after          int64 // the next request must not be seen before
	left           int   // requests in order that are still to follow
	severity       Severity
}

// nakState is a sequence NAK that the requester has to obey.
type nakState struct {
	on     bool
	psn    wire.PSN
	packet int
}

type rnrState struct {
	on     bool
	psn    wire.PSN
	at     int64
	wait   time.Duration
	packet int
}

// askState is the last request that asked for an acknowledgement and has none.
type askState struct {
	on      bool
	psn     wire.PSN
	at      int64
	finding finding
}

func (f *Flow) requests(s *subject) *requests {
	if f.req == nil {
		f.req = &requests{life: 1, nextSure: true, epoch: 1, since: s.at}
	}
	return f.req
}

// restart begins a new life: what is known of PSNs no longer counts.
func (f *Flow) restart() {
	if r := f.req; r != nil {
		*r = requests{
			life: r.life + 1, prevNext: r.next, nextSure: true, epoch: r.epoch + 1,
			ring: r.ring, reads: r.reads, lossy: r.lossy, holes: r.holes[:0], pending: r.pending[:0],
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
	if r.held.on && c.settle(s, f, r) {
		c.request(s, f)
		return
	}
	d := s.psn.Diff(r.next)
	if d > far || d < -far {
		c.hold(s, f, r, rulePSN, true, fmt.Sprintf("a PSN near %#x", uint32(r.next)), fmt.Sprintf("%#x in %s", uint32(s.psn), s.info.Name))
		return
	}
	class := c.classify(s, f, r, d)
	if class == ClassUnknown {
		return // held
	}
	s.contiguous = d == 0 && r.nextSure
	if class == ClassNew || class == ClassAfterGap || class == ClassLate {
		c.learnMTU(s, f, s.contiguous)
	}
	switch {
	case class == ClassAfterGap:
		r.pending = r.pending[:0] // the capture does lack packets
		c.disturbed(r)
	case !s.contiguous:
		c.disturbed(r)
	}
	c.accept(s, f, r, class)
}

func (r *requests) start(s *subject) {
	r.started, r.next, r.first, r.since = true, s.psn, s.psn, s.at
}

// classify finds the place of a request among those before it. ClassUnknown
// means that it contradicts them, and is held.
func (c *Checker) classify(s *subject, f *Flow, r *requests, d int32) Class {
	mtu := f.mtu()
	if d >= 0 {
		switch {
		case d == 0:
			return ClassNew
		case !r.nextSure:
			return ClassNew // behind a READ of unknown range
		}
		f.Stats.Gaps++
		r.open(hole{from: r.next, to: s.psn, packet: s.Number})
		return ClassAfterGap
	}
	if old := r.at(s.psn, s.Number); old != nil {
		again := old.op == s.pkt.Opcode() && s.info.Has(wire.OpRead) // how much of it: reread
		if !again && !same(old, s) {
			c.hold(s, f, r, ruleRetrans, r.unacknowledged(s.psn),
				fmt.Sprintf("PSN %#x as in packet %d: %v, %d bytes", uint32(s.psn), old.packet, old.op, old.payload),
				fmt.Sprintf("%s, %d bytes", s.info.Name, s.payload))
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
		c.hold(s, f, r, rulePSN, known && r.unacknowledged(s.psn),
			fmt.Sprintf("no request within the range of the READ of packet %d, PSN %#x", q.packet, uint32(q.psn)),
			fmt.Sprintf("%s with PSN %#x", s.info.Name, uint32(s.psn)))
		return ClassUnknown
	}
	if r.fill(s.psn, 1) {
		return ClassLate
	}
	return ClassRetransmission // of one from before the capture, or long ago
}

// reread classifies a READ in the range of one that was sent before: it may ask
// for the rest of it.
func (c *Checker) reread(s *subject, f *Flow, r *requests, mtu int) Class {
	q, _ := r.read(s.psn, mtu, s.Number)
	if q == nil {
		return ClassRetransmission
	}
	k := uint64(s.psn.Diff(q.psn)) * uint64(mtu)
	// Nobody looks at the rkey of a READ of zero bytes (C9-88), and Linux versions
	// differ in which they want when it comes again.
	key := s.pkt.RKey() == q.rkey || q.length == 0
	rest := s.pkt.VA() == q.va+k && key && uint64(s.pkt.DMALen())+k <= uint64(q.length)
	if !rest {
		c.hold(s, f, r, ruleRetrans, r.unacknowledged(s.psn),
			fmt.Sprintf("the READ of packet %d again or its rest: %#x, %d bytes at most", q.packet, q.va+k, uint64(q.length)-min(k, uint64(q.length))),
			fmt.Sprintf("%#x, %d bytes", s.pkt.VA(), s.pkt.DMALen()))
		return ClassUnknown
	}
	return ClassRetransmission
}

// same reports whether a packet is what was sent before under its PSN.
func same(old *record, s *subject) bool {
	return old.op == s.pkt.Opcode() && int(old.payload) == s.payload &&
		(!s.info.Has(wire.HasRETH) || old.total == s.pkt.DMALen())
}

// unacknowledged reports whether a PSN is known not to have been acknowledged: so
// the requester cannot have ended that connection in peace.
func (r *requests) unacknowledged(psn wire.PSN) bool {
	return r.ackedKnown && !psn.Less(r.acked)
}

// accept takes a request into the history and judges it by its neighbours.
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
	switch class {
	case ClassNew, ClassAfterGap:
		c.advance(s, f, r, e, class, span, spanSure)
	case ClassLate:
		f.Stats.Late++
		r.goBack(s)
		r.fill(s.psn, span)
		if r.nak.on && !r.nak.psn.Less(s.psn) {
			r.nak.on, r.running = false, true
		}
	case ClassRetransmission:
		f.Stats.Retransmissions++
		r.goBack(s)
		c.wentBack(s, f, r)
	default:
	}
	if class != ClassRetransmission {
		// One that was not seen before may be of an earlier life.
		c.neighbours(s, f, r, e, mtu, span, spanSure)
	}
}

// advance moves the stream on to a packet that is new.
func (c *Checker) advance(s *subject, f *Flow, r *requests, e *record, class Class, span uint32, spanSure bool) {
	if class == ClassAfterGap || !r.nextSure {
		r.newEpoch()
		e.epoch = r.epoch
	} else {
		c.confirm(s, r)
	}
	r.next, r.nextSure = s.psn.Add(span), spanSure
	r.running = false
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
		c.outstanding(s, f, r, span)
	}
}

// newEpoch ends what is known of the number of messages.
func (r *requests) newEpoch() {
	r.epoch++
	r.msgs = 0
	r.msnBase = interval{}
}

// sentAgain handles a packet that has been seen before.
func (c *Checker) sentAgain(s *subject, f *Flow, r *requests, e *record, class Class) {
	if class == ClassDuplicate {
		f.Stats.Duplicates++
		return
	}
	f.Stats.Retransmissions++
	r.goBack(s)
	if r.rnr.on && s.psn == r.rnr.psn {
		c.rnrServed(s, f, r)
	}
	c.wentBack(s, f, r)
	e.id, e.last, e.at, e.flags = s.IP.ID, s.Number, s.at, e.flags|recResent
	if r.asked.on && r.asked.psn == s.psn {
		r.asked.on = false // somebody waits for it
	}
}

// wentBack notes where a run of retransmissions begins, and holds that to the NAK
// before it.
func (c *Checker) wentBack(s *subject, f *Flow, r *requests) {
	if r.running {
		if r.nak.on && !r.nak.psn.Less(s.psn) {
			r.nak.on = false
		}
		return
	}
	r.running = true
	if !r.nak.on {
		return
	}
	if r.nak.psn.Less(s.psn) {
		c.report(s, f, ruleGoBack, fmt.Sprintf("PSN %#x, by the NAK of packet %d", uint32(r.nak.psn), r.nak.packet),
			fmt.Sprintf("retransmission from %#x", uint32(s.psn)))
	}
	r.nak.on = false
}

// crossing is how long a retry that was sent before the RNR NAK arrived, for a
// timeout, may be under way.
const crossing = 100 * time.Millisecond

// rnrServed judges the retry of a request that got an RNR NAK.
func (c *Checker) rnrServed(s *subject, f *Flow, r *requests) {
	waited := time.Duration(s.at - r.rnr.at)
	// Linux counts 61.41 ms for 61.44; clocks differ.
	if waited < r.rnr.wait-r.rnr.wait/20 && waited >= 0 {
		severity := Warning
		if waited > crossing {
			severity = Violation
		}
		c.reportAs(severity, s, f, ruleRNRWait, fmt.Sprintf("%v after packet %d", r.rnr.wait, r.rnr.packet), waited.String())
	}
	r.rnr.on = false
}

// neighbours holds a packet to those right before and behind it by PSN.
func (c *Checker) neighbours(s *subject, f *Flow, r *requests, e *record, mtu int, span uint32, spanSure bool) {
	prev := r.at(s.psn.Sub(1), s.Number)
	if prev != nil && prev.op.Info().Has(wire.OpRead) {
		prev = nil // its range may be longer than 1
	}
	switch {
	case prev != nil:
		if !follows(prev.op.Info(), s.info) {
			c.outOfSequence(s, f, r, prev, s.info)
			return
		}
		c.lengths(s, f, e, prev)
	case r.ending(s.psn, mtu, s.Number) != nil:
		if !s.info.Has(wire.OpStart) {
			c.report(s, f, ruleSequence, "the beginning of a message, behind a READ", s.info.Name)
			return
		}
		c.lengths(s, f, e, nil)
	case s.info.Has(wire.OpStart):
		c.lengths(s, f, e, nil)
	}
	if !spanSure {
		return
	}
	if behind := r.at(s.psn.Add(span), s.Number); behind != nil && !follows(s.info, behind.op.Info()) {
		c.outOfSequence(s, f, r, e, behind.op.Info())
	}
}

func (c *Checker) outOfSequence(s *subject, f *Flow, r *requests, before *record, behind *wire.OpInfo) {
	severity := ruleSequence.Severity
	info := before.op.Info()
	if f.Service == wire.ServiceUC && !info.Has(wire.OpEnd) && behind.Has(wire.OpStart) {
		// A UC requester may give a message up after a local error, and go on.
		severity = Warning
	}
	want := "the beginning of a message"
	if !info.Has(wire.OpEnd) {
		want = "MIDDLE or LAST"
	}
	c.reportAs(severity, s, f, ruleSequence,
		fmt.Sprintf("%s behind %s, PSN %#x in packet %d", want, info.Name, uint32(before.psn), before.packet), behind.Name)
	r.newEpoch()
}

// follows reports whether packet b may have the PSN behind packet a.
func follows(a, b *wire.OpInfo) bool {
	if a.Has(wire.OpEnd) {
		return b.Has(wire.OpStart)
	}
	const operation = wire.OpSend | wire.OpWrite
	return b.Has(wire.OpMiddle|wire.OpLast) && a.Flags&operation == b.Flags&operation
}

// lengths adds up the payload of a message. prev is nil if the packet begins one.
func (c *Checker) lengths(s *subject, f *Flow, e, prev *record) {
	if s.info.Has(wire.OpStart) {
		e.off = e.payload
		e.flags |= recOffset
		return
	}
	if prev == nil || prev.flags&recOffset == 0 {
		return
	}
	e.off, e.total = prev.off+e.payload, prev.total
	e.flags |= recOffset
	if !s.info.Has(wire.OpWrite) {
		return
	}
	switch last := s.info.Has(wire.OpLast); {
	case last && e.off != e.total:
		c.report(s, f, ruleWriteLen, fmt.Sprintf("%d bytes, by the RETH", e.total), fmt.Sprintf("%d at its LAST", e.off))
	case !last && e.off >= e.total:
		c.report(s, f, ruleWriteLen, fmt.Sprintf("%d bytes, by the RETH", e.total), fmt.Sprintf("%d, and no LAST", e.off))
		e.flags &^= recOffset
	}
}

// open notes PSNs that have not been seen.
func (r *requests) open(h hole) {
	if len(r.holes) == maxHoles {
		r.holes = append(r.holes[:0], r.holes[1:]...)
	}
	r.holes = append(r.holes, h)
}

// acknowledge notes that everything before psn has arrived.
func (c *Checker) acknowledge(s *subject, x *Flow, psn wire.PSN) {
	r := x.req
	if r.next.Less(psn) {
		psn = r.next
	}
	if !r.ackedKnown || r.acked.Less(psn) {
		r.acked, r.ackedKnown = psn, true
	}
	if r.asked.on && r.asked.psn.Less(r.acked) {
		r.asked.on = false
	}
	if r.nak.on && r.nak.psn.Less(r.acked) {
		r.nak.on = false
	}
	if r.rnr.on && r.rnr.psn.Less(r.acked) {
		r.rnr.on = false
	}
	kept := r.holes[:0]
	for _, h := range r.holes {
		if r.acked.Less(h.to) {
			kept = append(kept, h)
			continue
		}
		r.lossy = true
		c.missing(s.about(), x, h, "acknowledged, and never seen")
	}
	r.holes = kept
}

func (c *Checker) missing(about finding, x *Flow, h hole, why string) {
	n := h.to.Diff(h.from)
	x.Stats.Missing += uint64(n)
	c.emitAbout(about, x, rulePSNGap, Note,
		fmt.Sprintf("PSNs %#x to %#x before packet %d", uint32(h.from), uint32(h.to.Sub(1)), h.packet), why)
}

// endRequests judges what is left open at the end.
func (c *Checker) endRequests(f *Flow) {
	r := f.req
	for _, p := range r.pending {
		c.emitAbout(p.finding, p.flow, p.rule, Warning, p.expected, p.seen)
	}
	r.pending = r.pending[:0]
	last := finding{packet: int(c.summary.Packets), time: c.now}
	for _, h := range r.holes {
		c.missing(last, f, h, "never seen")
	}
	r.holes = r.holes[:0]
	const patience = int64(time.Second)
	if a := r.asked; a.on && f.Peer != nil && r.ackedKnown && c.now.UnixNano()-a.at > patience {
		c.emitAbout(a.finding, f, ruleAckReq, Warning, fmt.Sprintf("an acknowledgement of PSN %#x", uint32(a.psn)), "none")
	}
	r.asked.on = false
}

// hold keeps a packet that does not fit until the next one.
func (c *Checker) hold(s *subject, f *Flow, r *requests, rule *Rule, surely bool, expected, seen string) {
	if prev := r.prevNext; r.life > 1 && (prev.Diff(s.psn) >= 0 && prev.Diff(s.psn) < far || s.at-r.since < settled) {
		surely = false // may be a straggler of the life before
	}
	r.held = heldPacket{
		on: true, subject: s.about(), psn: s.psn, next: s.psn.Next(), at: s.at, rule: rule, surely: surely,
		expected: expected, seen: seen,
	}
	if s.info.Has(wire.OpRead) {
		q := readRequest{length: s.pkt.DMALen()}
		n, sure := q.span(f.mtu())
		r.held.next = s.psn.Add(n)
		if !sure {
			r.held.next = s.psn.Add((q.length + 255) / 256)
		}
	}
}

// settle decides on a held packet by the next request. It reports whether the
// queue pair begins anew, so that the packet must be looked at again.
func (c *Checker) settle(s *subject, f *Flow, r *requests) bool {
	h := r.held
	r.held = heldPacket{}
	toHeld, toNext := s.psn.Diff(h.psn), s.psn.Diff(r.next)
	isFar := func(d int32) bool { return d > far || d < -far }
	old := r.at(s.psn, s.Number)
	// Behind it, or itself again? One that is far from the others may have been
	// followed by some that the capture lacks.
	behind := s.psn == h.next || toHeld == 0
	if isFar(h.psn.Diff(r.next)) {
		behind = behind || toHeld > 0 && !isFar(toHeld)
	}
	switch {
	case toNext == 0 || old != nil && same(old, s) || !behind && !isFar(toNext):
		// The stream goes on as if nothing had been: the held one was wrong.
		severity := h.rule.Severity
		if !h.surely {
			severity = Warning
		}
		c.emitAbout(h.subject, f, h.rule, severity, h.expected, h.seen)
		return false
	case behind:
		c.emitAbout(h.subject, f, ruleRestart, Note, fmt.Sprintf("a PSN near %#x", uint32(r.next)), fmt.Sprintf("PSNs from %#x", uint32(h.psn)))
		f.restart()
		return true
	}
	return false
}

// calm is how many requests in PSN order make it sure enough that nothing is
// missing around a packet: that a response to a PSN that was not sent, or with an
// MSN too high, is not one to a request that only the capture lacks.
const calm = 16

// wait makes a finding depend on the requests that follow.
func (c *Checker) wait(r *requests, p pendingFinding) {
	if r.uneasy && r.calm < calm || len(r.pending) == cap(r.pending) && len(r.pending) >= 8 {
		c.emitAbout(p.finding, p.flow, p.rule, Warning, p.expected, p.seen)
		return
	}
	r.pending = append(r.pending, p)
}

// confirm counts a request that follows without a gap.
func (c *Checker) confirm(s *subject, r *requests) {
	r.calm++
	for i, p := range r.pending {
		if s.at < p.after {
			// It was overtaken by its response, or is sent again.
			r.pending = append(r.pending[:i], r.pending[i+1:]...)
			c.disturbed(r)
			return
		}
	}
	kept := r.pending[:0]
	for _, p := range r.pending {
		p.after = 0
		if p.left--; p.left <= 0 {
			c.emitAbout(p.finding, p.flow, p.rule, p.severity, p.expected, p.seen)
			continue
		}
		kept = append(kept, p)
	}
	r.pending = kept
}

// disturbed notes a sign that packets were lost or sent again: then the capture
// may lack some too, and what waits is less than sure.
func (c *Checker) disturbed(r *requests) {
	r.uneasy, r.calm, r.msnSure = true, 0, false
	for _, p := range r.pending {
		c.emitAbout(p.finding, p.flow, p.rule, Warning, p.expected, p.seen)
	}
	r.pending = r.pending[:0]
}

func (s *subject) about() finding {
	return finding{packet: s.Number, time: s.Time, cut: s.icrc == ICRCUnknown}
}

// emitAbout makes a finding about an earlier packet.
func (c *Checker) emitAbout(about finding, f *Flow, r *Rule, severity Severity, expected, seen string) {
	if about.cut {
		severity = min(severity, Warning)
	}
	c.emit(Finding{
		Packet: about.packet, Time: about.time, Flow: f, Rule: r, Severity: severity, Expected: expected, Seen: seen,
	})
}

// mtu is the path MTU of a connection, 0 if it is not known.
func (f *Flow) mtu() int {
	if f.Stats.PathMTU == 0 && f.Peer != nil {
		return f.Peer.Stats.PathMTU
	}
	return f.Stats.PathMTU
}

// learnMTU infers the path MTU from full packets, and holds others to it. sure is
// whether the packet belongs to what was seen before.
func (c *Checker) learnMTU(s *subject, f *Flow, sure bool) {
	full := s.info.Has(wire.OpFirst | wire.OpMiddle)
	mtu := f.mtu()
	switch {
	case mtu == 0:
		if full && legalMTU(s.payload) {
			f.Stats.PathMTU = s.payload
		}
	case full && s.payload != mtu && legalMTU(s.payload), !full && s.payload > mtu && s.payload <= maxMTU:
		severity := Warning
		if sure {
			severity = Violation
		}
		want := fmt.Sprintf("%d bytes in %s", mtu, s.info.Name)
		if !full {
			want = "at most " + want
		}
		c.reportAs(severity, s, f, rulePathMTU, want, bytesSeen(s.payload))
	}
}
