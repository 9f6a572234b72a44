package cm

import (
	"github.com/gorxe/gorxe/rxe"
	"github.com/gorxe/gorxe/wire"
)

// sendMRA says that the user has the message and has not answered yet.
func (c *Conn) sendMRA(of wire.CMSubject) {
	mra := c.m.out.InitMRA(c.tid)
	mra.SetCommIDs(c.commID, c.peer.commID)
	mra.SetMessageMRAed(of)
	mra.SetServiceTimeout(mraServiceTimeout)
	c.m.send(c.path, mra.MAD)
}

// receiveMRA waits longer for the answer to a REQ or REP (cm_mra_handler).
func (m *Machine) receiveMRA(now rxe.Time, from rxe.AHAttr, mra wire.CMMRA) {
	// The active side does not know its peer's comm ID before the REP.
	remote := mra.LocalCommID()
	if mra.MessageMRAed() == wire.CMSubjectREQ {
		remote = 0
	}
	c := m.find(from, mra.RemoteCommID(), remote)
	if c == nil {
		m.counters.Unexpected++
		return
	}
	switch {
	case c.state == StateREQSent && mra.MessageMRAed() == wire.CMSubjectREQ:
		c.setState(StateMRAREQRcvd)
		c.extend(now, mra.ServiceTimeout())
	case c.state == StateREPSent && mra.MessageMRAed() == wire.CMSubjectREP:
		c.setState(StateMRAREPRcvd)
		c.extend(now, mra.ServiceTimeout())
	case c.state == StateMRAREQRcvd || c.state == StateMRAREPRcvd:
		m.counters.RxDuplicates.add(wire.AttrMRA)
	default:
		m.counters.Unexpected++
	}
}
