package librxe

import (
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/kernel/uapi"
	"github.com/gorxe/gorxe/internal/provider"
	"github.com/gorxe/gorxe/rxe"
)

// queuePair is provider.QP.
type queuePair struct {
	send           *sendRing
	recv           *recvRing // nil with an SRQ
	sendCQ, recvCQ *completionQueue
	maxWR          uint32        // the device's limit
	reached        atomic.Uint64 // see awaits
}

// NewQP implements provider.Context (rxe_create_qp).
func (c *userContext) NewQP(u provider.UData, req provider.QPRequest) (provider.QP, error) {
	if err := checkNewQP(u, &req, c.dev); err != nil {
		return nil, err
	}
	q := &queuePair{maxWR: c.dev.Attr().MaxQPWR,
		sendCQ: req.SendCQ.(*completionQueue), recvCQ: req.RecvCQ.(*completionQueue)}
	var err error
	if q.send, err = newSendRing(c.arena, req.Cap); err != nil {
		return nil, queueError(err)
	}
	q.send.keys = req.Keys
	if req.SRQ {
		return q, nil
	}
	if q.recv, err = newRecvRing(c.arena, req.Cap.MaxRecvWR, req.Cap.MaxRecvSGE); err != nil {
		q.send.free()
		return nil, queueError(err)
	}
	return q, nil
}

// checkNewQP is rxe_qp_chk_init, in its order.
func checkNewQP(u provider.UData, req *provider.QPRequest, dev *rxe.Subdevice) error {
	if err := hasRoom[CreateQPResp](u); err != nil {
		return err
	}
	switch {
	case req.Flags != 0:
		return unix.EOPNOTSUPP
	case req.Type != uapi.QPTypeRC && req.Type != uapi.QPTypeUC && req.Type != uapi.QPTypeUD:
		return unix.EOPNOTSUPP
	case req.SendCQ == nil || req.RecvCQ == nil:
		return refuse("send_cq or recv_cq", "is missing", "name both")
	}
	if err := dev.CheckQPCap(&req.Cap, req.SRQ); err != nil {
		return err // before the queues are made; CreateQP checks the same
	}
	if len(u.Request()) > 0 {
		return refuse("request", "has a private part, which rdma_rxe has not", "use the librxe of rdma-core")
	}
	return nil
}

// Init implements provider.QP.
func (q *queuePair) Init(init *rxe.QPInitAttr) {
	init.Cap.MaxSendWR = min(uint32(q.send.entries()), q.maxWR)
	init.OnSendDone = q.send.done
	if q.recv != nil {
		init.Cap.MaxRecvWR = min(uint32(q.recv.entries()), q.maxWR)
		init.RecvRing = q.recv
	}
}

// Answer implements provider.QP: librxe posts what there is room for.
func (q *queuePair) Answer(_, made rxe.QPCap) rxe.QPCap { return made }

// Created implements provider.QP.
func (q *queuePair) Created(u provider.UData, qp *rxe.QP) error {
	q.send.qp = qp
	resp := CreateQPResp{SQMI: q.send.place()}
	q.send.label(label{kind: labelWork, cq: q.sendCQ.handle, qpn: uint32(qp.Num())})
	if q.recv != nil {
		q.recv.label(label{kind: labelWork, cq: q.recvCQ.handle, qpn: uint32(qp.Num())})
		resp.RQMI = q.recv.place()
	}
	return u.Respond(uapi.BytesOf(&resp))
}

// Doorbell implements provider.QP.
func (q *queuePair) Doorbell() error { return q.send.doorbell() }

// Discard implements provider.QP.
func (q *queuePair) Discard() { q.send.discard() }

// Pending implements provider.QP.
func (q *queuePair) Pending() bool { return q.send.waits() }

// Take implements provider.QP.
func (q *queuePair) Take(share int, credited bool) (provider.Taken, error) {
	awaits := q.awaits()
	t, err := q.send.take(share, credited)
	t.Awaited = awaits && t.Requests == 1
	return t, err
}

// awaits reports whether the program waits for what it has just posted. Three things must hold:
//
//   - It is one request, and nothing else of its send queue is under way. A large request alone
//     uses up a share, so Take may leave others in the queue.
//   - It has polled all completions of that queue.
//   - Since the last call of awaits it has polled a completion, or a message for it has come.
//
// A program that posts several requests before it polls the first one's completion does not wait.
//
// The program can write any index, so the answer is a guess. It may decide only when doorbells are
// taken.
func (q *queuePair) awaits() bool {
	polled, waiting := q.sendCQ.ring.Load().progress()
	received, _ := q.recvCQ.ring.Load().progress()
	reached := q.send.qp.BytesReceived()<<bytesShift ^ uint64(polled)<<polledShift ^ uint64(received)
	before := q.reached.Swap(reached)
	return reached != before && !waiting && q.send.single()
}

// Receives implements provider.QP.
func (q *queuePair) Receives() (waiting, entries int) {
	if q.recv == nil {
		return 0, 0
	}
	return q.recv.Len(), q.recv.entries()
}

// Modify implements provider.QP (rxe_modify_qp).
func (q *queuePair) Modify(_ provider.UData, attr *rxe.QPAttr, mask rxe.QPAttrMask) error {
	if err := q.send.qp.Modify(attr, mask); err != nil {
		return err
	}
	if mask&rxe.QPAttrState != 0 && attr.State == rxe.QPReset {
		q.send.reset()
		if q.recv != nil {
			q.recv.reset()
		}
	}
	return nil
}

// Ending implements provider.QP: the trap takes doorbells before a call.
func (*queuePair) Ending() {}

// Free implements provider.QP.
func (q *queuePair) Free() {
	q.send.free()
	if q.recv != nil {
		q.recv.free()
	}
}
