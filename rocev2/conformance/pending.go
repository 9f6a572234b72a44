package conformance

import "time"

// Findings about a packet other than the one that showed the fault, and findings that
// are true only if the capture lacks no packet nearby.

// finding is the packet of a finding that may be made later.
type finding struct {
	packet int
	time   time.Time
	cut    bool // its ICRC is not known
}

// pendingFinding is a finding that is true only if the capture lacks no packet here.
// The next requests show that.
type pendingFinding struct {
	finding
	flow           *Flow
	rule           *Rule
	expected, seen string
	after          int64 // the next request must not be seen before
	left           int   // requests in order that must still follow
	severity       Severity
}

// calm is how many requests must follow in PSN order before the checker assumes that
// the capture lacks no packet nearby. A response to a PSN that was not sent, or with
// an MSN that is too high, could otherwise answer a request that only the capture
// lacks.
const calm = 16

// wait postpones a finding until more requests follow.
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
			// Its response overtook it, or it is sent again.
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

// disturbed handles a sign that packets were lost or sent again. The capture may then
// lack some too, so that pending findings are less certain.
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
