package cm

import (
	"github.com/gorxe/gorxe/rxe"
	"github.com/gorxe/gorxe/wire"
)

// On RoCE, LIDs do not exist. A path that is routed has LIDs with all bits set
// (cm_format_req).
const noLID = 0xffff

// Connect asks for a connection: it sends a REQ. The handler then receives EventReply,
// EventRejected or EventUnreachable.
func (m *Machine) Connect(now rxe.Time, p *ConnectParams, handler Handler) (*Conn, error) {
	if p.QPType == 0 {
		withType := *p
		withType.QPType = rxe.QPRC
		p = &withType
	}
	if err := m.checkConnect(p); err != nil {
		return nil, err
	}
	lifetime := p.PacketLifetime
	if lifetime == 0 {
		lifetime = packetLifetime
	}
	c := m.newActive(p.User, p.Service, &p.Path, handler)
	c.qp = qpParams{
		typ: p.QPType, localQPN: p.QPN, mtu: p.PathMTU, rqPSN: m.drawPSN(p.StartingPSN),
		responderResources: p.ResponderResources, initiatorDepth: p.InitiatorDepth,
		retryCount: p.RetryCount, rnrRetryCount: p.RNRRetryCount,
		ackTimeout: min(lifetime+1, 31),
	}
	c.resend.timeout = 2*duration(lifetime) + duration(responseTimeout)
	c.writeREQ(p, ackTimeout(m.cfg.TargetACKDelay, lifetime))
	c.setState(StateREQSent)
	c.sendUntilAnswered(now)
	return c, nil
}

func (m *Machine) checkConnect(p *ConnectParams) error {
	switch {
	case m.closed:
		return ErrClosed
	case !m.mayConnect(p.User):
		return ErrLimit
	case len(p.PrivateData) > wire.CMREQPrivateLen:
		return ErrPrivateData
	case p.QPType != rxe.QPRC && p.QPType != rxe.QPUC && p.QPType != rxe.QPXRCIni,
		!p.PathMTU.Valid(), p.QPN > wire.QPNMask, p.RetryCount > 7, p.RNRRetryCount > 7, p.PacketLifetime > 31:
		return ErrInvalid
	}
	return nil
}

// writeREQ writes the REQ that is sent until it is answered.
func (c *Conn) writeREQ(p *ConnectParams, localACKTimeout uint8) {
	req := c.resend.mad.InitREQ(c.tid)
	req.SetLocalCommID(c.commID)
	req.SetServiceID(p.Service)
	req.SetCAGUID(c.m.cfg.GUID)
	req.SetQPN(p.QPN)
	req.SetStartingPSN(c.qp.rqPSN)
	req.SetInitiatorDepth(p.InitiatorDepth)
	req.SetRemoteCMTimeout(responseTimeout)
	req.SetLocalCMTimeout(responseTimeout)
	req.SetMaxCMRetries(maxRetries)
	switch p.QPType {
	case rxe.QPUC:
		req.SetTransportType(transportUC)
	case rxe.QPXRCIni:
		req.SetTransportType(transportExtended)
		req.SetExtendedTransportType(extendedXRC)
	default:
		req.SetTransportType(transportRC)
	}
	req.SetFlowControl(p.FlowControl)
	if p.QPType != rxe.QPXRCIni { // the peer, a target, has no requester (Linux: cm_format_req)
		req.SetResponderResources(p.ResponderResources)
		req.SetSRQ(p.SRQ)
		req.SetRetryCount(p.RetryCount)
		req.SetRNRRetryCount(p.RNRRetryCount)
	}
	req.SetPKey(defaultPKey(p.PKey))
	req.SetPathMTU(p.PathMTU.Enum())
	path := wire.CMPath{
		LocalLID: noLID, RemoteLID: noLID, LocalGID: p.SGID, RemoteGID: p.Path.DGID,
		FlowLabel: p.Path.FlowLabel, TrafficClass: p.Path.TrafficClass, HopLimit: p.Path.HopLimit,
		Rate: p.Path.StaticRate, ServiceLevel: p.Path.SL, LocalACKTimeout: localACKTimeout,
	}
	if path.HopLimit == 0 {
		path.HopLimit = rxe.DefaultHopLimit
	}
	if path.HopLimit == 1 {
		path.LocalLID, path.RemoteLID, path.SubnetLocal = 0, 0, true
	}
	req.SetPrimaryPath(&path)
	copy(req.PrivateData(), p.PrivateData)
}
