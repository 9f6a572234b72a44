package conformance

import (
	"slices"

	"github.com/gorxe/gorxe/wire"
)

// The search for the opposite direction of a flow. A BTH names only the destination.
// So the checker looks up the responses of a flow among the requests of all flows the
// other way between the same addresses. The opposite flow is the only one that has
// their PSNs.
//
// PSNs usually begin at random, and then one response is proof enough. Some programs
// begin all PSNs near 0, and other flows may be near. It then takes many responses,
// each to a different request, and no miss. If two flows fit, or two claim one, the
// checker pairs none. Linux computes the UDP source port from the numbers of both
// queue pairs (wire.UDPSourcePort). A port that equals such a number decides.

const (
	// proof is the score at which two flows are paired.
	proof = 16
	// proofAlone is that score if no other flow is between the two addresses.
	proofAlone = 3
	// guessable bounds the PSNs near 0 that programs may choose as their first.
	guessable = 1 << 13
	// attempts is how many responses of a flow without peer are looked up. After
	// that, only one in so many is.
	attempts = 64
	// maxCandidates bounds the flows without peer that are searched.
	maxCandidates = 1024
)

// pairing is the search for a flow's requests.
type pairing struct {
	candidate *Flow
	score     int
	scored    int // the packet that scored last
	tried     int
	banned    bool // two flows have claimed it
	agreed    bool // the connection managers agreed on it: certain
}

// requester returns the flow whose requests the response s in f answers, nil if it is
// not known.
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
		return nil // another response to the same request proves nothing
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
	// Another flow may claim it too.
	for _, g := range f.dir.unpaired {
		if g != f && g.pair.candidate == match && g.pair.score > 0 {
			f.pair.banned, g.pair.banned, match.pair.banned = true, true, true
			return nil
		}
	}
	join(f, match)
	return match
}

// match searches the only flow whose requests the response s in f may answer. sent is
// the packet of the request, and certain says that an error is very unlikely.
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

// readFits returns the packet of a READ for which s has the right place and length, 0
// if there is none.
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
