package ladder

import (
	"github.com/gorxe/gorxe/internal/pcap/pairflows"
	"github.com/gorxe/gorxe/rocev2/conformance"
	"github.com/gorxe/gorxe/wire"
)

const (
	// maxCandidates bounds the flows between two hosts that are tried.
	maxCandidates = 128
	// maxProofs is how many responses of a flow are compared.
	maxProofs = 64
)

// guesses pairs the streams of connections without a known peer, by the packets that
// are kept. The title of such a ladder says that the pair is a guess.
func (c *Collector) guesses() map[*stream]*stream {
	return pairflows.Pairs(c.order, (*stream).shown, maxCandidates, (*stream).answers)
}

// shown returns the flow of a stream, nil if none of its packets is kept.
func (s *stream) shown() *conformance.Flow {
	if len(s.kept) == 0 {
		return nil
	}
	return s.flow
}

// answers reports whether every response that is kept of s answers a request that is
// kept of o. first is the packet of the request that the first response answers, 0 if
// there is no response.
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
		if q.parsed && q.pkt.Info().Has(wire.OpRequest) && pairflows.Answers(q.pkt, r.pkt) {
			at = q.Number
		}
	}
	return at
}
