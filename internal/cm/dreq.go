package cm

import (
	"github.com/gorxe/gorxe/rxe"
	"github.com/gorxe/gorxe/wire"
)

// Disconnect ends an established connection: it sends a DREQ, or the DREP if a DREQ has
// come. After the DREQ, the handler hears of EventDisconnected, or of EventDisconnect if
// the peer's DREQ crosses. ErrState in other states.
func (c *Conn) Disconnect(now rxe.Time) error {
	switch c.state {
	case StateEstablished:
		c.sendDREQ(now)
	case StateDREQRcvd:
		c.sendDREP()
		c.enterTimewait(now)
	default:
		return ErrState
	}
	return nil
}

// sendDREQ sends a DREQ until it is answered.
func (c *Conn) sendDREQ(now rxe.Time) {
	dreq := c.resend.mad.InitDREQ(c.newTID())
	dreq.SetCommIDs(c.commID, c.peer.commID)
	dreq.SetRemoteQPN(c.peer.qpn)
	c.setState(StateDREQSent)
	c.sendUntilAnswered(now)
}

// sendDREP answers the DREQ whose transaction identifier is c.tid.
func (c *Conn) sendDREP() {
	drep := c.m.out.InitDREP(c.tid)
	drep.SetCommIDs(c.commID, c.peer.commID)
	c.m.send(c.path, drep.MAD)
}

// receiveDREQ ends a connection (cm_dreq_handler). The DREP waits for the user, whose
// queue pair may have messages to send still.
func (m *Machine) receiveDREQ(now rxe.Time, from rxe.AHAttr, dreq wire.CMDREQ) {
	c := m.find(dreq.RemoteCommID(), dreq.LocalCommID())
	if c == nil || c.state == StateIdle {
		// Nothing is left of the connection (cm_issue_drep). Linux says nothing while
		// the user keeps the connection: the peer then waits for a minute.
		m.counters.RxDuplicates.add(wire.AttrDREQ)
		drep := m.out.InitDREP(dreq.TID())
		drep.SetCommIDs(dreq.RemoteCommID(), dreq.LocalCommID())
		m.send(from, drep.MAD)
		return
	}
	if dreq.RemoteQPN() != c.qp.localQPN {
		m.counters.Unexpected++
		return
	}
	switch c.state {
	case StateREPSent, StateMRAREPRcvd, StateEstablished, StateDREQSent:
		// After a REP, the RTU was lost: the connection had been established.
		c.stopTimer()
		c.tid = dreq.TID()
		c.setState(StateDREQRcvd)
		c.event(now, &Event{Kind: EventDisconnect, PrivateData: dreq.PrivateData()})
	case StateTimewait:
		m.counters.RxDuplicates.add(wire.AttrDREQ)
		c.tid = dreq.TID()
		c.sendDREP()
	case StateDREQRcvd:
		m.counters.RxDuplicates.add(wire.AttrDREQ)
	default:
		m.counters.Unexpected++
	}
}

// receiveDREP is the end of this side's DREQ (cm_drep_handler).
func (m *Machine) receiveDREP(now rxe.Time, drep wire.CMDREP) {
	c := m.find(drep.RemoteCommID(), drep.LocalCommID())
	if c == nil || c.state != StateDREQSent && c.state != StateDREQRcvd {
		m.counters.Unexpected++
		return
	}
	c.enterTimewait(now)
	c.event(now, &Event{Kind: EventDisconnected, PrivateData: drep.PrivateData()})
}
