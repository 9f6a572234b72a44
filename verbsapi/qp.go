package verbsapi

import (
	"context"
	"sync"

	"github.com/gorxe/gorxe/rxe"
)

// QP is a queue pair (struct ibv_qp).
type QP struct {
	ctx         *Context
	qp          *rxe.QP
	init        QPInitAttr
	xrcd        *XRCD // of type QPXRCTgt
	users       users // flows that lead to it
	asyncEvents unacked

	mu     sync.Mutex
	groups map[GID]struct{} // for Close
}

// QPInitAttr is what CreateQP takes (struct ibv_qp_init_attr).
type QPInitAttr struct {
	Type           QPType // for QPXRCTgt see XRCD.CreateTarget
	SendCQ, RecvCQ *CQ    // QPXRCIni has no RecvCQ
	SRQ            *SRQ   // nil: a receive queue of its own
	Cap            QPCap
	SignalAll      bool // every send completes, SendSignaled or not
	// BlockSelfMulticast: a QPUD does not receive what it sends to a group.
	BlockSelfMulticast bool
	// Of a QPRaw: the 802.1Q tag of a received frame is in its completion only, and four bytes of
	// check sequence follow the frame in its buffer.
	StripVLAN, ScatterFCS bool
}

// CreateQP makes a queue pair in RESET (ibv_create_qp). Its sizes are at least
// those asked for; Query returns them.
func (p *PD) CreateQP(init QPInitAttr) (*QP, error) {
	const op = "CreateQP"
	if err := p.usable(op); err != nil {
		return nil, err
	}
	if err := p.ctx.verb(op, "create_qp"); err != nil {
		return nil, err
	}
	switch {
	case init.SendCQ == nil:
		return nil, invalid(op, "send_cq", "is nil")
	case init.RecvCQ == nil && init.Type != QPXRCIni:
		return nil, invalid(op, "recv_cq", "is nil")
	}
	eng := rxe.QPInitAttr{
		Type:      init.Type,
		SendCQ:    init.SendCQ.cq,
		Cap:       init.Cap,
		SignalAll: init.SignalAll, BlockSelfMulticast: init.BlockSelfMulticast,
		Owner:  p.ctx.faults,
		Faults: p.ctx.works,
		Chaos:  p.ctx.chaos,
	}
	if init.RecvCQ != nil {
		eng.RecvCQ = init.RecvCQ.cq
	}
	if init.SRQ != nil {
		eng.SRQ = init.SRQ.srq
	}
	if init.Type == QPRaw {
		eng.Frames = &rxe.FrameInit{Port: p.ctx.eng.station, StripVLAN: init.StripVLAN, ScatterFCS: init.ScatterFCS}
	}
	p.ctx.watch.observe(&eng)
	qp, err := p.pd.CreateQP(eng)
	if err != nil {
		return nil, err
	}
	q := &QP{ctx: p.ctx, qp: qp, init: init}
	p.ctx.eng.watch(qp, q)
	return own(p.ctx, op, kindQP, q)
}

// Num returns the queue pair number.
func (q *QP) Num() QPN { return q.qp.Num() }

// State returns the present state.
func (q *QP) State() QPState { return q.qp.State() }

// Modify changes the attributes that mask names (ibv_modify_qp). An error names the
// attribute and leaves the queue pair unchanged.
func (q *QP) Modify(attr *QPAttr, mask QPAttrMask) error {
	if err := q.ctx.verb("ModifyQP", "modify_qp"); err != nil {
		return err
	}
	if attr == nil {
		return invalid("ModifyQP", "attr", "is nil")
	}
	err := q.qp.Modify(attr, mask)
	if err == nil {
		q.ctx.watch.modified(q.qp, attr, mask)
	}
	return err
}

// Query returns what was set, and what the queue pair was made from (ibv_query_qp).
func (q *QP) Query() (QPAttr, QPInitAttr, error) {
	if err := q.ctx.verb("QueryQP", "query_qp"); err != nil {
		return QPAttr{}, QPInitAttr{}, err
	}
	attr, eng, err := q.qp.Query()
	if err != nil {
		return QPAttr{}, QPInitAttr{}, err
	}
	init := q.init
	init.Cap = eng.Cap
	return attr, init, nil
}

// Counters returns this queue pair's counters.
func (q *QP) Counters() []rxe.Counter { return q.qp.Counters() }

// AttachMcast makes a UD queue pair receive what is sent to a multicast group
// (ibv_attach_mcast). Lid means nothing here.
func (q *QP) AttachMcast(gid GID, lid uint16) error {
	if err := q.ctx.verb("AttachMcast", "attach_mcast"); err != nil {
		return err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	err := q.qp.AttachMcast(gid, lid)
	if err == nil {
		if q.groups == nil {
			q.groups = make(map[GID]struct{})
		}
		q.groups[gid] = struct{}{}
	}
	return err
}

// DetachMcast undoes AttachMcast (ibv_detach_mcast). It returns ErrInvalid if the
// queue pair is not attached.
func (q *QP) DetachMcast(gid GID, lid uint16) error {
	if err := q.ctx.verb("DetachMcast", "detach_mcast"); err != nil {
		return err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	err := q.qp.DetachMcast(gid, lid)
	if err == nil {
		delete(q.groups, gid)
	}
	return err
}

// QueryDataInOrder reports whether the bytes of an operation are written in the
// order of their addresses (ibv_query_qp_data_in_order). This device promises
// nothing.
func (q *QP) QueryDataInOrder(WROpcode, uint32) bool { return false }

// Destroy frees the queue pair (ibv_destroy_qp). Posted requests that have not completed never
// will. It then waits until every delivered event of it is acknowledged. It returns ErrBusy while
// the queue pair is attached to a multicast group, a flow leads to it, or type 2A windows are bound
// on it. If ctx ends the wait, the queue pair is destroyed all the same.
func (q *QP) Destroy(ctx context.Context) error {
	if err := q.ctx.destroy("DestroyQP", "destroy_qp", kindQP, q, q.destroy); err != nil {
		return err
	}
	return q.asyncEvents.wait(ctx, q.ctx.closed)
}

func (q *QP) destroyNow() {
	q.mu.Lock()
	for gid := range q.groups {
		q.qp.DetachMcast(gid, 0) //nolint:errcheck // the groups go with the port
	}
	q.mu.Unlock()
	q.destroy() //nolint:errcheck // may be gone already
}

// destroy destroys the engine's queue pair, or this context's share of it.
func (q *QP) destroy() error {
	err := q.users.end("DestroyQP", "qp", q.qp.Destroy)
	if err == nil {
		q.ctx.eng.unwatch(q.qp, q, &q.asyncEvents)
		q.xrcd.leave()
	}
	return err
}

func (q *QP) context() *Context { return q.ctx }

func (q *QP) event(ev rxe.Event) *AsyncEvent {
	return &AsyncEvent{Type: ev.Type, QP: q, count: &q.asyncEvents}
}
