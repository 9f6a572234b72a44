package replay

import (
	"slices"

	"github.com/gorxe/gorxe/wire"
)

// index finds the packets of a session by PSN. A position is an index of events.
type index struct {
	events    []event
	requests  map[wire.PSN][]int
	responses map[wire.PSN][]int
	lost      map[int]bool // requests that did not reach the responder
}

func newIndex(events []event) *index {
	x := &index{
		events:   events,
		requests: make(map[wire.PSN][]int), responses: make(map[wire.PSN][]int), lost: make(map[int]bool),
	}
	for i, e := range events {
		m := x.responses
		if e.request {
			m = x.requests
		}
		m[e.pkt.PSN()] = append(m[e.pkt.PSN()], i)
	}
	for i, e := range events {
		if !e.request && e.pkt.Syndrome() == wire.SyndromeNAK(wire.NAKPSNSequence) && e.pkt.Info().Has(wire.HasAETH) && !x.behindRNR(e.pkt.PSN(), i) {
			x.missed(e.pkt.PSN(), i)
		}
	}
	return x
}

// after returns the first position in a list that is greater than i, -1 if there is
// none.
func after(list []int, i int) int {
	at, _ := slices.BinarySearch(list, i+1)
	if at == len(list) {
		return -1
	}
	return list[at]
}

// behindRNR reports whether the sequence NAK at position nak follows an RNR NAK for the
// same PSN. If so, that request did arrive (see whyBehindRNR).
func (x *index) behindRNR(psn wire.PSN, nak int) bool {
	answers := x.responses[psn]
	n, _ := slices.BinarySearch(answers, nak)
	return n > 0 && x.events[answers[n-1]].pkt.Syndrome().IsRNR() && refused(x.events[answers[n-1]].pkt)
}

// missed handles a sequence NAK at position nak: the requests with its PSN that come
// before it in the capture were lost on their way. The last one may have crossed the
// NAK instead. That is so if it is acknowledged before it is sent again.
func (x *index) missed(psn wire.PSN, nak int) {
	const far = 8
	sent := x.requests[psn]
	n, _ := slices.BinarySearch(sent, nak)
	for _, i := range sent[max(0, n-far):n] {
		x.lost[i] = true
	}
	if n == 0 {
		return
	}
	again := len(x.events)
	if n < len(sent) {
		again = sent[n]
	}
	const window = 256
	for _, e := range x.events[nak+1 : min(again, nak+window, len(x.events))] {
		if !e.request && !refused(e.pkt) && !e.pkt.PSN().Less(psn) {
			delete(x.lost, sent[n-1])
			return
		}
	}
}

// refusal returns the NAK, other than a sequence NAK, that answers the request at
// position i: the first response with its PSN after it. If the request was sent again
// before the answer, there are as many answers.
func (x *index) refusal(i int) (wire.Packet, bool) {
	list := x.responses[x.events[i].pkt.PSN()]
	j := after(list, i)
	for range maxTries {
		if j < 0 {
			break
		}
		switch p := x.events[j].pkt; {
		case !refused(p):
			return wire.Packet{}, false
		case p.Syndrome() != wire.SyndromeNAK(wire.NAKPSNSequence):
			return p, true
		}
		j = after(list, j)
	}
	return wire.Packet{}, false
}

// maxTries bounds how many responses with one PSN are compared.
const maxTries = 64

// answer returns the response with a PSN that comes after position i.
func (x *index) answer(psn wire.PSN, i int, kind wire.OpFlags) (wire.Packet, bool) {
	list := x.responses[psn]
	j := after(list, i)
	for range maxTries {
		if j < 0 {
			break
		}
		if p := x.events[j].pkt; p.Info().Has(kind) {
			return p, true
		}
		j = after(list, j)
	}
	return wire.Packet{}, false
}

// readPackets returns how many response packets a READ has.
func readPackets(p wire.Packet, mtu int) uint32 {
	return max(1, uint32((uint64(p.DMALen())+uint64(mtu)-1)/uint64(mtu)))
}

// span returns how many PSNs a request takes.
func span(p wire.Packet, mtu int) uint32 {
	if p.Info().Has(wire.OpRead) {
		return readPackets(p, mtu)
	}
	return 1
}
