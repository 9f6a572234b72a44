package replay

import (
	"fmt"
	"slices"

	"github.com/gorxe/gorxe/wire"
)

// The comparison of captured responses with those of the engine as responder.

// answer is a response of the engine.
type answer struct {
	pkt      wire.Packet
	compared bool // with a captured one
	again    bool // to a duplicate
}

// sentNAK is a NAK of the engine.
type sentNAK struct {
	pkt    wire.Packet
	number int // of the packet it answers
}

// response compares the captured response at position i with the engine's.
func (r *responder) response(i int) error {
	e := &r.events[i]
	p := e.pkt
	if p.PSN().Less(r.events[0].pkt.PSN()) {
		return nil // its request came before the session
	}
	r.s.Compared++
	switch {
	case refused(p):
		r.negative(i)
	case rcOpcode(p) == wire.RCAck:
		if err := r.ack(i); err != nil {
			return err
		}
	default:
		r.data(e)
	}
	return nil
}

// ack compares an acknowledgement. A responder is free to choose which packets it
// acknowledges, but not which ones it has received.
func (r *responder) ack(i int) error {
	e := &r.events[i]
	p := e.pkt
	expected := r.h.q.Snapshot().RecvPSN
	if !p.PSN().Less(expected) && r.rnr.on && r.rnr.psn == expected {
		// Two copies of the request were in flight, and a receive was posted between
		// them.
		if err := r.redo(expected, i); err != nil {
			return err
		}
		expected = r.h.q.Snapshot().RecvPSN
	}
	if !p.PSN().Less(expected) {
		r.s.differ(Difference{Packet: e.number, About: "acknowledgement",
			Captured: words(p), Engine: fmt.Sprintf("expects PSN 0x%06x, state %v", uint32(expected), r.h.q.State())})
		return fmt.Errorf("packet %d: the engine and the captured device have parted", e.number)
	}
	if g, ok := r.acks[p.PSN()]; ok {
		r.compareMSN(e, g, false)
	} else {
		r.s.free("acknowledgements coalesced")
	}
	delete(r.acks, p.PSN())
	return nil
}

// redo plays requests again that the engine refused before position end, from the PSN on
// for which it had no receive.
func (r *responder) redo(psn wire.PSN, end int) error {
	r.s.assume("a receive posted between two tries")
	r.ready = true
	defer func() { r.ready = false }()
	sent := r.x.requests[psn]
	n, _ := slices.BinarySearch(sent, end)
	if n == 0 {
		return nil
	}
	for i := sent[n-1]; i < end; i++ {
		if r.events[i].request {
			if err := r.request(i); err != nil {
				return err
			}
		}
	}
	return nil
}

// compareMSN compares the count of completed messages in an answer; again says that it
// is to a duplicate.
func (r *responder) compareMSN(e *event, g wire.Packet, again bool) {
	ahead := (e.pkt.MSN() - g.MSN()) & wire.MSNMask
	if !r.msnSure {
		r.msn, r.msnSure = ahead, true
	}
	if (e.pkt.MSN()-r.newest)&wire.MSNMask < (wire.MSNMask+1)/2 {
		r.newest = e.pkt.MSN()
	}
	if ahead != r.msn {
		d := Difference{Packet: e.number, About: "MSN", Captured: fmt.Sprint(e.pkt.MSN()),
			Engine: fmt.Sprint((g.MSN() + r.msn) & wire.MSNMask)}
		if again && e.pkt.MSN() == r.newest {
			d.Explained = whyPresentMSN
		}
		r.s.differ(d)
	}
}

// data compares a response to a READ or an atomic.
func (r *responder) data(e *event) {
	p := e.pkt
	a, ok := r.answers[p.PSN()]
	if !ok {
		r.s.differ(Difference{Packet: e.number, About: "response", Captured: words(p),
			Engine: fmt.Sprintf("sends none, and expects PSN 0x%06x", uint32(r.h.q.Snapshot().RecvPSN))})
		return
	}
	g := a.pkt
	r.answers[p.PSN()] = answer{pkt: g, compared: true, again: a.again}
	for _, d := range compareResponses(p, g) {
		d.Packet = e.number
		if d.About == "opcode" && r.reread(p.PSN()) && p.Info().Has(wire.OpReadResp) && g.Info().Has(wire.OpReadResp) {
			d.Explained = whyRereadPlace
		}
		r.s.differ(d)
	}
	if p.Info().Has(wire.HasAETH) && g.Info().Has(wire.HasAETH) {
		r.compareMSN(e, g, a.again)
	}
}

// reread reports whether a READ was requested again at a PSN.
func (r *responder) reread(psn wire.PSN) bool { return r.rereads[psn] }

// negative compares a NAK.
func (r *responder) negative(i int) {
	e := &r.events[i]
	p := e.pkt
	// The last one fits best: one before it may have been lost beyond the point of capture.
	for j := len(r.naks) - 1; j >= 0; j-- {
		g := r.naks[j]
		if g.pkt.PSN() != p.PSN() || g.pkt.Syndrome().IsRNR() != p.Syndrome().IsRNR() {
			continue
		}
		r.naks = append(r.naks[:j], r.naks[j+1:]...)
		if g.pkt.Syndrome() != p.Syndrome() {
			r.s.differ(Difference{Packet: e.number, About: "syndrome", Captured: words(p), Engine: words(g.pkt)})
		}
		r.compareMSN(e, g.pkt, false)
		r.noteRNR(p)
		return
	}
	d := Difference{Packet: e.number, About: "NAK", Captured: words(p),
		Engine: fmt.Sprintf("sends none, and expects PSN 0x%06x", uint32(r.h.q.Snapshot().RecvPSN))}
	sequence := p.Syndrome() == wire.SyndromeNAK(wire.NAKPSNSequence)
	switch {
	case sequence && r.rnr.on && r.rnr.psn == p.PSN():
		d.Explained = whyBehindRNR
	case p.Syndrome().IsRNR() && r.takesNoReceive(p.PSN(), i):
		d.Explained = whyBusy
	}
	r.noteRNR(p)
	r.s.differ(d)
}

func (r *responder) noteRNR(p wire.Packet) {
	if p.Syndrome().IsRNR() {
		r.rnr.on, r.rnr.psn = true, p.PSN()
	}
}

// takesNoReceive reports whether requests with a PSN were sent and none takes a receive.
func (r *responder) takesNoReceive(psn wire.PSN, before int) bool {
	sent := r.x.requests[psn]
	n, _ := slices.BinarySearch(sent, before)
	return n > 0 && !slices.ContainsFunc(sent[max(0, n-maxTries):n], func(i int) bool { return r.events[i].pkt.Info().Has(wire.OpRecv) })
}

// finish judges the packets that the engine sent and the captured device did not.
func (r *responder) finish() {
	for _, g := range r.naks {
		r.unmatched(g)
	}
	for _, a := range r.answers {
		if !a.compared {
			r.s.free("responses that the capture lacks")
		}
	}
}

// unmatched judges a NAK of the engine that the capture does not have.
func (r *responder) unmatched(g sentNAK) {
	d := Difference{Packet: g.number, About: "NAK", Captured: "none", Engine: words(g.pkt)}
	i, j := r.position(g.number), -1
	if i >= 0 {
		j = after(r.x.requests[g.pkt.PSN()], i)
	}
	switch {
	case j >= 0:
		d.Explained = whyLostNAK
	case g.number > r.last:
		d.Explained = whyCaptureEnds
	}
	r.s.differ(d)
}

// position returns the position of the packet with a number.
func (r *responder) position(number int) int {
	i, ok := slices.BinarySearchFunc(r.events, number, func(e event, n int) int { return e.number - n })
	if !ok {
		return -1
	}
	return i
}

// lastResponse returns the number of the last response in the capture.
func (n *session) lastResponse() int {
	for i := len(n.events) - 1; i >= 0; i-- {
		if !n.events[i].request {
			return n.events[i].number
		}
	}
	return 0
}
