package gsi

import (
	"github.com/gorxe/gorxe/rxe"
	"github.com/gorxe/gorxe/wire"
)

// pma is the agent of performance management. Any host can read the port's counters
// through it, and no host can set them.
type pma struct {
	mux      *Mux
	counters func() wire.PortCounters
}

// pmaPort is the number of the port.
const pmaPort = 1

// pmaResponseTime is 4.096 µs times 2 to this power, about a second (IBA 13.4.6.2).
const pmaResponseTime = 18

const pmaCapabilities = wire.PMCapAllPortSelect | wire.PMCapExtendedWidth | wire.PMCapXmitWait

// ReceiveMAD answers a request (IBA 16.1.2).
func (p *pma) ReceiveMAD(from rxe.AHAttr, src wire.QPN, mad *wire.MAD) {
	if method := mad.Method(); method != wire.MADGet && method != wire.MADSet {
		p.mux.counters.NoAgent.Add(1)
		return
	}
	p.mux.answer(from, src, mad, p.get(mad))
}

// get fills in what a request asks for, and returns the status of the answer (IBA 13.4.7).
func (p *pma) get(mad *wire.MAD) (status uint16) {
	h := mad.Header()
	if h.ClassVersion != wire.PMClassVersion {
		return wire.MADUnsupportedVersion
	}
	if h.Method != wire.MADGet {
		return wire.MADUnsupportedAttribute
	}
	switch wire.PMAttribute(h.Attribute) {
	case wire.AttrClassPortInfo:
		clear(mad.Data())
		wire.PMClassPortInfo{MAD: mad}.SetInfo(pmaCapabilities, pmaResponseTime)
	case wire.AttrPortCounters:
		return p.getCounters(mad, wire.PMPortCounters{MAD: mad})
	case wire.AttrPortCountersExtended:
		return p.getCounters(mad, wire.PMPortCountersExtended{MAD: mad})
	default:
		return wire.MADUnsupportedAttribute
	}
	return 0
}

// getCounters fills in the counters. attr is mad with its attribute's layout.
func (p *pma) getCounters(mad *wire.MAD, attr interface {
	PortSelect() uint8
	SetPortSelect(port uint8)
	SetCounters(c *wire.PortCounters)
}) (status uint16) {
	port := attr.PortSelect()
	if port != pmaPort && port != wire.PMAllPorts {
		return wire.MADInvalidField
	}
	clear(mad.Data())
	c := p.counters()
	attr.SetPortSelect(port)
	attr.SetCounters(&c)
	return 0
}
