package verbsapi

import (
	"context"
	"sync/atomic"

	"github.com/gorxe/gorxe/rxe"
)

// CQ is a completion queue (struct ibv_cq).
type CQ struct {
	ctx     *Context
	cq      *rxe.CQ
	channel *CompChannel // nil: none

	compEvents  unacked // handed out by the channel
	asyncEvents unacked

	// The program's requests to be notified are kept apart from those of Wait,
	// which must leave no event in the channel.
	armed     atomic.Bool
	wake      chan struct{} // holds a token when the queue was notified
	waiting   chan struct{} // holds a token while one goroutine is in Wait
	destroyed chan struct{} // closed when the queue is destroyed
}

// CreateCQ makes a completion queue with room for at least entries completions
// (ibv_create_cq). Channel may be nil.
func (c *Context) CreateCQ(entries int, channel *CompChannel) (*CQ, error) {
	if err := c.verb("CreateCQ", "create_cq"); err != nil {
		return nil, err
	}
	q := new(CQ)
	if err := c.initCQ(q, entries, channel); err != nil {
		return nil, err
	}
	return q, nil
}

func (c *Context) initCQ(q *CQ, entries int, channel *CompChannel) (err error) {
	const op = "CreateCQ"
	q.ctx = c
	q.channel = channel
	q.wake = make(chan struct{}, 1)
	q.waiting = make(chan struct{}, 1)
	q.destroyed = make(chan struct{})
	if channel != nil {
		if channel.ctx != c {
			return invalid(op, "channel", "is of another context")
		}
		if err := channel.join(op); err != nil {
			return err
		}
	}
	q.cq, err = c.sub.CreateCQ(rxe.CQInit{Entries: entries, OnCompletion: q.notified})
	if err != nil {
		if channel != nil {
			channel.leave()
		}
		return err
	}
	c.eng.watch(q.cq, q)
	_, err = own(c, op, kindCQ, q)
	return err
}

// notified is called by the engine, with a QP locked.
func (q *CQ) notified(*rxe.CQ) {
	if q.armed.Swap(false) && q.channel != nil {
		q.channel.events.Push(q)
	}
	select {
	case q.wake <- struct{}{}:
	default: // nobody took the last token
	}
}

// Poll moves up to len(wcs) completions out and returns how many (ibv_poll_cq).
// After an overflow it first returns the completions from before, and then an
// error.
func (q *CQ) Poll(wcs []WC) (int, error) { return q.cq.Poll(wcs) }

// ReqNotify asks for one event on the channel at the next completion. With
// solicitedOnly, that is the next one that is solicited or an error
// (ibv_req_notify_cq). A completion that arrived since the last event, and that has not
// been polled, gives the event at once. One that an event has reported gives no other, so
// poll after the request.
func (q *CQ) ReqNotify(solicitedOnly bool) error {
	if err := q.ctx.verb("ReqNotifyCQ", "req_notify_cq"); err != nil {
		return err
	}
	q.armed.Store(true)
	err := q.cq.ReqNotify(solicitedOnly)
	if err != nil {
		q.armed.Store(false)
	}
	return err
}

// AckEvents acknowledges n events that the channel has delivered
// (ibv_ack_cq_events). If there were fewer, it returns ErrInvalid and changes
// nothing.
func (q *CQ) AckEvents(n int) error {
	if !q.compEvents.ack(n) {
		return invalid("AckCQEvents", "n", "more than were handed out")
	}
	return nil
}

// Wait is a Poll that waits until there is a completion. It does not spin, and does
// not use the channel. Several goroutines may wait; each completion goes to one of
// them.
func (q *CQ) Wait(ctx context.Context, wcs []WC) (int, error) {
	const op = "Wait"
	if n, err := q.cq.Poll(wcs); n > 0 || err != nil || len(wcs) == 0 {
		return n, err
	}
	// One goroutine at a time asks to be notified: a notification wakes one, which
	// may not take every completion.
	select {
	case q.waiting <- struct{}{}:
		defer func() { <-q.waiting }()
	case <-q.destroyed:
		return 0, closed(op, "cq")
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	for {
		if n, err := q.cq.Poll(wcs); n > 0 || err != nil {
			return n, err
		}
		if err := q.cq.ReqNotify(false); err != nil {
			return 0, err
		}
		if n, err := q.cq.Poll(wcs); n > 0 || err != nil {
			return n, err
		}
		select {
		case <-q.wake:
		case <-q.destroyed:
			return 0, closed(op, "cq")
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
}

// Resize changes how many completions fit (ibv_resize_cq). It returns ErrInvalid if
// more than that are in the queue.
func (q *CQ) Resize(entries int) error {
	if err := q.ctx.verb("ResizeCQ", "resize_cq"); err != nil {
		return err
	}
	return q.cq.Resize(entries)
}

// Cap returns how many completions fit.
func (q *CQ) Cap() int { return q.cq.Cap() }

// Destroy frees the queue (ibv_destroy_cq) and then waits until every delivered
// event of it is acknowledged. It returns ErrBusy while a QP uses the queue. If ctx
// ends the wait, the queue is destroyed all the same.
func (q *CQ) Destroy(ctx context.Context) error {
	if err := q.ctx.destroy("DestroyCQ", "destroy_cq", kindCQ, q, q.destroy); err != nil {
		return err
	}
	if err := q.compEvents.wait(ctx, q.ctx.closed); err != nil {
		return err
	}
	return q.asyncEvents.wait(ctx, q.ctx.closed)
}

func (q *CQ) destroyNow() { q.destroy() } //nolint:errcheck // a queue pair may use it

func (q *CQ) destroy() error {
	if err := q.cq.Destroy(); err != nil {
		return err
	}
	close(q.destroyed)
	q.ctx.eng.unwatch(q.cq, q, &q.asyncEvents)
	if q.channel != nil {
		q.channel.events.Drop(func(cq *CQ) bool { return cq == q })
		q.channel.leave()
	}
	return nil
}

func (q *CQ) context() *Context { return q.ctx }

func (q *CQ) event(ev rxe.Event) *AsyncEvent {
	return &AsyncEvent{Type: ev.Type, CQ: q, count: &q.asyncEvents}
}
