package replay

import (
	"bytes"
	"errors"

	"github.com/gorxe/gorxe/rxe"
	"github.com/gorxe/gorxe/wire"
)

// The engine as responder. It gets the captured requests. Its responses wait until the
// captured device sends the same.

type responder struct {
	*session
	s    *Session
	h    *host
	x    *index
	keys *keys
	mem  *learnt
	recv *rxe.MR

	answers map[wire.PSN]answer // responses with data, the last of each PSN
	acks    map[wire.PSN]wire.Packet
	naks    []sentNAK
	domain  *domain         // of XRC; nil: RC
	posted  map[uint32]bool // a receive is posted, by the captured number of the SRQ; RC: 0
	ready   bool            // a receive is posted even if the captured device had none
	rnr     struct {
		on  bool
		psn wire.PSN
	}
	msn     wire.MSN // how far captured MSNs are ahead of those of the engine
	msnSure bool
	newest  wire.MSN          // of the captured
	rereads map[wire.PSN]bool // where a READ was requested again
	last    int               // the number of the last captured response
}

// maxNAKs bounds the engine's NAKs that wait for a match in the capture.
const maxNAKs = 1 << 10

// recvLength is the length of a receive, which fits the longest message.
const recvLength = 1 << 31

func playResponder(n *session, s *Session) error {
	h, err := newHost(rxe.QPRC, n.flow.Dst, n.flow.Src, n.budget())
	if err != nil {
		return err
	}
	defer h.close()
	x := newIndex(n.events)
	var d *domain
	if n.service == wire.ServiceXRC {
		if d, err = newDomain(h, x); err != nil {
			return err
		}
	}
	first := n.events[0].pkt.PSN()
	peer := wire.QPN(1)
	if n.flow.Peer != nil {
		peer = n.flow.Peer.QPN
	}
	if err := h.connect(rxe.QPAttr{PathMTU: rxe.MTU(n.mtu), DestQPN: peer, RQPSN: first}); err != nil {
		return err
	}
	r := &responder{
		session: n, s: s, h: h, x: x, domain: d, mem: new(learnt), posted: make(map[uint32]bool),
		answers: make(map[wire.PSN]answer), acks: make(map[wire.PSN]wire.Packet), rereads: make(map[wire.PSN]bool),
	}
	r.keys, r.last = newKeys(h, r.mem, r.x), n.lastResponse()
	if r.recv, err = h.pd.RegMR(&sink{}, 0, recvLength, 0, rxe.AccessLocalWrite); err != nil {
		return err
	}
	for i := range n.events {
		if n.events[i].request {
			err = r.request(i)
		} else {
			err = r.response(i)
		}
		if err != nil {
			return err
		}
	}
	r.finish()
	return nil
}

// request plays the request at position i.
func (r *responder) request(i int) error {
	e := &r.events[i]
	if r.x.lost[i] {
		r.s.assume("lost behind the point of capture")
		return nil
	}
	p := e.pkt
	expected := r.h.q.Snapshot().RecvPSN
	ahead := p.PSN().Diff(expected)
	if p.Info().Has(wire.OpRead) {
		if r.h.budget -= int64(p.DMALen()); r.h.budget < 0 {
			return errBudget
		}
	}
	b := bytes.Clone(p.Bytes())
	if ahead <= 0 {
		r.learn(i)
		if err := r.translate(b, i); err != nil {
			return err
		}
	}
	if ahead == 0 {
		if err := r.prepare(i); err != nil {
			return err
		}
	}
	if ahead < 0 && p.Info().Has(wire.OpRead) {
		r.rereads[p.PSN()] = true
	}
	if err := r.h.receive(b, paceSpan); err != nil {
		return err
	}
	if r.s.Played++; r.s.Played > 4*len(r.events) {
		return errors.New("its requests were refused and repeated too often")
	}
	received, _ := r.h.poll()
	for _, num := range received {
		if r.domain != nil {
			num = r.domain.named[num]
		}
		delete(r.posted, num)
	}
	if r.mem.full {
		return errors.New("its requests touch more memory than is replayed")
	}
	if p.Info().Has(wire.OpInv) && ahead == 0 && r.h.q.State() == rxe.QPRTS {
		r.keys.invalidate(p.InvRKey())
	}
	r.absorb(e.number)
	return nil
}

// absorb takes the packets that the engine sent.
func (r *responder) absorb(number int) {
	for _, p := range r.h.take() {
		switch {
		case refused(p):
			if len(r.naks) == maxNAKs {
				// The oldest is judged now, so that there is room for those to come.
				r.unmatched(r.naks[0])
				r.naks = append(r.naks[:0], r.naks[1:]...)
			}
			r.naks = append(r.naks, sentNAK{p, number})
		case rcOpcode(p) == wire.RCAck:
			r.acks[p.PSN()] = p
		default:
			_, again := r.answers[p.PSN()]
			r.answers[p.PSN()] = answer{pkt: p, again: again}
		}
	}
}
