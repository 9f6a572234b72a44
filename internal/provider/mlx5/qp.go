package mlx5

import (
	"math/bits"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/kernel/uapi"
	"github.com/gorxe/gorxe/internal/provider"
	"github.com/gorxe/gorxe/rxe"
	"github.com/gorxe/gorxe/wire"
)

// The sizes of receive requests, as logarithms: one segment, and maxRecvBytes.
var leastRecvShift, mostRecvShift = uint32(bits.Len(dataSize - 1)), uint32(bits.Len(maxRecvBytes - 1))

// queuePair is provider.QP.
type queuePair struct {
	c        *userContext
	cap      rxe.QPCap
	send     sendQueue
	recv     *recvQueue // nil with an SRQ, or without requests
	uar      *uar       // that the program named; nil: the device chooses a register
	register *register  // from Created on
	user     uint32
	label    int
	cqs      [2]int // the labels of its completion queues
	// blockSelf: a datagram queue pair that receives none of its own multicasts
	blockSelf bool
	rings     provider.Ringing // from Init on; nil: nobody asks who rings
}

// NewQP implements provider.Context (mlx5_ib_create_qp).
func (c *userContext) NewQP(u provider.UData, req provider.QPRequest) (provider.QP, error) {
	if req.Type == uapi.QPTypeXRCTgt {
		return new(target), nil
	}
	own, err := c.checkNewQP(u, &req)
	if err != nil {
		return nil, err
	}
	space, err := u.Space()
	if err != nil {
		return nil, err
	}
	q := &queuePair{c: c, cap: req.Cap, user: own.UIdx & userMask, blockSelf: req.Flags&uapi.QPCreateBlockMulticastLoopback != 0}
	if q.uar, err = c.uarOf(own); err != nil {
		return nil, err
	}
	for i, cq := range []provider.CQ{req.SendCQ, req.RecvCQ} {
		q.cqs[i] = noLabel
		if cq != nil {
			q.cqs[i] = cq.(*completionQueue).ring.label.index
		}
	}
	size := uint64(0)
	if hasRecvQueue(&req) && own.RQWQECount > 0 {
		q.recv = &recvQueue{dev: c.dev, space: space, buf: own.BufAddr, record: own.DBAddr, user: q.user,
			mask: own.RQWQECount - 1, shift: uint8(own.RQWQEShift)}
		size = uint64(own.RQWQECount) << own.RQWQEShift
		if req.Type == uapi.QPTypeRawPacket {
			q.recv.kind = idFrame
		}
	}
	sends := own.BufAddr + size
	if req.Type == uapi.QPTypeRawPacket {
		sends = own.SQBufAddr
	}
	q.send = sendQueue{dev: c.dev, space: space, buf: sends, record: own.DBAddr, keys: req.Keys, budget: c.budget,
		mask: max(own.SQWQECount, 1) - 1, avs: provider.AddressCache{Most: addresses},
		dec: decoder{typ: rxe.QPType(req.Type), user: q.user}}
	return q, nil
}

// queuePairTypes are those that have queues. An XRC target has none.
var queuePairTypes = []uint64{uapi.QPTypeRC, uapi.QPTypeUC, uapi.QPTypeUD, uapi.QPTypeXRCIni, uapi.QPTypeRawPacket}

// rawFlags are the flags of a queue pair for raw packets. None of them receives its own multicasts.
const rawFlags = uapi.QPCreateBlockMulticastLoopback | uapi.QPCreateScatterFCS | uapi.QPCreateCVLANStripping | uapi.QPCreatePCIWriteEndPadding

func (c *userContext) checkNewQP(u provider.UData, req *provider.QPRequest) (own CreateQPReq, err error) {
	least, flags := qpToRegister, uint32(uapi.QPCreateBlockMulticastLoopback)
	if req.Type == uapi.QPTypeRawPacket {
		least, flags = qpToSendQueue, rawFlags
	}
	if err := lacks(u, least); err != nil {
		return own, err
	}
	own = uapi.Load[CreateQPReq](u.Request())
	switch {
	case req.Flags&^flags != 0, own.Flags&^(qpFlagScatterCQE|qpFlagAllowSCQE|qpFlagUARPage) != 0:
		return own, unix.EOPNOTSUPP
	case !slices.Contains(queuePairTypes, req.Type):
		return own, unix.EOPNOTSUPP
	case req.SendCQ == nil || req.RecvCQ == nil && req.Type != uapi.QPTypeXRCIni:
		return own, refuse("send_cq or recv_cq", "is missing", "name both")
	case own.SQWQECount > maxWQEBB || own.SQWQECount&(own.SQWQECount-1) != 0:
		return own, refuse("sq_wqe_count", "is no power of two, or too large", "ask for less")
	case own.RQWQECount > maxRecvWR || own.RQWQECount&(own.RQWQECount-1) != 0,
		own.RQWQECount > 0 && (own.RQWQEShift < leastRecvShift || own.RQWQEShift > mostRecvShift):
		return own, refuse("rq_wqe_count or rq_wqe_shift", "is no power of two, or too large", "ask for less")
	}
	return own, c.dev.CheckQPCap(&req.Cap, !hasRecvQueue(req))
}

// Init implements provider.QP. Programs that write their own requests are bound by the size of the
// queue, and not by what they asked for.
func (q *queuePair) Init(init *rxe.QPInitAttr) {
	limits := q.c.dev.Attr()
	init.Cap.MaxSendWR = min(q.send.mask+1, limits.MaxQPWR)
	init.Cap.MaxSendSGE = max(init.Cap.MaxSendSGE, min(engineSGE, limits.MaxSGE))
	init.Cap.MaxInlineData = max(init.Cap.MaxInlineData, min(engineInline, limits.MaxInlineData))
	init.OnSendDone = q.send.done
	q.rings, _ = init.Observer.(provider.Ringing)
	init.BlockSelfMulticast = q.blockSelf
	if q.recv != nil {
		init.Cap.MaxRecvWR = min(uint32(q.recv.entries()), limits.MaxQPWR)
		init.RecvRing = q.recv
	}
}

// Answer implements provider.QP. libmlx5 computes its own limits before it asks, and hands the
// kernel's max_send_sge and max_inline_data on to the program as they come back. It refuses a
// request beyond its own limits with ENOMEM. mlx5_ib leaves the sizes of a program's send
// queue as asked, and libmlx5 itself sets those of the receive queue.
func (q *queuePair) Answer(asked, _ rxe.QPCap) rxe.QPCap { return asked }

// Created implements provider.QP.
func (q *queuePair) Created(u provider.UData, qp *rxe.QP) error {
	q.send.qp = qp
	q.send.dec.qpn = uint32(qp.Num())
	q.label = q.c.labels.add(q.c.pages.file, q.labelOf(qp.Num()))
	q.c.enter(qp.Num(), q)
	defer func() {
		q.c.cover(u, q.send.space) // first: it finds out whether another process makes it
		q.c.guard.addRecord(u, q.send.record, q.rings != nil)
	}()
	if q.uar != nil {
		q.c.doorbells.addQP(q, q.uar.register)
		return respond(u, CreateQPResp{BFRegIndex: invalidRegister})
	}
	i := q.c.doorbells.addQP(q, nil)
	return respond(u, CreateQPResp{BFRegIndex: uint32(i/registersPerPage*indexesPerPage + i%registersPerPage)})
}

// labelOf is what the keeper has to know.
func (q *queuePair) labelOf(qpn wire.QPN) label {
	b := label{kind: labelQP, qpn: uint32(qpn), identity: identityOf(q.send.space), buf: q.send.buf, record: q.send.record,
		mask: q.send.mask, user: q.user, sendCQ: uint32(q.cqs[0]), recvCQ: uint32(q.cqs[1])}
	if q.recv != nil {
		b.kind, b.recvMask = labelBothQP, q.recv.mask
	}
	return b
}

// Doorbell implements provider.QP.
func (q *queuePair) Doorbell() error {
	q.send.serve()
	return nil
}

// Discard implements provider.QP: the program takes nothing back.
func (q *queuePair) Discard() {}

// Pending implements provider.QP: the poller takes doorbells.
func (q *queuePair) Pending() bool { return false }

// Take implements provider.QP.
func (q *queuePair) Take(int, bool) (provider.Taken, error) { return provider.Taken{}, nil }

// Receives implements provider.QP.
func (q *queuePair) Receives() (waiting, entries int) {
	if q.recv == nil {
		return 0, 0
	}
	return int(q.recv.waiting.Load()), q.recv.entries()
}

// Modify implements provider.QP (mlx5_ib_modify_qp).
func (q *queuePair) Modify(u provider.UData, attr *rxe.QPAttr, mask rxe.QPAttrMask) error {
	if err := q.modify(attr, mask); err != nil {
		return err
	}
	return modified(u)
}

// modify takes first what the program has posted before.
func (q *queuePair) modify(attr *rxe.QPAttr, mask rxe.QPAttrMask) error {
	if mask&rxe.QPAttrState == 0 {
		return q.send.qp.Modify(attr, mask)
	}
	q.send.serve()
	if attr.State == rxe.QPReset {
		q.send.running.Store(false)
	}
	if err := q.send.qp.Modify(attr, mask); err != nil {
		return err
	}
	if attr.State == rxe.QPReset {
		q.send.reset()
		if q.recv != nil {
			q.recv.reset()
		}
		q.c.labels.reset(q.label)
	}
	q.send.running.Store(attr.State >= rxe.QPRTS)
	q.send.serve()
	return nil
}

// Ending implements provider.QP: the poller may not have looked yet.
func (q *queuePair) Ending() { q.send.finish() }

// Free implements provider.QP.
func (q *queuePair) Free() {
	if q.register != nil {
		q.c.forget(q.send.qp.Num())
		q.c.labels.remove(q.label)
		q.c.doorbells.removeQP(q)
		q.c.guard.removeRecord(q.send.record)
	}
	q.send.close()
	if q.recv != nil {
		q.recv.close()
	}
}
