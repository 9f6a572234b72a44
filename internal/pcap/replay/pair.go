package replay

import (
	"slices"

	"github.com/gorxe/gorxe/internal/pcap/pairflows"
	"github.com/gorxe/gorxe/rocev2/conformance"
	"github.com/gorxe/gorxe/wire"
)

const (
	// maxCandidates bounds the flows between two hosts that are tried, and maxWork
	// all look-ups together.
	maxCandidates = 256
	maxWork       = 1 << 24
)

// guess pairs the flows that have no peer.
func (l *loader) guess() map[*stream]*stream {
	return pairflows.Pairs(l.order, (*stream).flowWithPackets, maxCandidates, l.answers)
}

// flowWithPackets returns the flow of a stream, nil if the stream has no packets.
func (s *stream) flowWithPackets() *conformance.Flow {
	if len(s.packets) == 0 {
		return nil
	}
	return s.flow
}

// answers reports whether all responses in s are to requests in o. packet is that of the
// request that the first one answers, 0 if there is no response.
func (l *loader) answers(s, o *stream) (packet int, ok bool) {
	requests := o.requests()
	for _, e := range s.packets {
		if e.request || !e.pkt.Info().Has(wire.OpResponse) {
			continue
		}
		at := l.requestBefore(requests, e)
		if at == 0 {
			return 0, false
		}
		if packet == 0 {
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

// requestBefore returns the number of the packet that a response may answer, 0 if
// there is none.
func (l *loader) requestBefore(requests map[wire.PSN][]event, e event) int {
	p := e.pkt
	// A READ takes many PSNs, so its response may be that far ahead of it.
	const window = 512
	back := uint32(1)
	if p.Info().Has(wire.OpReadResp) {
		back = window
	}
	for k := range back {
		if l.work++; l.work > maxWork {
			return 0
		}
		list := requests[p.PSN().Sub(k)]
		i, _ := slices.BinarySearchFunc(list, e.number, func(r event, n int) int { return r.number - n })
		if i == 0 {
			continue
		}
		if !pairflows.Answers(list[i-1].pkt, p) {
			return 0
		}
		return list[i-1].number
	}
	return 0
}
