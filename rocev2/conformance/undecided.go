package conformance

import (
	"fmt"

	"github.com/gorxe/gorxe/wire"
)

// A request with an unexpected PSN is either wrong or the first of another connection.
// The next request decides which:
//
//   - If the stream continues where it was, the request was wrong.
//   - If the next request continues from the unexpected one, the queue pair was reset.

// undecided is a request about which the next request decides.
type undecided struct {
	on       bool
	subject  finding
	psn      wire.PSN
	next     wire.PSN
	at       int64
	rule     *Rule
	surely   bool // it is a violation, unless it begins another connection
	expected string
	seen     string
}

// postpone leaves the decision about a packet to the next one.
func (c *Checker) postpone(s *subject, f *Flow, r *requests, rule *Rule, surely bool, expected, seen string) {
	if prev := r.prevNext; r.life > 1 && (prev.Diff(s.psn) >= 0 && prev.Diff(s.psn) < far || s.at-r.since < settled) {
		surely = false // it may be a late packet of the life before
	}
	r.undecided = undecided{
		on: true, subject: s.about(), psn: s.psn, next: s.psn.Next(), at: s.at, rule: rule, surely: surely,
		expected: expected, seen: seen,
	}
	if s.info.Has(wire.OpRead) {
		q := readRequest{length: s.pkt.DMALen()}
		n, sure := q.span(f.mtu())
		r.undecided.next = s.psn.Add(n)
		if !sure {
			r.undecided.next = s.psn.Add((q.length + 255) / 256)
		}
	}
}

// decide judges the undecided packet by the next request s. It reports whether the
// queue pair was reset, so that s must be classified again.
func (c *Checker) decide(s *subject, f *Flow, r *requests) bool {
	h := r.undecided
	r.undecided = undecided{}
	toPacket, toNext := s.psn.Diff(h.psn), s.psn.Diff(r.next)
	isFar := func(d int32) bool { return d > far || d < -far }
	old := r.at(s.psn, s.Number)
	// s continues from the undecided packet if it has the next PSN or the same one. If
	// both are far from the others, the capture may lack some packets between them.
	continues := s.psn == h.next || toPacket == 0
	if isFar(h.psn.Diff(r.next)) {
		continues = continues || toPacket > 0 && !isFar(toPacket)
	}
	switch {
	case toNext == 0 || old != nil && same(old, s) || !continues && !isFar(toNext):
		// The stream continues where it was, so the packet was wrong.
		severity := h.rule.Severity
		if !h.surely {
			severity = Warning
		}
		c.emitAbout(h.subject, f, h.rule, severity, h.expected, h.seen)
		return false
	case continues:
		c.emitAbout(h.subject, f, ruleRestart, Note, fmt.Sprintf("a PSN near 0x%06x", uint32(r.next)), fmt.Sprintf("PSNs from 0x%06x", uint32(h.psn)))
		f.restart()
		return true
	}
	return false
}
