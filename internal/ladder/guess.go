package ladder

import (
	"net/netip"

	"github.com/gorxe/gorxe/rocev2/capture"
	"github.com/gorxe/gorxe/wire"
)

// Where the checker does not commit itself to which flows are the two directions
// of a connection, a ladder may guess, and says so: two flows fit if each response
// that is kept of either (up to maxProofs) answers a request of the other that came before it. Of
// several, it is the one whose request came last before the first response.

// maxCandidates bounds the flows between two hosts that are tried.
const maxCandidates = 128

// maxProofs is how many responses of a flow are looked at.
const maxProofs = 64

type hosts struct {
	src, dst netip.Addr
	kind     capture.Kind
}

// guesses pairs the streams of connections without a known peer.
func (c *Collector) guesses() map[*stream]*stream {
	between := make(map[hosts][]*stream)
	for _, s := range c.order {
		if f := s.flow; f != nil && f.Service == wire.ServiceRC && f.Peer == nil && len(s.kept) > 0 {
			h := hosts{f.Src, f.Dst, f.Kind}
			between[h] = append(between[h], s)
		}
	}
	pairs := make(map[*stream]*stream)
	for _, s := range c.order {
		f := s.flow
		if f == nil || f.Peer != nil || f.Service != wire.ServiceRC || pairs[s] != nil {
			continue
		}
		others := between[hosts{f.Dst, f.Src, f.Kind}]
		if len(others) > maxCandidates {
			continue
		}
		var best *stream
		nearest := 0
		for _, o := range others {
			if o == s || pairs[o] != nil {
				continue
			}
			// Of the two, s is the one that has responses.
			at, _ := s.answers(o)
			if at <= nearest {
				continue
			}
			if _, ok := o.answers(s); ok {
				best, nearest = o, at
			}
		}
		if best != nil {
			pairs[s], pairs[best] = best, s
		}
	}
	return pairs
}

// answers reports whether every response kept of s answers a request kept of o, and
// the packet of the request that the first of them answers, 0 if there is none.
func (s *stream) answers(o *stream) (first int, ok bool) {
	proofs := 0
	for _, r := range s.kept {
		if !r.parsed || !r.pkt.Info().Has(wire.OpResponse) {
			continue
		}
		if proofs++; proofs > maxProofs {
			break
		}
		at := o.asked(r)
		if at == 0 {
			return 0, false
		}
		if first == 0 {
			first = at
		}
	}
	return first, true
}

// asked returns the last request before r that r may answer, 0 if there is none.
func (s *stream) asked(r *Row) int {
	psn, info := r.pkt.PSN(), r.pkt.Info()
	at := 0
	for _, q := range s.kept {
		if q.Number > r.Number {
			break
		}
		if !q.parsed || !q.pkt.Info().Has(wire.OpRequest) {
			continue
		}
		ahead := psn.Diff(q.pkt.PSN())
		switch i := q.pkt.Info(); {
		case info.Has(wire.OpReadResp) && i.Has(wire.OpRead):
			if ahead >= 0 && uint32(ahead) <= q.pkt.DMALen()/256 {
				at = q.Number
			}
		case ahead == 0 && info.Has(wire.HasAtomicAckETH) == i.Has(wire.OpAtomic):
			at = q.Number
		case ahead == 0 && r.Negative():
			at = q.Number
		}
	}
	return at
}
