package conformance

import (
	"fmt"
	"time"

	"github.com/gorxe/gorxe/internal/explain/plural"
	"github.com/gorxe/gorxe/wire"
)

// The checks of requests that are sent again: whether they are the same as before,
// where the requester goes back to after a NAK, and when.

// nakState is a sequence NAK that the requester must obey.
type nakState struct {
	on     bool
	psn    wire.PSN
	packet int
	at     int64

	// inRun: the requester was in a run of retransmissions when the responder sent the NAK. It goes
	// on with the run until the NAK arrives.
	inRun bool
}

// crosses reports whether a packet belongs to a run of retransmissions that the NAK crosses in the
// network.
func (n *nakState) crosses(s *subject) bool {
	return n.on && n.inRun && n.psn.Less(s.psn) && time.Duration(s.at-n.at) < crossing
}

type rnrState struct {
	on     bool
	psn    wire.PSN
	at     int64
	wait   time.Duration
	packet int
}

// reread classifies a READ in the range of an earlier one: it may ask for the rest of
// that.
func (c *Checker) reread(s *subject, f *Flow, r *requests, mtu int) Class {
	q, _ := r.read(s.psn, mtu, s.Number)
	if q == nil {
		return ClassRetransmission
	}
	k := uint64(s.psn.Diff(q.psn)) * uint64(mtu)
	// The rkey of a READ of zero bytes has no meaning (C9-88), and Linux versions
	// differ in which one they send when they repeat it.
	key := s.pkt.RKey() == q.rkey || q.length == 0
	rest := s.pkt.VA() == q.va+k && key && uint64(s.pkt.DMALen())+k <= uint64(q.length)
	if !rest {
		c.postpone(s, f, r, ruleRetrans, r.unacknowledged(s.psn),
			fmt.Sprintf("the READ of packet %d again or its rest: %#x, %s at most", q.packet, q.va+k, plural.Of(uint64(q.length)-min(k, uint64(q.length)), "byte")),
			fmt.Sprintf("%#x, %s", s.pkt.VA(), plural.Of(s.pkt.DMALen(), "byte")))
		return ClassUnknown
	}
	return ClassRetransmission
}

// same reports whether a packet is the same as that sent before under its PSN.
func same(old *record, s *subject) bool {
	return old.op == s.pkt.Opcode() && int(old.payload) == s.payload &&
		(!s.info.Has(wire.HasRETH) || old.total == s.pkt.DMALen())
}

// unacknowledged reports whether a PSN is known to lack its acknowledgement. The
// requester then cannot have completed it.
func (r *requests) unacknowledged(psn wire.PSN) bool {
	return r.ackedKnown && !psn.Less(r.acked)
}

// sentAgain judges a packet that was seen before.
func (c *Checker) sentAgain(s *subject, f *Flow, r *requests, e *record, class Class) {
	if class == ClassDuplicate {
		f.Stats.Duplicates++
		return
	}
	f.Stats.Retransmissions++
	c.sameSRQ(s, f, e)
	r.goBack(s)
	f.retried(s, s.at-e.at)
	if r.rnr.on && s.psn == r.rnr.psn {
		c.rnrServed(s, f, r)
	}
	c.wentBack(s, f, r, s.at-e.at)
	e.id, e.last, e.at, e.flags = s.IP.ID, s.Number, s.at, e.flags|recResent
	if r.asked.on && r.asked.psn == s.psn {
		r.asked.on = false // the requester still waits for it
	}
}

// wentBack records where a run of retransmissions begins. It compares that with the
// NAK before it or, after a timeout, with what was acknowledged. since is how long ago
// the packet was sent before; a packet that the network doubled comes soon.
func (c *Checker) wentBack(s *subject, f *Flow, r *requests, since int64) {
	c.overtaking(s, f, r)
	if r.nak.crosses(s) {
		return
	}
	if r.running {
		if r.nak.on && !r.nak.psn.Less(s.psn) {
			r.nak.on = false
		}
		return
	}
	r.running = true
	late := r.ran.overtook(s.psn)
	r.ran = pastRun{on: true, first: s.psn}
	switch {
	case r.nak.on && r.nak.psn.Less(s.psn):
		r.early = earlyState{on: true, psn: r.nak.psn, first: s.psn, left: reorderedBy, about: s.about(),
			expected: fmt.Sprintf("PSN 0x%06x, by the NAK of packet %d", uint32(r.nak.psn), r.nak.packet)}
	case !r.nak.on && !r.rnr.on && since > doubledWithin && r.ackedKnown && !r.lossy && !late && r.acked.Less(s.psn):
		r.early = earlyState{on: true, psn: r.acked, first: s.psn, left: reorderedBy, about: s.about(),
			expected: fmt.Sprintf("PSN 0x%06x, the first that is not acknowledged", uint32(r.acked))}
	}
	r.nak.on = false
}

// earlyState is a run of retransmissions that began behind the PSN from which it had to. In a
// network that reorders packets, the first one may have been overtaken: it then comes soon, and
// those that overtook it do not come again.
type earlyState struct {
	on       bool
	arrived  bool     // psn was seen
	psn      wire.PSN // from which the run had to begin
	first    wire.PSN // from which it began
	left     int      // packets within which psn must come
	about    finding
	expected string
}

// pastRun is the last run of retransmissions, and what came behind it.
type pastRun struct {
	on     bool
	first  wire.PSN
	behind int // new requests since
}

// overtook reports whether a packet may belong to the run: new requests have overtaken it.
func (p *pastRun) overtook(psn wire.PSN) bool {
	return p.on && p.behind > 0 && p.behind <= reorderedBy && p.first.Less(psn)
}

// reorderedBy is by how many packets of its flow a packet may be overtaken.
const reorderedBy = 64

// overtaking judges a run that began too late by a further packet of the requester.
func (c *Checker) overtaking(s *subject, f *Flow, r *requests) {
	e := &r.early
	if !e.on {
		return
	}
	if s.psn == e.psn {
		e.arrived = true
	}
	switch e.left--; {
	case s.psn == e.first:
		c.beganLate(f, r)
	case e.left > 0:
	case e.arrived:
		e.on = false
	default:
		c.beganLate(f, r)
	}
}

// beganLate reports a run that began behind the PSN from which it had to.
func (c *Checker) beganLate(f *Flow, r *requests) {
	e := r.early
	r.early.on = false
	c.emitAbout(e.about, f, ruleGoBack, ruleGoBack.Severity, e.expected, fmt.Sprintf("retransmission from 0x%06x", uint32(e.first)))
}

// endRun ends the wait for a packet that was overtaken.
func (c *Checker) endRun(f *Flow, r *requests) {
	if r.early.on && !r.early.arrived {
		c.beganLate(f, r)
	}
	r.early.on = false
}

// goesOn judges a new request after a sequence NAK: it may have been in flight when the
// NAK was sent, but not for long.
func (c *Checker) goesOn(s *subject, f *Flow, r *requests) {
	if !r.nak.on || time.Duration(s.at-r.nak.at) < crossing {
		return
	}
	r.nak.on = false
	c.report(s, f, ruleGoBack, fmt.Sprintf("PSN 0x%06x, by the NAK of packet %d", uint32(r.nak.psn), r.nak.packet),
		fmt.Sprintf("new requests %v later, the last of PSN 0x%06x", time.Duration(s.at-r.nak.at), uint32(s.psn)))
}

// crossing is how long a request or a retry may be in flight. A NAK that it crosses in the network
// does not concern it.
const crossing = 100 * time.Millisecond

// rnrServed judges the retry of a request after an RNR NAK.
func (c *Checker) rnrServed(s *subject, f *Flow, r *requests) {
	waited := time.Duration(s.at - r.rnr.at)
	// Linux waits 61.41 ms for 61.44, and clocks differ.
	if waited < r.rnr.wait-r.rnr.wait/20 && waited >= 0 {
		severity := Warning
		if waited > crossing && c.stepped <= r.rnr.packet {
			severity = Violation
		}
		c.reportAs(severity, s, f, ruleRNRWait, fmt.Sprintf("%v after packet %d", r.rnr.wait, r.rnr.packet), waited.String())
	}
	r.rnr.on = false
}
