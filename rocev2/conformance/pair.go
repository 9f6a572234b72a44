package conformance

import (
	"slices"

	"github.com/gorxe/gorxe/wire"
)

// Which flow is the opposite direction? A BTH names the destination only. So the
// responses of a flow are looked up among the requests of all flows between the
// same addresses the other way: the one whose PSNs they have, and no other does,
// is it. PSNs begin at random as a rule, and then one response is as good as
// proof; near 0, where some programs begin all their queue pairs, and where other
// flows are near, it takes many, each to a request of its own, without a miss. If
// two flows fit, or two claim one, nothing is said. Where a UDP source port is what
// Linux computes from both queue pairs' numbers (wire.UDPSourcePort), that says
// which are meant.

const (
	// proof is the score at which two flows are paired.
	proof = 16
	// proofAlone is that where no other flow is between the two addresses.
	proofAlone = 3
	// guessable is how far from 0 a PSN may have been chosen by a program.
	guessable = 1 << 13
	// attempts is how many responses of a flow without peer are all looked up;
	// from then on it is one in attempts.
	attempts = 64
	// maxCandidates is how many flows without peer are looked through.
	maxCandidates = 1024
)

// pairing is the search for a flow's requests.
type pairing struct {
	candidate *Flow
	score     int
	scored    int // the packet that scored last
	tried     int
	banned    bool // has been claimed by two
	agreed    bool // by the connection manager: beyond doubt
}

// requester returns the flow whose requests s, a response in f, answers; nil if it
// is not known.
func (c *Checker) requester(s *subject, f *Flow) *Flow {
	if x := f.Peer; x != nil {
		if x.req == nil {
			return nil
		}
		return x
	}
	p := &f.pair
	if p.tried++; p.banned || p.tried > attempts && p.tried%attempts != 0 {
		return nil
	}
	match, sent, certain := c.match(s, f)
	switch {
	case match == nil:
		p.score = 0
		return nil
	case match != p.candidate:
		p.candidate, p.score, p.scored = match, 0, 0
	}
	if sent <= p.scored && !certain {
		return nil // to the same request again: that proves nothing
	}
	p.score, p.scored = p.score+1, s.Number
	need := proof
	switch {
	case certain:
		need = 1
	case f.dir.flows == 1 && c.opposite(f).flows == 1:
		need = proofAlone
	}
	if p.score < need {
		return nil
	}
	// Does another claim it?
	for _, g := range f.dir.unpaired {
		if g != f && g.pair.candidate == match && g.pair.score > 0 {
			f.pair.banned, g.pair.banned, match.pair.banned = true, true, true
			return nil
		}
	}
	join(f, match)
	return match
}

// match looks for the one flow whose requests s, a response in f, may answer. sent
// is the packet of the request; certain is whether there can hardly be a mistake.
func (c *Checker) match(s *subject, f *Flow) (match *Flow, sent int, certain bool) {
	certain = s.psn.Diff(0) > guessable || s.psn.Diff(0) < -guessable
	candidates := c.opposite(f).unpaired
	if len(candidates) > maxCandidates {
		return nil, 0, false
	}
	matches := 0
	for _, x := range candidates {
		if x.req == nil || x.Service == wire.ServiceUC {
			continue
		}
		packet := 0
		if !x.pair.banned {
			packet = x.req.answeredBy(s, x.mtu())
		}
		if packet == 0 {
			if d := s.psn.Diff(x.req.next); d < far && d > -far {
				certain = false
			}
			continue
		}
		if f.port == x.port && f.port == wire.UDPSourcePort(0, f.QPN, x.QPN) {
			return x, packet, true
		}
		match, sent = x, packet
		matches++
	}
	if matches != 1 {
		return nil, 0, false
	}
	return match, sent, certain
}

// join makes two flows the directions of one connection.
func join(f, x *Flow) {
	f.Peer, x.Peer = x, f
	for _, g := range []*Flow{f, x} {
		if i := slices.Index(g.dir.unpaired, g); i >= 0 {
			g.dir.unpaired = slices.Delete(g.dir.unpaired, i, i+1)
		}
	}
	switch {
	case f.Stats.PathMTU == 0:
		f.Stats.PathMTU = x.Stats.PathMTU
	case x.Stats.PathMTU == 0:
		x.Stats.PathMTU = f.Stats.PathMTU
	}
}

// answeredBy returns the packet of a request that s may answer, 0 if there is none.
func (r *requests) answeredBy(s *subject, mtu int) int {
	e := r.at(s.psn, s.Number)
	if e == nil {
		if s.info.Has(wire.OpReadResp) {
			return r.readFits(s, mtu)
		}
		return 0
	}
	fits := true
	switch i := e.op.Info(); {
	case s.info.Has(wire.OpReadResp) && i.Has(wire.OpRead):
		return r.readFits(s, mtu)
	case s.info.Has(wire.OpReadResp):
		fits = i.Has(wire.OpAtomicWrite|wire.OpFlush) && s.payload == 0
	case s.info.Has(wire.HasAtomicAckETH):
		fits = i.Has(wire.OpAtomic)
	case s.pkt.Syndrome().IsACK():
		fits = e.flags&recAckReq != 0
	}
	if !fits {
		return 0
	}
	return e.last
}

// readFits returns the packet of a READ of which s has place and length of a
// response, 0 if there is none.
func (r *requests) readFits(s *subject, mtu int) (packet int) {
	r.anyRead(s.psn, mtu, s.Number, func(q *readRequest, off, span uint32) bool {
		var fits bool
		if _, sure := q.span(mtu); !sure {
			fits = off == 0 && s.info.Has(wire.OpFirst) && s.payload < int(q.length)
		} else {
			fits = readPlace(s.info, off, span) && (off+1 < span || s.payload == int(q.length-off*uint32(mtu)))
		}
		if fits {
			packet = q.packet
		}
		return fits
	})
	return packet
}
