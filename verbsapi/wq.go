package verbsapi

import (
	"context"
	"errors"

	"github.com/gorxe/gorxe/internal/segment"
	"github.com/gorxe/gorxe/rxe"
)

// WQ is a work queue (struct ibv_wq): a receive queue for raw packets, with a completion queue. An
// RSSQP spreads frames over several. In completions, WC.QPN is its number.
type WQ struct {
	ctx         *Context
	q           segment.WorkQueue
	users       users // places in indirection tables
	asyncEvents unacked
}

// WQInitAttr is what CreateWQ takes (struct ibv_wq_init_attr).
type WQInitAttr struct {
	PD            *PD
	CQ            *CQ
	MaxWR, MaxSGE uint32
	// As of a QPRaw: QPInitAttr.
	StripVLAN, ScatterFCS bool
}

// WQState is enum ibv_wq_state.
type WQState = segment.WQState

// enum ibv_wq_state.
const (
	WQReset = segment.WQReset
	WQReady = segment.WQReady
	WQError = segment.WQError
)

// CreateWQ makes a work queue in RESET (ibv_create_wq).
func (c *Context) CreateWQ(init WQInitAttr) (*WQ, error) {
	const op = "CreateWQ"
	switch {
	case init.PD == nil || init.PD.ctx != c:
		return nil, invalid(op, "pd", "is not of this context")
	case init.CQ == nil || init.CQ.ctx != c:
		return nil, invalid(op, "cq", "is not of this context")
	}
	if err := c.verb(op, "create_wq"); err != nil {
		return nil, err
	}
	attr := segment.WorkQueueInit(init.CQ.cq, init.StripVLAN, init.ScatterFCS)
	attr.Cap = rxe.QPCap{MaxRecvWR: init.MaxWR, MaxRecvSGE: init.MaxSGE}
	attr.Owner, attr.Faults = c.faults, c.works
	w := &WQ{ctx: c}
	var err error
	if w.q.QP, err = init.PD.pd.CreateQP(attr); err != nil {
		return nil, err
	}
	c.eng.watch(w.q.QP, w)
	return own(c, op, kindWQ, w)
}

// Num returns the number of the queue (wq_num).
func (w *WQ) Num() QPN { return w.q.QP.Num() }

// Modify changes the state (ibv_modify_wq): from RESET to RDY, where receives can be posted and
// frames arrive, from RDY to ERR, and from any to RESET.
func (w *WQ) Modify(state WQState) error {
	const op = "ModifyWQ"
	if err := w.ctx.verb(op, "modify_wq"); err != nil {
		return err
	}
	err := w.q.Modify(nil, &state, nil)
	if errors.Is(err, segment.ErrNextState) {
		return invalid(op, "wq_state", err.Error())
	}
	return err
}

// PostRecv queues receive work requests (ibv_post_wq_recv) and returns how many: with an error,
// that is the position of the bad one. It returns ErrInvalid in RESET.
func (w *WQ) PostRecv(wrs []RecvWR) (n int, err error) { return w.q.QP.PostRecv(wrs) }

// Destroy frees the queue (ibv_destroy_wq), and then waits until every delivered event of it is
// acknowledged. ErrBusy while an indirection table has it. If ctx ends the wait, the queue is
// destroyed all the same.
func (w *WQ) Destroy(ctx context.Context) error {
	if err := w.ctx.destroy("DestroyWQ", "destroy_wq", kindWQ, w, w.destroy); err != nil {
		return err
	}
	return w.asyncEvents.wait(ctx, w.ctx.closed)
}

func (w *WQ) destroy() error {
	err := w.users.end("DestroyWQ", "wq", w.q.QP.Destroy)
	if err == nil {
		w.ctx.eng.unwatch(w.q.QP, w, &w.asyncEvents)
	}
	return err
}

func (w *WQ) destroyNow() { w.destroy() } //nolint:errcheck // nothing uses it

func (w *WQ) context() *Context { return w.ctx }

// event is nil for what no event tells of a work queue.
func (w *WQ) event(ev rxe.Event) *AsyncEvent {
	typ, ok := segment.WorkQueueEvent(ev.Type)
	if !ok {
		return nil
	}
	return &AsyncEvent{Type: typ, WQ: w, count: &w.asyncEvents}
}
