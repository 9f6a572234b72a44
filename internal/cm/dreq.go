package cm

import (
	"github.com/gorxe/gorxe/rxe"
	"github.com/gorxe/gorxe/wire"
)

// Disconnect ends an established connection: it sends a DREQ, or the DREP if a DREQ has
// come. After a DREQ, the handler receives EventDisconnected, or EventDisconnect if the
// DREQs of both sides cross. In other states Disconnect returns ErrState.
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

// receiveDREQ ends a connection (cm_dreq_handler). The DREP waits until the user calls
// Disconnect, because its queue pair may still have messages to send.
func (m *Machine) receiveDREQ(now rxe.Time, from rxe.AHAttr, dreq wire.CMDREQ) {
	c := m.find(from, dreq.RemoteCommID(), dreq.LocalCommID())
	if c == nil || c.state == StateIdle {
		// The connection is over (cm_issue_drep). Linux does not answer while the user
		// keeps the connection, and the peer then waits for a minute.
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
		// If the state is one after a REP, the RTU was lost: the peer had established the
		// connection.
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

// receiveDREP handles the answer to this side's DREQ (cm_drep_handler).
func (m *Machine) receiveDREP(now rxe.Time, from rxe.AHAttr, drep wire.CMDREP) {
	c := m.find(from, drep.RemoteCommID(), drep.LocalCommID())
	if c == nil || c.state != StateDREQSent && c.state != StateDREQRcvd {
		m.counters.Unexpected++
		return
	}
	c.enterTimewait(now)
	c.event(now, &Event{Kind: EventDisconnected, PrivateData: drep.PrivateData()})
}
