package sim

import (
	"fmt"
	"net/netip"
	"os"

	"github.com/gorxe/gorxe/internal/test/simnet"
	"github.com/gorxe/gorxe/wire"
)

// traceChecker checks the packets on the network against rules that every RC
// conversation obeys (after the checkers of Lumina, SIGCOMM 2023):
//
//   - a request's PSN is at most one past the highest sent before;
//   - a responder never acknowledges a packet that was not delivered to it, and its
//     acknowledgements go back only to answer a duplicate;
//   - it sends one sequence NAK per gap, with the first missing PSN.
type traceChecker struct {
	w     *world
	flows map[flowID]*flow
	err   error
}

// flowID names the requests to one QP.
type flowID struct {
	dst netip.Addr
	qpn wire.QPN
}

// flow is what is known of the requests of one QP to its peer.
type flow struct {
	from      *endpoint
	next      wire.PSN // the first PSN never sent
	mtu       uint32
	delivered wire.PSN // the first PSN not delivered in order
	acked     wire.PSN // the highest PSN acknowledged, plus one
	naked     bool     // a sequence NAK is out for:
	nakPSN    wire.PSN
	dup       bool // a duplicate was delivered since the last ACK
}

// dump prints every RC packet: for one seed, when it fails.
var dump = os.Getenv("GORXE_SIM_DUMP") != ""

func newTraceChecker(w *world) *traceChecker {
	return &traceChecker{w: w, flows: make(map[flowID]*flow)}
}

// conversation announces the requests of e.
func (t *traceChecker) conversation(e *endpoint, psn wire.PSN) {
	id := flowID{e.peer.h.addr, e.peer.q.Num()}
	t.flows[id] = &flow{from: e, next: psn, delivered: psn, acked: psn, mtu: uint32(e.p.mtu)}
}

func (t *traceChecker) observe(p *simnet.Packet, fate simnet.Fate) {
	if t.err != nil || len(p.Data) < wire.BTHLen+wire.ICRCLen {
		return
	}
	if fate == simnet.Discarded || fate == simnet.Duplicated {
		return
	}
	pkt, err := wire.Parse(p.Data[:len(p.Data)-wire.ICRCLen])
	if err != nil {
		t.fail(p, "does not parse: %v", err)
		return
	}
	if s := pkt.Info().Service; s != wire.ServiceRC && s != wire.ServiceXRC {
		return
	}
	if dump {
		fmt.Printf("%9d %-10v %v>%v %v qp %06x psn %06x ack %v syndrome %v msn %d va %x len %d payload %d\n", t.w.net.Now(), fate,
			p.Route.Src, p.Route.Dst, pkt.Opcode(), pkt.DestQP(), pkt.PSN(), pkt.AckReq(), pkt.Syndrome(), pkt.MSN(), pkt.VA(), pkt.DMALen(), len(pkt.Payload()))
	}
	switch sent := fate != simnet.Delivered; {
	case pkt.Info().Has(wire.OpRequest):
		f := t.flows[flowID{p.Route.Dst, pkt.DestQP()}]
		if f == nil {
			return // of a QP that was destroyed
		}
		if sent {
			t.request(p, pkt, f)
		} else {
			f.deliver(pkt)
		}
	case sent && pkt.Info().Has(wire.HasAETH):
		t.response(p, pkt)
	}
}

// span is how many PSNs a request takes.
func (f *flow) span(pkt wire.Packet) uint32 {
	if !pkt.Info().Has(wire.OpRead) {
		return 1
	}
	return max(1, (pkt.DMALen()+f.mtu-1)/f.mtu)
}

func (t *traceChecker) request(p *simnet.Packet, pkt wire.Packet, f *flow) {
	psn := pkt.PSN()
	if f.next.Less(psn) {
		t.fail(p, "PSN %#x skips %#x", psn, f.next)
	}
	if end := psn.Add(f.span(pkt)); f.next.Less(end) {
		f.next = end
	}
}

// deliver moves the expected PSN on as a responder does that has receives.
func (f *flow) deliver(pkt wire.Packet) {
	if pkt.PSN() == f.nakPSN {
		f.naked = false
	}
	switch {
	case pkt.PSN() == f.delivered:
		f.delivered = f.delivered.Add(f.span(pkt))
	case pkt.PSN().Less(f.delivered):
		f.dup = true
	}
}

// response checks what the responder of the opposite flow sends.
func (t *traceChecker) response(p *simnet.Packet, pkt wire.Packet) {
	// The response is addressed to the requester: find the flow it sends.
	var f *flow
	for _, e := range t.w.ends {
		if e.h.addr == p.Route.Dst && e.q.Num() == pkt.DestQP() {
			f = t.flows[flowID{e.peer.h.addr, e.peer.q.Num()}]
		}
	}
	if f == nil {
		return
	}
	psn, s := pkt.PSN(), pkt.Syndrome()
	switch {
	case s.IsACK():
		if f.delivered.Less(psn.Next()) {
			t.fail(p, "acknowledges PSN %#x, delivered in order is only up to %#x", psn, f.delivered.Sub(1))
		}
		if pkt.Opcode().Operation() != wire.RCAck {
			return // an answer, first or replayed
		}
		if psn.Next().Less(f.acked) && !f.dup {
			t.fail(p, "acknowledges PSN %#x after %#x", psn, f.acked.Sub(1))
		}
		f.acked = psn.Next()
		if t.w.p.net.MaxBatch == 1 { // else the duplicate may be behind, in the batch
			f.dup = false
		}
	case s.IsRNR():
		f.delivered = psn // was delivered, but not taken
	case s.IsNAK() && s.NAKCode() == wire.NAKPSNSequence:
		if f.delivered.Less(psn) || f.naked && f.nakPSN == psn {
			t.fail(p, "NAKs PSN %#x, the first missing is %#x, NAKed before: %v", psn, f.delivered, f.naked)
		}
		f.naked, f.nakPSN = true, psn
	}
}

func (t *traceChecker) fail(p *simnet.Packet, format string, args ...any) {
	pkt, _ := wire.Parse(p.Data[:len(p.Data)-wire.ICRCLen])
	op := wire.Opcode(p.Data[0])
	t.err = fmt.Errorf("trace at %v: %v from %v to %v PSN %#x: %s", t.w.net.Now(), op,
		p.Route.Src, p.Route.Dst, pkt.PSN(), fmt.Sprintf(format, args...))
}
