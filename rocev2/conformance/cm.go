package conformance

import (
	"encoding/binary"

	"github.com/gorxe/gorxe/wire"
)

// The connection manager's messages travel in datagrams to QP1 (IBA 12.6). A REQ
// and the REP that answers it name both queue pairs, and agree on the depth of
// READs and atomics.

const (
	madLen       = 24
	madClassCM   = 7
	cmREQ        = 0x0010
	cmREP        = 0x0013
	cmREQLen     = 52
	cmREPLen     = 28
	maxProposals = 256
	maxAgreed    = 4096
)

// proposal is a REQ that has not been answered.
type proposal struct {
	from, to [16]byte
	commID   uint32
	qpn      wire.QPN
	depth    uint8 // READs that it will answer
}

// agreements are what connection managers were seen to agree on.
type agreements struct {
	proposals []proposal // a ring
	pos       int
	pairs     map[flowKey]agreement
}

// agreement says which flow is the opposite of one.
type agreement struct {
	peer  flowKey
	depth int // READs that may be outstanding in this direction
}

// connectionManager reads a datagram to QP1.
func (c *Checker) connectionManager(s *subject, f *Flow) {
	mad := s.pkt.Payload()
	if len(mad) < madLen || mad[0] != 1 || mad[1] != madClassCM {
		return
	}
	be := binary.BigEndian
	m := mad[madLen:]
	switch be.Uint16(mad[16:]) {
	case cmREQ:
		if len(m) < cmREQLen {
			return
		}
		c.agreed.propose(proposal{
			from: f.key.src, to: f.key.dst, commID: be.Uint32(m),
			qpn: wire.QPN(be.Uint32(m[32:]) >> 8), depth: m[35],
		})
	case cmREP:
		if len(m) < cmREPLen {
			return
		}
		q := c.agreed.answered(f.key.dst, f.key.src, be.Uint32(m[4:]))
		if q == nil {
			return
		}
		qpn, depth := wire.QPN(be.Uint32(m[12:])>>8), m[24]
		toPassive := flowKey{src: q.from, dst: q.to, qpn: qpn, kind: f.Kind}
		toActive := flowKey{src: q.to, dst: q.from, qpn: q.qpn, kind: f.Kind}
		c.agree(toPassive, toActive, int(depth))
		c.agree(toActive, toPassive, int(q.depth))
	}
}

func (a *agreements) propose(p proposal) {
	for i := range a.proposals {
		if q := &a.proposals[i]; q.from == p.from && q.to == p.to && q.commID == p.commID {
			*q = p
			return
		}
	}
	if len(a.proposals) < maxProposals {
		a.proposals = append(a.proposals, p)
		return
	}
	a.proposals[a.pos] = p
	a.pos = (a.pos + 1) % maxProposals
}

func (a *agreements) answered(from, to [16]byte, commID uint32) *proposal {
	for i := range a.proposals {
		if q := &a.proposals[i]; q.from == from && q.to == to && q.commID == commID {
			return q
		}
	}
	return nil
}

// agree notes the opposite of a flow. A message that was repeated changes nothing.
func (c *Checker) agree(key, peer flowKey, depth int) {
	a := &c.agreed
	if a.pairs == nil {
		a.pairs = make(map[flowKey]agreement)
	}
	if old, ok := a.pairs[key]; ok && old == (agreement{peer, depth}) {
		return
	}
	if len(a.pairs) >= maxAgreed {
		clear(a.pairs)
	}
	a.pairs[key] = agreement{peer, depth}
	if f := c.flows[key]; f != nil {
		// The numbers were used before, for another connection.
		if x := f.Peer; x != nil {
			f.Peer, x.Peer = nil, nil
			f.dir.unpaired = append(f.dir.unpaired, f)
			x.dir.unpaired = append(x.dir.unpaired, x)
		}
		f.pair = pairing{}
		f.restart()
		a.link(c, f)
	}
}

// link gives a flow its peer, if that was agreed on.
func (a *agreements) link(c *Checker, f *Flow) {
	to, ok := a.pairs[f.key]
	if !ok {
		return
	}
	f.pair.agreed = true
	f.depth = to.depth
	if x := c.flows[to.peer]; x != nil {
		x.pair.agreed = true
		join(f, x)
	}
}
