package ladder

import (
	"github.com/gorxe/gorxe/internal/pcap/guess"
	"github.com/gorxe/gorxe/rocev2/conformance"
	"github.com/gorxe/gorxe/wire"
)

const (
	// maxCandidates bounds the flows between two hosts that are tried.
	maxCandidates = 128
	// maxProofs is how many responses of a flow are looked at.
	maxProofs = 64
)

// guesses pairs the streams of connections without a known peer, by the packets that
// are kept. A ladder says that it rests on one.
func (c *Collector) guesses() map[*stream]*stream {
	return guess.Pairs(c.order, (*stream).shown, maxCandidates, (*stream).answers)
}

// shown is the flow of a stream of which something is kept.
func (s *stream) shown() *conformance.Flow {
	if len(s.kept) == 0 {
		return nil
	}
	return s.flow
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
	at := 0
	for _, q := range s.kept {
		if q.Number > r.Number {
			break
		}
		if q.parsed && q.pkt.Info().Has(wire.OpRequest) && guess.Answers(q.pkt, r.pkt) {
			at = q.Number
		}
	}
	return at
}
