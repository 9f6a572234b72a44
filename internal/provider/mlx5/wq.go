package mlx5

import (
	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/kernel/uapi"
	"github.com/gorxe/gorxe/internal/provider"
	"github.com/gorxe/gorxe/rxe"
)

// workQueue is provider.WQ.
type workQueue struct {
	c     *userContext
	req   provider.WQRequest
	recv  *recvQueue
	parts *strides // nil: a request takes one frame
	qp    *rxe.QP  // nil until Created
	label int
}

// NewWQ implements provider.Steering (mlx5_ib_create_wq).
func (c *userContext) NewWQ(u provider.UData, req provider.WQRequest) (provider.WQ, error) {
	own, err := privateRequest[CreateWQReq](u, wqToStride)
	switch {
	case err != nil:
		return nil, err
	case own.CompMask&^wqStriding != 0, own.Flags != 0, req.Flags&^(uapi.WQFlagCVLANStripping|uapi.WQFlagScatterFCS) != 0:
		return nil, errNotOffered // signatures
	case own.RQWQECount == 0 || own.RQWQECount > maxRecvWR || own.RQWQECount&(own.RQWQECount-1) != 0,
		own.RQWQEShift < leastRecvShift || own.RQWQEShift > mostRecvShift:
		return nil, refuse("rq_wqe_count or rq_wqe_shift", "is no power of two, or too large", "ask for less")
	case req.MaxWR > own.RQWQECount || req.MaxSGE > maxRecvBytes/dataSize:
		return nil, refuse("max_wr or max_sge", "is more than the queue has room for", "ask for less")
	}
	space, err := u.Space()
	if err != nil {
		return nil, err
	}
	q := &workQueue{c: c, req: req, recv: &recvQueue{dev: c.dev, space: space, buf: own.BufAddr, record: own.DBAddr,
		user: own.UserIndex & userMask, mask: own.RQWQECount - 1, shift: uint8(own.RQWQEShift), kind: idFrame}}
	if own.CompMask&wqStriding != 0 {
		if q.parts, err = newStrides(&own, q.recv); err != nil {
			return nil, err
		}
	}
	return q, nil
}

// Init implements provider.WQ.
func (q *workQueue) Init(init *rxe.QPInitAttr) {
	limits := q.c.dev.Attr()
	init.Cap = rxe.QPCap{MaxRecvWR: min(uint32(q.recv.entries()), limits.MaxQPWR), MaxRecvSGE: min(max(q.req.MaxSGE, 1), limits.MaxSGE)}
	if init.RecvRing = q.recv; q.parts != nil {
		init.RecvRing = q.parts
	}
}

// Created implements provider.WQ.
func (q *workQueue) Created(u provider.UData, qp *rxe.QP) error {
	none := noLabel
	b := label{kind: labelBothQP, qpn: uint32(qp.Num()), identity: identityOf(q.recv.space), record: q.recv.record,
		user: q.recv.user, sendCQ: uint32(none), recvCQ: uint32(none), recvMask: q.recv.mask}
	if q.parts != nil {
		b.kind = labelPartsQP
	}
	if q.req.CQ != nil {
		b.recvCQ = uint32(q.req.CQ.(*completionQueue).ring.label.index)
	}
	q.qp, q.label = qp, q.c.labels.add(q.c.pages.file, b)
	q.c.enter(qp.Num(), &queuePair{c: q.c, user: q.recv.user, label: q.label})
	return respond(u, CreateWQResp{ResponseLength: uint32(min(u.Room(), uapi.SizeOf[CreateWQResp]()))})
}

// CheckModify implements provider.WQ (mlx5_ib_modify_wq).
func (q *workQueue) CheckModify(u provider.UData) error {
	req, err := privateRequest[ModifyWQReq](u, uapi.SizeOf[ModifyWQReq]())
	if err == nil && req != (ModifyWQReq{}) {
		err = unix.EOPNOTSUPP
	}
	return err
}

// Reset implements provider.WQ.
func (q *workQueue) Reset() {
	q.recv.reset()
	q.c.labels.reset(q.label)
}

// Receives implements provider.WQ.
func (q *workQueue) Receives() (waiting, entries int) {
	return int(q.recv.waiting.Load()), q.recv.entries()
}

// Free implements provider.WQ.
func (q *workQueue) Free() {
	if q.qp != nil {
		q.c.forget(q.qp.Num())
		q.c.labels.remove(q.label)
	}
	q.recv.close()
}
