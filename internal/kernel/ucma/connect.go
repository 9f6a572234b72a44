package ucma

import (
	"time"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/cm/rdmacm"
	"github.com/gorxe/gorxe/internal/kernel"
	"github.com/gorxe/gorxe/internal/kernel/uapi"
	"github.com/gorxe/gorxe/rxe"
	"github.com/gorxe/gorxe/wire"
)

// bindIP answers BIND_IP.
func (k *call) bindIP(req *uapi.UcmaBindIPReq) error {
	addr, err := parseIP(&req.Addr)
	if err != nil {
		return err
	}
	return k.bindTo(req.ID, addr)
}

// bind answers BIND.
func (k *call) bind(req *uapi.UcmaBindReq) error {
	addr, err := parseSized(&req.Addr, req.AddrSize)
	if err != nil {
		return err
	}
	if req.Reserved != 0 {
		return errReserved
	}
	return k.bindTo(req.ID, addr)
}

func (k *call) bindTo(id uint32, addr rdmacm.Addr) error {
	c, err := k.find(id)
	if err != nil {
		return err
	}
	return c.id.Bind(addr)
}

// resolveIP answers RESOLVE_IP.
func (k *call) resolveIP(req *uapi.UcmaResolveIPReq) error {
	var (
		src rdmacm.Addr
		err error
	)
	if family(req.SrcAddr[:]) != 0 {
		if src, err = parseIP(&req.SrcAddr); err != nil {
			return err
		}
	}
	dst, err := parseIP(&req.DstAddr)
	if err != nil {
		return err
	}
	return k.resolve(req.ID, src, dst, req.TimeoutMs)
}

// resolveAddr answers RESOLVE_ADDR.
func (k *call) resolveAddr(req *uapi.UcmaResolveAddrReq) error {
	var (
		src rdmacm.Addr
		err error
	)
	if req.SrcSize != 0 {
		if src, err = parseSized(&req.SrcAddr, req.SrcSize); err != nil {
			return err
		}
	}
	dst, err := parseSized(&req.DstAddr, req.DstSize)
	if err != nil {
		return err
	}
	if req.Reserved != 0 {
		return errReserved
	}
	return k.resolve(req.ID, src, dst, req.TimeoutMs)
}

func (k *call) resolve(id uint32, src, dst rdmacm.Addr, ms uint32) error {
	c, err := k.find(id)
	if err != nil {
		return err
	}
	return c.id.ResolveAddr(src, dst, milliseconds(ms))
}

func milliseconds(ms uint32) time.Duration { return time.Duration(ms) * time.Millisecond }

// resolveRoute answers RESOLVE_ROUTE.
func (k *call) resolveRoute(req *uapi.UcmaResolveRouteReq) error {
	c, err := k.findBound(req.ID)
	if err != nil {
		return err
	}
	return c.id.ResolveRoute(milliseconds(req.TimeoutMs))
}

// resolveIBService answers RESOLVE_IB_SERVICE. The command needs subnet administration,
// which RoCE does not have (cma.c: rdma_resolve_ib_service).
func (k *call) resolveIBService(req *uapi.UcmaResolveIBServiceReq) error {
	if _, err := k.findBound(req.ID); err != nil {
		return err
	}
	return unix.EOPNOTSUPP
}

// listen answers LISTEN.
func (k *call) listen(req *uapi.UcmaListenReq) error {
	c, err := k.find(req.ID)
	if err != nil {
		return err
	}
	k.dev.mu.Lock()
	c.backlog = uint32(rdmacm.Backlog(int(req.Backlog)))
	k.dev.mu.Unlock()
	return c.id.Listen()
}

// connect answers CONNECT.
func (k *call) connect() error {
	req, err := requestOf[uapi.UcmaConnectReq](k, uapi.UcmaConnectMin)
	if err != nil {
		return err
	}
	if req.ConnParam.Valid == 0 {
		return malformed("conn_param", "is missing")
	}
	c, err := k.findBound(req.ID)
	if err != nil {
		return err
	}
	params := connParams(c, &req.ConnParam)
	k.tells(c, params.QPN)
	return c.id.Connect(params)
}

// accept answers ACCEPT. Without parameters, the active side says that its queue pair is
// ready (RTU). The uid must be set before an event of the connection can come.
func (k *call) accept() error {
	req, err := requestOf[uapi.UcmaAcceptReq](k, uapi.UcmaAcceptMin)
	if err != nil {
		return err
	}
	c, err := k.findBound(req.ID)
	if err != nil {
		return err
	}
	if req.ConnParam.Valid == 0 {
		k.tells(c, 0)
		return c.id.EstablishActive()
	}
	d := k.dev
	d.mu.Lock()
	before := c.uid
	c.uid = req.UID
	d.mu.Unlock()
	params := connParams(c, &req.ConnParam)
	k.tells(c, params.QPN)
	err = c.id.Accept(params)
	if err != nil {
		d.mu.Lock()
		c.uid = before
		d.mu.Unlock()
	}
	return err
}

// connParams is ucma.c's ucma_copy_conn_param.
func connParams(c *cmID, p *uapi.UcmaConnParam) *rdmacm.ConnParams {
	params := &rdmacm.ConnParams{
		PrivateData:        p.PrivateData[:p.PrivateDataLen],
		ResponderResources: p.ResponderResources, InitiatorDepth: p.InitiatorDepth,
		FlowControl: p.FlowControl != 0, RetryCount: p.RetryCount, RNRRetryCount: p.RNRRetryCount,
		SRQ: p.SRQ != 0, QPN: wire.QPN(p.QPNum) & wire.QPNMask,
	}
	if c.id.LocalAddr().AFIB != nil {
		params.QKey = p.QKey
	}
	return params
}

// reject answers REJECT.
func (k *call) reject(req *uapi.UcmaRejectReq) error {
	reason := wire.CMReason(req.Reason)
	switch reason {
	case 0:
		reason = wire.RejectConsumer
	case wire.RejectConsumer, wire.RejectVendorOption:
	default:
		return kernel.Refuse(unix.EINVAL, "reason", "is none that a program may give", "use IB_CM_REJ_CONSUMER_DEFINED")
	}
	c, err := k.findBound(req.ID)
	if err != nil {
		return err
	}
	k.tells(c, 0)
	return c.id.Reject(reason, req.PrivateData[:req.PrivateDataLen])
}

// disconnect answers DISCONNECT.
func (k *call) disconnect(req *uapi.UcmaDisconnectReq) error {
	c, err := k.findBound(req.ID)
	if err != nil {
		return err
	}
	k.tells(c, 0)
	return c.id.Disconnect()
}

// notify answers NOTIFY: the program saw an event of its queue pair.
func (k *call) notify(req *uapi.UcmaNotifyReq) error {
	c, err := k.findBound(req.ID)
	if err != nil {
		return err
	}
	return c.id.Notify(rxe.EventType(req.Event))
}
