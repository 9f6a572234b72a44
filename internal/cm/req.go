package cm

import (
	"github.com/gorxe/gorxe/rxe"
	"github.com/gorxe/gorxe/wire"
)

// receiveREQ starts the passive side of a connection (cm_req_handler).
func (m *Machine) receiveREQ(now rxe.Time, from rxe.AHAttr, req wire.CMREQ) {
	// 1. A duplicate (IBA 12.9.8.3.1).
	if c := m.peers.withCommID(req.CAGUID(), req.LocalCommID()); c != nil {
		m.counters.RxDuplicates.add(wire.AttrREQ)
		// The user has the request and has not answered (cm_dup_req_handler). In the
		// other states the REQ has been answered, and the answer is sent again until
		// the peer has it.
		if c.state == StateMRAREQSent {
			c.sendMRA(wire.CMSubjectREQ)
		}
		return
	}
	// 2. The queue pair of a connection that its peer has forgotten.
	if c := m.peers.withQPN(req.CAGUID(), req.QPN(), m.userAt(from.DGID, req.LocalCommID())); c != nil {
		m.refuseREQ(from, req, &Refuse{Reason: wire.RejectStale})
		m.counters.Stale++
		c.stale(now, from)
		return
	}
	l := m.listeners[req.ServiceID()]
	if l == nil {
		m.refuseREQ(from, req, &Refuse{Reason: wire.RejectInvalidServiceID})
		return
	}
	// 3. Parameters that no queue pair can have, or that a RoCE peer does not send: the packets
	// of a queue pair come from the GID of its path. The REP and its repeats go there, so a
	// sender could direct them at a third host (Linux lets it).
	switch source := from.DGID; {
	case req.PrimaryPath().LocalGID != source:
		m.counters.Forged++
		m.refuseREQ(from, req, &Refuse{Reason: wire.RejectPrimaryGID, ARI: source[:]})
		return
	case qpTypeOf(req) == 0:
		m.refuseREQ(from, req, &Refuse{Reason: wire.RejectTransportType})
		return
	case rxe.MTUOf(req.PathMTU()) == 0:
		m.refuseREQ(from, req, &Refuse{Reason: wire.RejectPathMTU})
		return
	}
	if m.full() {
		return
	}
	c := m.newPassive(from, req)
	l.decide(now, c, requestOf(from, req))
}

// newPassive returns the connection that a REQ asks for.
func (m *Machine) newPassive(from rxe.AHAttr, req wire.CMREQ) *Conn {
	path := req.PrimaryPath()
	c := m.newConn(nil)
	c.source, c.service, c.peerUser = from.DGID, req.ServiceID(), m.userAt(from.DGID, req.LocalCommID())
	c.tid = req.TID()
	c.peer = peer{guid: req.CAGUID(), commID: req.LocalCommID(), qpn: req.QPN()}
	c.path = rxe.AHAttr{
		DGID: path.LocalGID, SGIDIndex: from.SGIDIndex, FlowLabel: path.FlowLabel, HopLimit: path.HopLimit,
		TrafficClass: path.TrafficClass, PortNum: 1, SL: path.ServiceLevel, StaticRate: path.Rate,
	}
	c.qp = qpParams{
		typ: qpTypeOf(req), mtu: rxe.MTUOf(req.PathMTU()), rqPSN: m.drawPSN(0), sqPSN: req.StartingPSN(),
		responderResources: req.InitiatorDepth(), initiatorDepth: req.ResponderResources(),
		retryCount: req.RetryCount(), rnrRetryCount: req.RNRRetryCount(),
		// The queue pair uses the timeout that the peer computed for its own.
		ackTimeout: max(path.LocalACKTimeout, 1),
	}
	c.resend.retries = req.MaxCMRetries()
	c.resend.timeout = duration(min(req.LocalCMTimeout(), maxPeerResponseTimeout))
	m.peers.add(c)
	c.setState(StateREQRcvd)
	return c
}

func requestOf(from rxe.AHAttr, req wire.CMREQ) *Request {
	return &Request{
		From: from, Service: req.ServiceID(), PKey: req.PKey(), PrivateData: req.PrivateData(),
		RemoteGUID: req.CAGUID(), RemoteQPN: req.QPN(), QPType: qpTypeOf(req), StartingPSN: req.StartingPSN(),
		PathMTU: rxe.MTUOf(req.PathMTU()), ResponderResources: req.ResponderResources(), InitiatorDepth: req.InitiatorDepth(),
		RetryCount: req.RetryCount(), RNRRetryCount: req.RNRRetryCount(), FlowControl: req.FlowControl(), SRQ: req.SRQ(),
		Path: req.PrimaryPath(),
	}
}

// decide asks the handler about a new connection, and does what it says.
func (l *Listener) decide(now rxe.Time, c *Conn, req *Request) {
	switch v := l.handle(now, c, req).(type) {
	case Refuse:
		c.refuse(&v)
		c.Destroy(now)
	case silentVerdict:
		switch {
		case v == Ignore:
			l.m.counters.OverBacklog++
			if c.state == StateREQRcvd {
				c.reset()
			}
			c.Destroy(now)
		case v == drop, !c.counted: // the latter is a verdict that is not this connection's
			delete(l.m.lookups, sidrRequest{peer: c.source, id: c.peer.commID})
			c.reset()
			c.Destroy(now)
		case c.state == StateREQRcvd:
			// The user has the request: its duplicates are answered with an MRA.
			c.setState(StateMRAREQSent)
		}
	}
}

// refuse answers a request that the handler did not answer itself.
func (c *Conn) refuse(r *Refuse) {
	switch c.state {
	case StateREQRcvd:
		c.sendREJ(r)
		c.reset()
	case StateSIDRREQRcvd:
		c.refuseSIDR(r.Data)
	default:
	}
}

// stale ends an established connection whose peer has forgotten the queue pair: it sends
// a DREQ (cm_match_req, ib_send_cm_dreq). Linux does so for a REQ from any sender. Here,
// another host that knows the GUID and the queue pair cannot end the connection.
func (c *Conn) stale(now rxe.Time, from rxe.AHAttr) {
	if c.state == StateEstablished && from.DGID == c.path.DGID {
		c.sendDREQ(now)
	}
}

// refuseREQ refuses a REQ for which there is no connection (cm_issue_rej).
func (m *Machine) refuseREQ(from rxe.AHAttr, req wire.CMREQ, r *Refuse) {
	rej := m.out.InitREJ(req.TID())
	rej.SetCommIDs(0, req.LocalCommID())
	rej.SetMessageRejected(wire.CMSubjectREQ)
	fillREJ(rej, r)
	m.send(from, rej.MAD)
}
