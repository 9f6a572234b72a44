package cm

import (
	"github.com/gorxe/gorxe/rxe"
	"github.com/gorxe/gorxe/wire"
)

// UD queue pairs are not connected. A SIDR_REQ asks which queue pair serves a service,
// and the SIDR_REP says it (IBA 12.11). The Machine forgets the request with the reply. A
// SIDR_REQ that comes again, because the reply was lost, is a new request.

// Lookup asks for the queue pair of a service: it sends a SIDR_REQ. The handler then
// receives EventLookupReply or EventLookupUnreachable.
func (m *Machine) Lookup(now rxe.Time, p *LookupParams, handler Handler) (*Conn, error) {
	switch {
	case m.closed:
		return nil, ErrClosed
	case !m.mayConnect(p.User):
		return nil, ErrLimit
	case len(p.PrivateData) > wire.CMSIDRREQPrivateLen:
		return nil, ErrPrivateData
	}
	c := m.newActive(p.User, p.Service, &p.Path, handler)
	c.qp.typ = rxe.QPUD
	c.resend.timeout = duration(responseTimeout)
	req := c.resend.mad.InitSIDRREQ(c.tid)
	req.SetRequestID(c.commID)
	req.SetPKey(defaultPKey(p.PKey))
	req.SetServiceID(p.Service)
	copy(req.PrivateData(), p.PrivateData)
	c.setState(StateSIDRREQSent)
	c.sendUntilAnswered(now)
	return c, nil
}

// receiveSIDRREQ asks the service's listener (cm_sidr_req_handler).
func (m *Machine) receiveSIDRREQ(now rxe.Time, from rxe.AHAttr, req wire.CMSIDRREQ) {
	// Linux compares request IDs alone, so one peer can occupy the IDs of another.
	key := sidrRequest{peer: from.DGID, id: req.RequestID()}
	if m.lookups[key] != nil {
		m.counters.RxDuplicates.add(wire.AttrSIDRREQ)
		return
	}
	l := m.listeners[req.ServiceID()]
	if l == nil {
		m.sendSIDRREP(from, req.TID(), req.RequestID(), req.ServiceID(), wire.SIDRUnsupported, &AcceptParams{})
		return
	}
	if m.full() {
		return
	}
	c := m.newConn(nil)
	c.source, c.service, c.peerUser = from.DGID, req.ServiceID(), m.userAt(from.DGID, req.RequestID())
	c.tid = req.TID()
	c.peer.commID = req.RequestID()
	c.path = from
	c.qp.typ = rxe.QPUD
	m.lookups[key] = c
	c.setState(StateSIDRREQRcvd)
	l.decide(now, c, &Request{
		Lookup: true, From: from, Service: req.ServiceID(), PKey: req.PKey(), PrivateData: req.PrivateData(), QPType: rxe.QPUD,
	})
}

// sidrRequest names a SIDR_REQ that is not answered.
type sidrRequest struct {
	peer wire.GID
	id   uint32
}

func (c *Conn) acceptSIDR(p *AcceptParams) error {
	switch {
	case len(p.PrivateData) > wire.CMSIDRREPPrivateLen || len(p.Info) > maxInfo:
		return ErrPrivateData
	case p.QPN > wire.QPNMask:
		return ErrInvalid
	}
	c.replySIDR(wire.SIDRSuccess, p)
	return nil
}

// refuseSIDR refuses a SIDR_REQ. Data that does not fit is cut off.
func (c *Conn) refuseSIDR(data []byte) {
	c.replySIDR(wire.SIDRReject, &AcceptParams{PrivateData: data})
}

// replySIDR answers a SIDR_REQ, and forgets it.
func (c *Conn) replySIDR(status wire.SIDRStatus, p *AcceptParams) {
	delete(c.m.lookups, sidrRequest{peer: c.source, id: c.peer.commID})
	c.qp.localQPN = p.QPN
	c.setState(StateIdle)
	c.m.sendSIDRREP(c.path, c.tid, c.peer.commID, c.service, status, p)
}

func (m *Machine) sendSIDRREP(to rxe.AHAttr, tid uint64, id uint32, service uint64, status wire.SIDRStatus, p *AcceptParams) {
	rep := m.out.InitSIDRREP(tid)
	rep.SetRequestID(id)
	rep.SetStatus(status)
	rep.SetServiceID(service)
	rep.SetQPN(p.QPN)
	rep.SetQKey(p.QKey)
	rep.SetInfo(p.Info)
	copy(rep.PrivateData(), p.PrivateData)
	m.send(to, rep.MAD)
}

// receiveSIDRREP handles the answer to Lookup (cm_sidr_rep_handler).
func (m *Machine) receiveSIDRREP(now rxe.Time, from rxe.AHAttr, rep wire.CMSIDRREP) {
	c := m.find(from, rep.RequestID(), 0)
	if c == nil || c.state != StateSIDRREQSent {
		m.counters.Unexpected++
		return
	}
	c.stopTimer()
	c.peer.qpn = rep.QPN()
	c.setState(StateIdle)
	c.event(now, &Event{
		Kind: EventLookupReply, PrivateData: rep.PrivateData(), SIDRStatus: rep.Status(), RemoteQPN: rep.QPN(),
		QKey: rep.QKey(), Info: rep.Info(),
	})
}
