package verbsapi

import (
	"context"

	"github.com/gorxe/gorxe/rxe"
)

// SRQ is a receive queue that several queue pairs take from (struct ibv_srq).
type SRQ struct {
	ctx         *Context
	srq         *rxe.SRQ
	xrcd        *XRCD // of type SRQXRC
	asyncEvents unacked
}

// SRQAttrMask is enum ibv_srq_attr_mask.
type SRQAttrMask = rxe.SRQAttrMask

// enum ibv_srq_attr_mask.
const (
	SRQAttrMaxWR = rxe.SRQAttrMaxWR
	SRQAttrLimit = rxe.SRQAttrLimit
)

// CreateSRQ makes a shared receive queue (ibv_create_srq).
func (p *PD) CreateSRQ(attr SRQAttr) (*SRQ, error) {
	const op = "CreateSRQ"
	if err := p.usable(op); err != nil {
		return nil, err
	}
	if err := p.ctx.verb(op, "create_srq"); err != nil {
		return nil, err
	}
	srq, err := p.pd.CreateSRQ(rxe.SRQInit{MaxWR: attr.MaxWR, MaxSGE: attr.MaxSGE, Limit: attr.Limit})
	if err != nil {
		return nil, err
	}
	s := &SRQ{ctx: p.ctx, srq: srq}
	return s.enter(op)
}

// enter makes a new SRQ one of its context.
func (s *SRQ) enter(op string) (*SRQ, error) {
	s.ctx.eng.watch(s.srq, s)
	return own(s.ctx, op, kindSRQ, s)
}

// Modify changes the size, or arms the limit event (ibv_modify_srq).
func (s *SRQ) Modify(attr SRQAttr, mask SRQAttrMask) error {
	if err := s.ctx.verb("ModifySRQ", "modify_srq"); err != nil {
		return err
	}
	return s.srq.Modify(attr, mask)
}

// Query returns the present attributes (ibv_query_srq).
func (s *SRQ) Query() (SRQAttr, error) {
	if err := s.ctx.verb("QuerySRQ", "query_srq"); err != nil {
		return SRQAttr{}, err
	}
	return s.srq.Query()
}

// PostRecv queues receive work requests (ibv_post_srq_recv) and returns how many:
// with an error, that is the position of the bad one.
func (s *SRQ) PostRecv(wrs []RecvWR) (n int, err error) { return s.srq.PostRecv(wrs) }

// Destroy frees the queue (ibv_destroy_srq) and then waits until every event of
// it that was handed out is acknowledged. ErrBusy while a QP uses it. If ctx
// ends the wait, the queue is destroyed all the same.
func (s *SRQ) Destroy(ctx context.Context) error {
	if err := s.ctx.destroy("DestroySRQ", "destroy_srq", kindSRQ, s, s.destroy); err != nil {
		return err
	}
	return s.asyncEvents.wait(ctx, s.ctx.closed)
}

func (s *SRQ) destroyNow() { s.destroy() } //nolint:errcheck // a queue pair may use it

func (s *SRQ) destroy() error {
	err := s.srq.Destroy()
	if err == nil {
		s.ctx.eng.unwatch(s.srq, s, &s.asyncEvents)
		s.xrcd.leave()
	}
	return err
}

func (s *SRQ) context() *Context { return s.ctx }

func (s *SRQ) event(ev rxe.Event) *AsyncEvent {
	return &AsyncEvent{Type: ev.Type, SRQ: s, count: &s.asyncEvents}
}

// SRQInitAttrEx is what CreateSRQEx takes (struct ibv_srq_init_attr_ex).
type SRQInitAttrEx struct {
	SRQAttr
	PD   *PD
	Type SRQType
	XRCD *XRCD // SRQXRC
	CQ   *CQ   // SRQXRC: where its receives complete
}

// SRQType is enum ibv_srq_type.
type SRQType uint8

// enum ibv_srq_type.
const (
	SRQBasic SRQType = 0
	SRQXRC   SRQType = 1
	SRQTM    SRQType = 2
)

// CreateSRQEx makes a shared receive queue (ibv_create_srq_ex). ErrNotSupported
// for SRQTM.
func (c *Context) CreateSRQEx(attr SRQInitAttrEx) (*SRQ, error) {
	const op = "CreateSRQEx"
	switch {
	case attr.Type > SRQXRC:
		return nil, &OpError{Op: op, Arg: "srq_type", Err: ErrNotSupported}
	case attr.PD == nil || attr.PD.ctx != c:
		return nil, invalid(op, "pd", "is not of this context")
	}
	if attr.Type == SRQXRC {
		return c.createXRC(op, attr)
	}
	return attr.PD.CreateSRQ(attr.SRQAttr)
}
