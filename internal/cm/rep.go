package cm

import (
	"github.com/gorxe/gorxe/rxe"
	"github.com/gorxe/gorxe/wire"
)

// Accept answers a REQ with a REP, or a SIDR_REQ with a SIDR_REP of status success. After
// a REP, the handler receives EventReady, EventRejected or EventUnreachable. After a
// SIDR_REP it receives nothing. Accept returns ErrState unless the connection came from a
// listener and is unanswered.
func (c *Conn) Accept(now rxe.Time, p *AcceptParams) error {
	switch c.state {
	case StateSIDRREQRcvd:
		return c.acceptSIDR(p)
	case StateREQRcvd, StateMRAREQSent:
	default:
		return ErrState
	}
	switch {
	case len(p.PrivateData) > wire.CMREPPrivateLen:
		return ErrPrivateData
	case p.QPN > wire.QPNMask, p.RNRRetryCount > 7:
		return ErrInvalid
	}
	qp := &c.qp
	qp.localQPN = p.QPN
	if p.StartingPSN != 0 {
		qp.rqPSN = p.StartingPSN & wire.PSNMask
	}
	qp.responderResources, qp.initiatorDepth = p.ResponderResources, p.InitiatorDepth

	rep := c.resend.mad.InitREP(c.tid)
	rep.SetCommIDs(c.commID, c.peer.commID)
	rep.SetStartingPSN(qp.rqPSN)
	rep.SetResponderResources(p.ResponderResources)
	rep.SetTargetACKDelay(c.m.cfg.TargetACKDelay)
	rep.SetRNRRetryCount(p.RNRRetryCount)
	if qp.typ == rxe.QPXRCTgt {
		rep.SetXRCQPN(p.QPN)
		rep.SetSRQ(true)
	} else {
		rep.SetQPN(p.QPN)
		rep.SetInitiatorDepth(p.InitiatorDepth)
		rep.SetFlowControl(p.FlowControl)
		rep.SetSRQ(p.SRQ)
	}
	rep.SetCAGUID(c.m.cfg.GUID)
	copy(rep.PrivateData(), p.PrivateData)
	c.setState(StateREPSent)
	c.sendUntilAnswered(now)
	return nil
}

// receiveREP handles the answer to this side's REQ (cm_rep_handler).
func (m *Machine) receiveREP(now rxe.Time, from rxe.AHAttr, rep wire.CMREP) {
	c := m.find(from, rep.RemoteCommID(), 0)
	if c == nil {
		m.duplicateREP(from, rep)
		return
	}
	if c.state != StateREQSent && c.state != StateMRAREQRcvd {
		m.counters.Unexpected++
		return
	}
	peerUser := m.userAt(from.DGID, rep.LocalCommID())
	qpn := rep.QPN()
	if c.qp.typ == rxe.QPXRCIni {
		qpn = rep.XRCQPN()
	}
	other := peer{guid: rep.CAGUID(), commID: rep.LocalCommID(), qpn: qpn}
	if m.peers.withCommID(other.guid, other.commID) != nil {
		// The passive side gave two connections one ID: Linux waits for a better REP.
		m.counters.Unexpected++
		return
	}
	if old := m.peers.withQPN(other.guid, other.qpn, peerUser); old != nil {
		rej := m.out.InitREJ(rep.TID())
		rej.SetCommIDs(rep.RemoteCommID(), rep.LocalCommID())
		rej.SetMessageRejected(wire.CMSubjectREP)
		rej.SetReason(wire.RejectStale)
		m.send(from, rej.MAD)
		m.counters.Stale++
		if old.user == c.user { // a user cannot end those of others by answering itself
			old.stale(now, from)
		}
		return
	}
	c.stopTimer()
	c.peer, c.peerUser = other, peerUser
	m.peers.add(c)
	qp := &c.qp
	qp.initiatorDepth, qp.responderResources = rep.ResponderResources(), rep.InitiatorDepth()
	qp.sqPSN, qp.rnrRetryCount = rep.StartingPSN(), rep.RNRRetryCount()
	qp.ackTimeout = ackTimeout(rep.TargetACKDelay(), qp.ackTimeout-1)
	c.setState(StateREPRcvd)
	c.event(now, &Event{
		Kind: EventReply, PrivateData: rep.PrivateData(), RemoteQPN: qpn,
		ResponderResources: rep.ResponderResources(), InitiatorDepth: rep.InitiatorDepth(),
		RNRRetryCount: rep.RNRRetryCount(), TargetACKDelay: rep.TargetACKDelay(),
		FlowControl: rep.FlowControl(), SRQ: rep.SRQ(),
	})
	if c.state == StateREPRcvd {
		c.setState(StateMRAREPSent)
	}
}

// duplicateREP answers a REP that the connection already has. The peer did not get the
// RTU, or still waits for it (cm_dup_rep_handler).
func (m *Machine) duplicateREP(from rxe.AHAttr, rep wire.CMREP) {
	c := m.find(from, rep.RemoteCommID(), rep.LocalCommID())
	if c == nil {
		m.counters.Unexpected++
		return
	}
	m.counters.RxDuplicates.add(wire.AttrREP)
	switch c.state {
	case StateEstablished:
		c.sendRTU()
	case StateMRAREPSent:
		c.sendMRA(wire.CMSubjectREP)
	default:
	}
}

// Ready answers a REP with an RTU: the connection is established. ErrState if there is
// no REP to answer.
func (c *Conn) Ready(rxe.Time) error {
	if c.state != StateREPRcvd && c.state != StateMRAREPSent {
		return ErrState
	}
	c.setState(StateEstablished)
	c.sendRTU()
	return nil
}

func (c *Conn) sendRTU() {
	rtu := c.m.out.InitRTU(c.tid)
	rtu.SetCommIDs(c.commID, c.peer.commID)
	c.m.send(c.path, rtu.MAD)
}

// receiveRTU handles the answer to this side's REP (cm_rtu_handler).
func (m *Machine) receiveRTU(now rxe.Time, from rxe.AHAttr, rtu wire.CMRTU) {
	c := m.find(from, rtu.RemoteCommID(), rtu.LocalCommID())
	switch {
	case c == nil:
		m.counters.Unexpected++
	case c.state == StateREPSent || c.state == StateMRAREPRcvd:
		c.established(now, rtu.PrivateData())
	default:
		m.counters.RxDuplicates.add(wire.AttrRTU)
	}
}

// Established tells the connection that data has come, although the RTU has not
// (rdma_notify, IBV_EVENT_COMM_EST). The handler receives EventReady. The error is
// ErrConnected or ErrState.
func (c *Conn) Established(now rxe.Time) error {
	switch c.state {
	case StateREPSent, StateMRAREPRcvd:
		c.established(now, nil)
		return nil
	case StateEstablished:
		return ErrConnected
	default:
		return ErrState
	}
}

func (c *Conn) established(now rxe.Time, data []byte) {
	c.stopTimer()
	c.setState(StateEstablished)
	c.event(now, &Event{Kind: EventReady, PrivateData: data})
}
