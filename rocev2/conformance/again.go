package conformance

import (
	"fmt"
	"time"

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
			fmt.Sprintf("the READ of packet %d again or its rest: %#x, %d bytes at most", q.packet, q.va+k, uint64(q.length)-min(k, uint64(q.length))),
			fmt.Sprintf("%#x, %d bytes", s.pkt.VA(), s.pkt.DMALen()))
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
	r.goBack(s)
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
	if r.running {
		if r.nak.on && !r.nak.psn.Less(s.psn) {
			r.nak.on = false
		}
		return
	}
	r.running = true
	switch {
	case r.nak.on && r.nak.psn.Less(s.psn):
		c.report(s, f, ruleGoBack, fmt.Sprintf("PSN %#x, by the NAK of packet %d", uint32(r.nak.psn), r.nak.packet),
			fmt.Sprintf("retransmission from %#x", uint32(s.psn)))
	case !r.nak.on && !r.rnr.on && since > doubledWithin && r.ackedKnown && !r.lossy && r.acked.Less(s.psn):
		c.report(s, f, ruleGoBack, fmt.Sprintf("PSN %#x, the first that is not acknowledged", uint32(r.acked)),
			fmt.Sprintf("retransmission from %#x", uint32(s.psn)))
	}
	r.nak.on = false
}

// goesOn judges a new request after a sequence NAK: it may have been in flight when the
// NAK was sent, but not for long.
func (c *Checker) goesOn(s *subject, f *Flow, r *requests) {
	if !r.nak.on || time.Duration(s.at-r.nak.at) < crossing {
		return
	}
	r.nak.on = false
	c.report(s, f, ruleGoBack, fmt.Sprintf("PSN %#x, by the NAK of packet %d", uint32(r.nak.psn), r.nak.packet),
		fmt.Sprintf("new requests %v later, the last of PSN %#x", time.Duration(s.at-r.nak.at), uint32(s.psn)))
}

// crossing is how long a retry after a timeout may be in flight. It is not the answer
// to an RNR NAK that it crosses.
const crossing = 100 * time.Millisecond

// rnrServed judges the retry of a request after an RNR NAK.
func (c *Checker) rnrServed(s *subject, f *Flow, r *requests) {
	waited := time.Duration(s.at - r.rnr.at)
	// Linux waits 61.41 ms for 61.44, and clocks differ.
	if waited < r.rnr.wait-r.rnr.wait/20 && waited >= 0 {
		severity := Warning
		if waited > crossing {
			severity = Violation
		}
		c.reportAs(severity, s, f, ruleRNRWait, fmt.Sprintf("%v after packet %d", r.rnr.wait, r.rnr.packet), waited.String())
	}
	r.rnr.on = false
}
