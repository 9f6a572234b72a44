package gsi

import (
	"github.com/gorxe/gorxe/rxe"
	"github.com/gorxe/gorxe/wire"
)

// pma is the agent of performance management. Any host can read the port's counters
// through it. Only a program with access to this host's management datagrams can set them.
type pma struct {
	mux      *Mux
	counters *PortCounters
}

// pmaPort is the number of the port.
const pmaPort = 1

// pmaResponseTime is 4.096 µs times 2 to this power, about a second (IBA 13.4.6.2).
const pmaResponseTime = 18

const pmaCapabilities = wire.PMCapAllPortSelect | wire.PMCapExtendedWidth | wire.PMCapXmitWait

// ReceiveMAD answers a request (IBA 16.1.2).
func (p *pma) ReceiveMAD(from rxe.AHAttr, src wire.QPN, mad *wire.MAD) {
	status := wire.MADUnsupportedAttribute
	if mad.Method() == wire.MADGet {
		status = p.perform(mad)
	}
	p.mux.answer(from, src, mad, status)
}

// Perform makes a request of this host to performance management its answer. It returns false
// if the port has no such agent, or the datagram is no request.
func (m *Mux) Perform(mad *wire.MAD) bool {
	if m.pma == nil || !isRequest(mad) {
		return false
	}
	mad.Answer(wire.MADGetResp, m.pma.perform(mad))
	return true
}

// perform does what a request asks for and fills it in. It returns the status of the answer
// (IBA 13.4.7). The answer to a Set has the counters as they are then.
func (p *pma) perform(mad *wire.MAD) (status uint16) {
	h := mad.Header()
	if h.ClassVersion != wire.PMClassVersion {
		return wire.MADUnsupportedVersion
	}
	set := h.Method == wire.MADSet
	switch a := wire.PMAttribute(h.Attribute); {
	case a == wire.AttrClassPortInfo && !set:
		clear(mad.Data())
		wire.PMClassPortInfo{MAD: mad}.SetInfo(pmaCapabilities, pmaResponseTime)
	case a == wire.AttrPortCounters:
		return p.performCounters(mad, wire.PMPortCounters{MAD: mad}, &p.counters.start)
	case a == wire.AttrPortCountersExtended:
		return p.performCounters(mad, wire.PMPortCountersExtended{MAD: mad}, &p.counters.startExt)
	default:
		return wire.MADUnsupportedAttribute
	}
	return 0
}

// performCounters sets the counters that count from start, if it is to, and fills them in. attr
// is mad with its attribute's layout.
func (p *pma) performCounters(mad *wire.MAD, attr interface {
	PortSelect() uint8
	SetPortSelect(port uint8)
	Apply(c *wire.PortCounters)
	SetCounters(c *wire.PortCounters)
}, start *wire.PortCounters) (status uint16) {
	port := attr.PortSelect()
	if port != pmaPort && port != wire.PMAllPorts {
		return wire.MADInvalidField
	}
	if mad.Method() == wire.MADSet {
		p.counters.set(start, attr.Apply)
	}
	clear(mad.Data())
	c := p.counters.since(start)
	attr.SetPortSelect(port)
	attr.SetCounters(&c)
	return 0
}
