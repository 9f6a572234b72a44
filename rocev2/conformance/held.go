package conformance

import (
	"fmt"

	"github.com/gorxe/gorxe/wire"
)

// A request that fits nowhere is either wrong or the first of another connection. The
// next one tells.

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
