package rdmacm

import (
	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/cm"
	"github.com/gorxe/gorxe/rxe"
	"github.com/gorxe/gorxe/wire"
)

// maxRetryCount is the largest count that a message has room for. Larger ones are reduced
// to it (cma_connect_ib).
const maxRetryCount = 7

// maxLifetime is the largest exponent of a time on the wire.
const maxLifetime = 31

// Connect asks the peer for a connection, or for the queue pair of a datagram service
// (rdma_connect). The route must be resolved. ConnectResponse (UD: Established), Rejected
// or Unreachable follows. EINVAL if the private data is longer than 56 bytes (UD: 180), or
// if the device has lost the source address.
func (id *ID) Connect(p *ConnParams) error {
	id.m.mu.Lock()
	defer id.m.unlock()
	if id.state != StateRouteResolved {
		return id.wrongState("wait for ROUTE_RESOLVED, and connect once")
	}
	id.qpn = p.QPN
	path := &id.paths[0]
	ah, ok := id.ahAttr(path)
	if !ok {
		return errNoSource
	}
	var err error
	if id.qpType == rxe.QPUD {
		id.conn, err = id.dev.machine.Lookup(id.m.now(), &cm.LookupParams{
			User: id.owner.user(), Service: id.service(&id.dst), Path: ah, PKey: path.PKey, PrivateData: id.privateData(p.PrivateData),
		}, id.connEvent)
	} else {
		id.conn, err = id.dev.machine.Connect(id.m.now(), &cm.ConnectParams{
			User: id.owner.user(), Service: id.service(&id.dst), Path: ah, SGID: path.SGID, PKey: path.PKey,
			QPN: p.QPN, QPType: id.qpType, PathMTU: rxe.MTUOf(path.MTU), PacketLifetime: min(path.PacketLifetime, maxLifetime),
			ResponderResources: p.ResponderResources, InitiatorDepth: p.InitiatorDepth,
			RetryCount: min(p.RetryCount, maxRetryCount), RNRRetryCount: min(p.RNRRetryCount, maxRetryCount),
			FlowControl: p.FlowControl, SRQ: p.SRQ, PrivateData: id.privateData(p.PrivateData),
		}, id.connEvent)
	}
	if err != nil {
		id.conn = nil
		return errno(err)
	}
	id.state = StateConnect
	return nil
}

// privateData returns the private data of a request: the header of the RDMA IP CM
// service, and then the program's. The result may be too long for the message.
func (id *ID) privateData(data []byte) []byte {
	if id.src.family() == famIB {
		return data
	}
	h := wire.IPCMHeader{Src: id.src.Addr().WithZone(""), Dst: id.dst.Addr().WithZone(""), SrcPort: id.src.port()}
	b := make([]byte, wire.IPCMHeaderLen, wire.IPCMHeaderLen+len(data))
	h.Put(b)
	return append(b, data...)
}

// Accept accepts the peer's request (rdma_accept). Established follows when the peer is
// ready; with UD no event follows. If Accept fails, it rejects the request. EINVAL if the
// private data is longer than 196 bytes (UD: 136).
func (id *ID) Accept(p *ConnParams) error {
	id.m.mu.Lock()
	defer id.m.unlock()
	if id.state != StateConnect {
		return id.wrongState("accept the id of a CONNECT_REQUEST")
	}
	id.qpn = p.QPN
	err := id.accept(p)
	if err != nil {
		id.reject(consumerReject.Reason, nil) //nolint:errcheck // as good as the connection allows
	}
	return err
}

func (id *ID) accept(p *ConnParams) error {
	if id.conn == nil {
		return errNoConn
	}
	if id.qpType == rxe.QPUD {
		if err := id.setQKey(p.QKey); err != nil {
			return err
		}
		return errno(id.conn.Accept(id.m.now(), &cm.AcceptParams{QPN: p.QPN, QKey: id.qkey, PrivateData: p.PrivateData}))
	}
	return errno(id.conn.Accept(id.m.now(), &cm.AcceptParams{
		QPN: p.QPN, ResponderResources: p.ResponderResources, InitiatorDepth: p.InitiatorDepth,
		RNRRetryCount: min(p.RNRRetryCount, maxRetryCount), FlowControl: p.FlowControl, SRQ: p.SRQ,
		PrivateData: p.PrivateData,
	}))
}

// EstablishActive tells the peer that the queue pair is ready, after ConnectResponse
// (rdma_accept without parameters). If EstablishActive fails, it rejects the connection.
func (id *ID) EstablishActive() error {
	id.m.mu.Lock()
	defer id.m.unlock()
	if id.state != StateConnect {
		return id.wrongState("wait for CONNECT_RESPONSE")
	}
	err := errNoConn
	switch {
	case id.conn == nil:
	case id.qpType == rxe.QPUD:
		err = id.accept(&ConnParams{QPN: id.qpn})
	default:
		err = errno(id.conn.Ready(id.m.now()))
	}
	if err != nil {
		id.reject(consumerReject.Reason, nil) //nolint:errcheck // as in Accept
	}
	return err
}

// Reject refuses the peer's request, or its reply (rdma_reject). EINVAL if the private
// data is longer than 148 bytes (UD: 136).
func (id *ID) Reject(reason wire.CMReason, data []byte) error {
	id.m.mu.Lock()
	defer id.m.unlock()
	return id.reject(reason, data)
}

func (id *ID) reject(reason wire.CMReason, data []byte) error {
	if id.conn == nil {
		return errNoConn
	}
	return errno(id.conn.Reject(id.m.now(), reason, nil, data))
}

// Disconnect ends the connection, or confirms that the peer has ended it
// (rdma_disconnect). It does nothing for UD, and nothing if there is no connection to
// end. EINVAL for an ID that never had one.
func (id *ID) Disconnect() error {
	id.m.mu.Lock()
	defer id.m.unlock()
	if id.dev == nil || id.conn == nil {
		return errNoConn
	}
	id.conn.Disconnect(id.m.now()) //nolint:errcheck // the kernel returns 0, too
	return nil
}

// Notify reports what the queue pair has seen of the connection (rdma_notify). After the
// first message of the peer, EventCommEst makes a connection established whose RTU was
// lost, and Established follows. EISCONN if it is established already; EINVAL for other
// events.
func (id *ID) Notify(event rxe.EventType) error {
	id.m.mu.Lock()
	defer id.m.unlock()
	switch {
	case id.dev == nil || id.conn == nil:
		return errNoConn
	case event != rxe.EventCommEst:
		return refuse(unix.EINVAL, "event", "is not IBV_EVENT_COMM_EST", "notify of that event only")
	}
	return errno(id.conn.Established(id.m.now()))
}
