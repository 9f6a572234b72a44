package replay

import (
	"net/netip"
	"slices"

	"github.com/gorxe/gorxe/rocev2/capture"
	"github.com/gorxe/gorxe/wire"
)

// Where the conformance checker does not commit itself to which flows are the two
// directions of one connection, a replay may guess: a wrong guess shows in
// differences, not in a verdict. Two flows fit if every response in either answers
// a request in the other that was sent before; of several that fit, the one whose
// request was last before the first response.

const (
	// maxCandidates bounds the flows between two hosts that are tried, maxWork the
	// look-ups in all.
	maxCandidates = 256
	maxWork       = 1 << 24
)

type hosts struct {
	src, dst netip.Addr
	kind     capture.Kind
}

// guess pairs the flows that have no peer.
func (l *loader) guess() {
	between := make(map[hosts][]*stream)
	for _, s := range l.order {
		if f := s.flow; f.Service == wire.ServiceRC && f.Peer == nil && len(s.packets) > 0 {
			h := hosts{f.Src, f.Dst, f.Kind}
			between[h] = append(between[h], s)
		}
	}
	for h, list := range between {
		others := between[hosts{h.dst, h.src, h.kind}]
		if len(list) > maxCandidates || len(others) > maxCandidates {
			continue
		}
		for _, s := range list {
			if s.guessed == nil {
				l.guessFor(s, others)
			}
		}
	}
}

// guessFor finds the flow that s answers.
func (l *loader) guessFor(s *stream, others []*stream) {
	var best *stream
	nearest := -1
	for _, o := range others {
		if o == s || o.guessed != nil {
			continue
		}
		if at, ok := l.answers(s, o); ok && at > nearest {
			if _, ok := l.answers(o, s); ok {
				best, nearest = o, at
			}
		}
	}
	if best != nil {
		s.guessed, best.guessed = best, s
	}
}

// answers reports whether all responses in s are to requests in o, and at which
// packet the request of the first was sent; -1 if there is no response.
func (l *loader) answers(s, o *stream) (packet int, ok bool) {
	requests := o.requests()
	packet = -1
	for _, e := range s.packets {
		if e.request || !e.pkt.Info().Has(wire.OpResponse) {
			continue
		}
		at := l.requestBefore(requests, e)
		if at < 0 {
			return -1, false
		}
		if packet < 0 {
			packet = at
		}
	}
	return packet, true
}

// requests lists the packets of a flow by PSN.
func (s *stream) requests() map[wire.PSN][]event {
	if s.byPSN == nil {
		s.byPSN = make(map[wire.PSN][]event)
		for _, e := range s.packets {
			if e.request {
				s.byPSN[e.pkt.PSN()] = append(s.byPSN[e.pkt.PSN()], e)
			}
		}
	}
	return s.byPSN
}

// requestBefore returns the number of the packet that a response may answer.
func (l *loader) requestBefore(requests map[wire.PSN][]event, e event) int {
	p := e.pkt
	// A READ takes many PSNs: its responses are looked for that far back.
	const window = 512
	back := uint32(1)
	if p.Info().Has(wire.OpReadResp) {
		back = window
	}
	for k := range back {
		if l.work++; l.work > maxWork {
			return -1
		}
		list := requests[p.PSN().Sub(k)]
		i, _ := slices.BinarySearchFunc(list, e.number, func(r event, n int) int { return r.number - n })
		if i == 0 {
			continue
		}
		r := list[i-1].pkt.Info()
		switch {
		case p.Info().Has(wire.OpReadResp) && !r.Has(wire.OpRead|wire.OpAtomicWrite|wire.OpFlush):
			return -1
		case p.Info().Has(wire.HasAtomicAckETH) && !r.Has(wire.OpAtomic):
			return -1
		}
		return list[i-1].number
	}
	return -1
}
