package conformance

import (
	"github.com/gorxe/gorxe/wire"
)

// Which flow is the opposite direction? A BTH names the destination only. So the
// responses of a flow are looked up among the requests of all flows between the
// same addresses the other way: the one whose PSNs they have, and no other does,
// is it. PSNs begin at random as a rule, and then one response is as good as
// proof; near 0, where some programs begin all their queue pairs, it takes
// several that progress. If two flows fit, or two claim one, nothing is said.

const (
	// proof is the score at which two flows are paired.
	proof = 4
	// guessable is below which a PSN may be chosen by a program.
	guessable = 1 << 13
	// attempts is how many responses of a flow without peer are all looked up;
	// from then on it is one in attempts.
	attempts = 64
)

// pairing is the search for a flow's requests.
type pairing struct {
	candidate *Flow
	score     int
	last      wire.PSN // that scored
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
	var match *Flow
	for _, x := range c.between[f.key.hosts().reversed()] {
		if x.req == nil || x.Peer != nil && x.Peer != f || x.pair.banned || !x.req.answeredBy(s, x.mtu()) {
			continue
		}
		if match != nil {
			return nil // two fit
		}
		match = x
	}
	switch {
	case match == nil:
		return nil
	case match != p.candidate:
		p.candidate, p.score = match, 0
	case match.req != nil && s.psn == p.last:
		return nil // no progress
	}
	p.last = s.psn
	p.score++
	if s.psn >= guessable {
		p.score = proof
	}
	if p.score < proof {
		return nil
	}
	// Does another claim it?
	for _, g := range c.between[f.key.hosts()] {
		if g != f && g.pair.candidate == match && g.pair.score > 0 {
			f.pair.banned, g.pair.banned, match.pair.banned = true, true, true
			return nil
		}
	}
	join(f, match)
	return match
}

// join makes two flows the directions of one connection.
func join(f, x *Flow) {
	f.Peer, x.Peer = x, f
	switch {
	case f.Stats.PathMTU == 0:
		f.Stats.PathMTU = x.Stats.PathMTU
	case x.Stats.PathMTU == 0:
		x.Stats.PathMTU = f.Stats.PathMTU
	}
}

// answeredBy reports whether there is a request that s may answer.
func (r *requests) answeredBy(s *subject, mtu int) bool {
	if e := r.at(s.psn, s.Number); e != nil {
		i := e.op.Info()
		switch {
		case s.info.Has(wire.OpReadResp):
			return i.Has(wire.OpRead | wire.OpAtomicWrite | wire.OpFlush)
		case s.info.Has(wire.HasAtomicAckETH):
			return i.Has(wire.OpAtomic)
		case s.pkt.Syndrome().IsACK():
			return e.flags&recAckReq != 0
		}
		return true
	}
	if s.info.Has(wire.OpReadResp) {
		q, _ := r.read(s.psn, mtu, s.Number)
		return q != nil
	}
	return false
}
