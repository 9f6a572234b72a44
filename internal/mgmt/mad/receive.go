package mad

import (
	"github.com/gorxe/gorxe/rxe"
	"github.com/gorxe/gorxe/wire"
)

// methodTrapRepress is an answer without the top bit (IBA 13.4.5).
const methodTrapRepress wire.MADMethod = 0x07

// Offsets in a datagram of a vendor class and of one with RMPP (IBA 13.6.2, 16.5.1).
const (
	offRMPPFlags = 26
	offVendorOUI = 37
	offBoardsMod = 23
)

// Bits of an RMPP header.
const rmppActive = 1

// isResponse reports whether a datagram is an answer (mad.c: ib_response_mad).
func isResponse(m *wire.MAD) bool {
	return m.Method()&wire.MADResponse != 0 || m.Method() == methodTrapRepress ||
		m.Class() == classBoards && m[offBoardsMod]&1 != 0
}

// isRMPP reports whether the datagram is a part of a longer message.
func isRMPP(m *wire.MAD) bool { return hasRMPP(m.Class()) && m[offRMPPFlags]&rmppActive != 0 }

// slotOf returns which agent a request is for.
func slotOf(m *wire.MAD) slot {
	h := m.Header()
	s := slot{class: h.Class, version: h.ClassVersion, method: h.Method &^ wire.MADResponse}
	if hasOUI(s.class) {
		s.oui = [3]byte(m[offVendorOUI:])
	}
	return s
}

// TakeMAD implements gsi.Taker.
func (p *Port) TakeMAD(from rxe.AHAttr, src wire.QPN, mad *wire.MAD) bool {
	d := &Datagram{MAD: *mad, Remote: true, From: from, Src: src}
	if isResponse(mad) {
		return p.answered(d)
	}
	return p.deliver(d)
}

// deliver hands a request to the agent that is registered for it. It returns false if there
// is none.
func (p *Port) deliver(d *Datagram) bool {
	p.mu.Lock()
	a := p.slots[slotOf(&d.MAD)]
	if a != nil && a.kernelRMPP() && isRMPP(&d.MAD) {
		p.mu.Unlock()
		return true // nobody puts the message together
	}
	if a != nil {
		a.origins.add(d)
	}
	p.mu.Unlock()
	if a == nil {
		return false
	}
	a.handler.Received(a, d)
	return true
}

// answered hands an answer to the agent that has asked. It returns false if that is gone. An
// answer that nobody waits for is dropped, unless the program handles RMPP (mad.c:
// ib_mad_complete_recv).
func (p *Port) answered(d *Datagram) bool {
	p.mu.Lock()
	a := p.agents[uint32(d.MAD.TID()>>32)]
	if a == nil {
		p.mu.Unlock()
		return false
	}
	t := a.pending[keyOf(&d.MAD, false)]
	if t != nil && t.answeredBy(d) {
		delete(a.pending, t.key)
		t.stop()
	} else {
		t = nil
	}
	p.mu.Unlock()
	if t != nil || isRMPP(&d.MAD) && !a.kernelRMPP() {
		a.handler.Received(a, d)
	}
	if t != nil {
		a.handler.Ended(a, t.context, false)
	}
	return true
}

// kernelRMPP reports whether the program leaves RMPP to the kernel.
func (a *Agent) kernelRMPP() bool { return a.reg.RMPP != 0 && !a.reg.UserRMPP }

// origins remembers where the last requests of an agent came from.
type origins struct {
	list [64]origin
	next int
}

type origin struct {
	tid   uint64
	class wire.MADClass
	known bool
	local bool
	from  rxe.AHAttr
	src   wire.QPN
}

func (o *origins) add(d *Datagram) {
	o.list[o.next] = origin{d.MAD.TID(), d.MAD.Class(), true, !d.Remote, d.From, d.Src}
	o.next = (o.next + 1) % len(o.list)
}

// find returns where the newest request came from that mad answers.
func (o *origins) find(mad *wire.MAD) (origin, bool) {
	for i := range o.list {
		at := &o.list[(o.next-1-i+2*len(o.list))%len(o.list)]
		if at.known && at.tid == mad.TID() && at.class == mad.Class() {
			return *at, true
		}
	}
	return origin{}, false
}
