package conformance

import "github.com/gorxe/gorxe/wire"

// A REQ of the connection manager and the REP that answers it (IBA 12.6) name both
// queue pairs of a connection, and agree on the depth of READs and atomics.

const (
	maxProposals = 256
	maxAgreed    = 4096
)

// proposal is a REQ without a REP.
type proposal struct {
	from, to [16]byte
	commID   uint32
	qpn      wire.QPN
	depth    uint8 // READs that its sender answers at a time
	xrc      bool
}

// agreements are what connection managers agreed on in this capture.
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

// connectionManager reads a message of the connection manager.
func (c *Checker) connectionManager(f *Flow, m wire.CMMessage) {
	switch m := m.(type) {
	case wire.CMREQ:
		c.agreed.propose(proposal{
			from: f.key.src, to: f.key.dst, commID: m.LocalCommID(), qpn: m.QPN(), depth: m.ResponderResources(), xrc: m.XRC(),
		})
	case wire.CMREP:
		req := c.agreed.answered(f.key.dst, f.key.src, m.RemoteCommID())
		if req == nil {
			return
		}
		toPassive := flowKey{src: req.from, dst: req.to, qpn: repliedQPN(m, req.xrc), kind: f.Kind}
		toActive := flowKey{src: req.to, dst: req.from, qpn: req.qpn, kind: f.Kind}
		c.agree(toPassive, toActive, int(m.ResponderResources()))
		c.agree(toActive, toPassive, int(req.depth))
	}
}

// repliedQPN returns the queue pair of a REP. The REP does not say what kind of queue pair that is.
func repliedQPN(m wire.CMREP, xrc bool) wire.QPN {
	if xrc {
		return m.XRCQPN()
	}
	return m.QPN()
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
