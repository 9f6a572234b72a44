package verbsapi

import (
	"context"
	"sync"

	"github.com/gorxe/gorxe/verbsapi/internal/waitqueue"
)

// CompChannel reports that completion queues have completions (struct
// ibv_comp_channel). Several queues may share one.
type CompChannel struct {
	ctx    *Context
	events waitqueue.Queue[*CQ]

	mu   sync.Mutex
	cqs  int // that report here
	dead bool
}

// CreateCompChannel makes a channel (ibv_create_comp_channel).
func (c *Context) CreateCompChannel() (*CompChannel, error) {
	if err := c.verb("CreateCompChannel", "create_comp_channel"); err != nil {
		return nil, err
	}
	ch := &CompChannel{ctx: c}
	ch.events.Init()
	return own(c, "CreateCompChannel", kindChannel, ch)
}

// GetEvent waits until a completion queue that was armed with ReqNotify has a
// completion (ibv_get_cq_event). Each event must be acknowledged with CQ.AckEvents,
// because CQ.Destroy waits for that.
func (ch *CompChannel) GetEvent(ctx context.Context) (*CQ, error) {
	cq, err := ch.events.Pop(ctx, func(cq *CQ) { cq.compEvents.add() })
	return popped("GetEvent", cq, err)
}

// Destroy frees the channel (ibv_destroy_comp_channel). It returns ErrBusy while a
// completion queue reports to it. Goroutines that wait get ErrClosed.
func (ch *CompChannel) Destroy() error {
	const op = "DestroyCompChannel"
	ch.mu.Lock()
	switch {
	case ch.dead:
		ch.mu.Unlock()
		return closed(op, "channel")
	case ch.cqs > 0:
		ch.mu.Unlock()
		return &OpError{Op: op, Arg: "channel", Why: "completion queues use it", Err: ErrBusy}
	}
	ch.dead = true
	ch.mu.Unlock()
	ch.ctx.disown(kindChannel, ch)
	ch.events.Close()
	return nil
}

func (ch *CompChannel) destroyNow() {
	ch.mu.Lock()
	ch.dead = true
	ch.mu.Unlock()
	ch.events.Close()
}

// join makes a completion queue a user of the channel; leave ends that.
func (ch *CompChannel) join(op string) error {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	if ch.dead {
		return closed(op, "channel")
	}
	ch.cqs++
	return nil
}

func (ch *CompChannel) leave() {
	ch.mu.Lock()
	ch.cqs--
	ch.mu.Unlock()
}
