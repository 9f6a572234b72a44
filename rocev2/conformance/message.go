package conformance

import (
	"fmt"

	"github.com/gorxe/gorxe/internal/explain/plural"
	"github.com/gorxe/gorxe/wire"
)

// A request and its neighbours by PSN are packets of one message, or the end of one
// message and the beginning of the next. Their payloads show the path MTU.

// neighbours compares a packet with those just before and after it by PSN.
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
		if !s.info.Has(wire.OpStart) {
			c.sameSRQ(s, f, prev)
		}
		c.lengths(s, f, e, prev)
	case r.ending(s.psn, mtu, s.Number) != nil:
		if !s.info.Has(wire.OpStart) {
			c.report(s, f, ruleSequence, "the beginning of a message, after a READ", s.info.Name)
			return
		}
		c.lengths(s, f, e, nil)
	case s.info.Has(wire.OpStart):
		c.lengths(s, f, e, nil)
	}
	if !spanSure {
		return
	}
	if after := r.at(s.psn.Add(span), s.Number); after != nil && !follows(s.info, after.op.Info()) {
		c.outOfSequence(s, f, r, e, after.op.Info())
	}
}

// sameSRQ compares the SRQ that a packet of XRC names with that of a packet of its message.
func (c *Checker) sameSRQ(s *subject, f *Flow, other *record) {
	if s.info.Has(wire.HasXRCETH) && s.pkt.XRCSRQN() != other.srqn {
		c.report(s, f, ruleXRCSRQ, fmt.Sprintf("SRQ %#x as in packet %d", other.srqn, other.packet), fmt.Sprintf("%#x", s.pkt.XRCSRQN()))
	}
}

// half judges whether an XRC queue pair gets packets for its own half only.
func (c *Checker) half(s *subject, f *Flow) {
	if s.info.Service != wire.ServiceXRC {
		return
	}
	request, n := s.info.Has(wire.OpRequest), &f.Stats
	switch {
	case request && n.Requests == 0 && n.Responses > 0:
		c.report(s, f, ruleXRCHalf, "responses, as before", s.info.Name)
	case !request && n.Responses == 0 && n.Requests > 0:
		c.report(s, f, ruleXRCHalf, "requests, as before", s.info.Name)
	}
}

func (c *Checker) outOfSequence(s *subject, f *Flow, r *requests, before *record, after *wire.OpInfo) {
	severity := ruleSequence.Severity
	info := before.op.Info()
	if f.Service == wire.ServiceUC && !info.Has(wire.OpEnd) && after.Has(wire.OpStart) {
		// A UC requester may drop a message after a local error, and continue.
		severity = Warning
	}
	want := "the beginning of a message"
	if !info.Has(wire.OpEnd) {
		want = "MIDDLE or LAST"
	}
	c.reportAs(severity, s, f, ruleSequence,
		fmt.Sprintf("%s after %s, PSN 0x%06x in packet %d", want, info.Name, uint32(before.psn), before.packet), after.Name)
	r.newEpoch()
}

// follows reports whether packet b may have the PSN after packet a.
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
		c.report(s, f, ruleWriteLen, plural.Of(e.total, "byte")+", by the RETH", fmt.Sprintf("%d at its LAST", e.off))
	case !last && e.off >= e.total:
		c.report(s, f, ruleWriteLen, plural.Of(e.total, "byte")+", by the RETH", fmt.Sprintf("%d, and no LAST", e.off))
		e.flags &^= recOffset
	}
}

// mtu returns the path MTU of a connection, 0 if it is not known.
func (f *Flow) mtu() int {
	if f.Stats.PathMTU == 0 && f.Peer != nil {
		return f.Peer.Stats.PathMTU
	}
	return f.Stats.PathMTU
}

// learnMTU infers the path MTU from full packets, and compares others with it. sure
// says that the packet belongs to those before it.
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
