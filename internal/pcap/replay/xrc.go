package replay

import (
	"encoding/binary"

	"github.com/gorxe/gorxe/rxe"
	"github.com/gorxe/gorxe/wire"
)

// XRC (IBA A14) differs from RC in two things. Each request names one of the responder's shared
// receive queues, and a queue pair is either an initiator or a target. The engine as responder has
// an XRC domain with an SRQ for each number that the captured device took.

// reliable reports whether requests are answered.
func (n *session) reliable() bool {
	return n.service == wire.ServiceRC || n.service == wire.ServiceXRC
}

// rcOpcode returns the opcode that RC has for what a packet does.
func rcOpcode(p wire.Packet) wire.Opcode {
	if p.Info().Service == wire.ServiceXRC {
		return p.Opcode() - wire.XRCSendFirst + wire.RCSendFirst
	}
	return p.Opcode()
}

// domain is the XRC domain of the engine as responder.
type domain struct {
	h    *host
	xrcd *rxe.XRCD
	// The numbers of captured SRQs. Those that are known were seen to take a request.
	known map[uint32]bool
	srqs  map[uint32]*rxe.SRQ // made so far
	named map[uint32]uint32   // the captured numbers by the engine's
}

// newDomain makes a domain, and a target in it for the host. It learns which SRQs there are from
// the requests that were not refused.
func newDomain(h *host, x *index) (*domain, error) {
	d := &domain{h: h, known: make(map[uint32]bool), srqs: make(map[uint32]*rxe.SRQ), named: make(map[uint32]uint32)}
	for i, e := range x.events {
		if no, refused := x.refusal(i); e.request && (!refused || no.Syndrome() != wire.SyndromeNAK(wire.NAKRemoteAccess)) {
			d.known[e.pkt.XRCSRQN()] = true
		}
	}
	var err error
	if d.xrcd, err = h.dev.Whole().OpenXRCD(rxe.XRCDInit{}); err != nil {
		return nil, err
	}
	h.q, err = h.dev.Whole().CreateTarget(d.xrcd, rxe.QPInitAttr{})
	return d, err
}

// srq returns the engine's SRQ for a captured number; nil: the captured device had none.
func (d *domain) srq(num uint32) (*rxe.SRQ, error) {
	if s := d.srqs[num]; s != nil || !d.known[num] {
		return s, nil
	}
	s, err := d.h.pd.CreateSRQ(rxe.SRQInit{MaxWR: 16, MaxSGE: 2, XRCD: d.xrcd, CQ: d.h.cq})
	if err == nil {
		d.srqs[num], d.named[s.Num()] = s, num
	}
	return s, err
}

// translateSRQ puts the engine's number of an SRQ into a request. Number 0 names none.
func (r *responder) translateSRQ(b []byte, p wire.Packet) error {
	if r.domain == nil {
		return nil
	}
	s, err := r.domain.srq(p.XRCSRQN())
	if err != nil {
		return err
	}
	num := uint32(0)
	if s != nil {
		num = s.Num()
	} else {
		r.s.assume("an SRQ that the target's domain does not have")
	}
	binary.BigEndian.PutUint32(b[p.Info().XRCETH:], num)
	return nil
}
