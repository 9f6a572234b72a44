package verbsapi

import (
	"context"
	"slices"
	"sync/atomic"

	"github.com/gorxe/gorxe/rxe"
)

// AsyncEvent is an asynchronous event (struct ibv_async_event). It has the object that Type is
// about. Port is set for events of the port.
type AsyncEvent struct {
	Type EventType
	QP   *QP
	CQ   *CQ
	SRQ  *SRQ
	WQ   *WQ
	Port uint8

	count *unacked // of the object; nil for events of port and device
	acked atomic.Bool
}

// eventTarget is an object that asynchronous events are about.
type eventTarget interface {
	context() *Context
	event(rxe.Event) *AsyncEvent // nil: none
}

// onEvent passes an event of the engine to the context of its object, or to every
// context. It is called with a QP locked.
func (e *sharedEngine) onEvent(ev rxe.Event) {
	var object any
	switch {
	case ev.QP != nil:
		object = ev.QP
	case ev.CQ != nil:
		object = ev.CQ
	case ev.SRQ != nil:
		object = ev.SRQ
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if object == nil {
		for c := range e.contexts {
			c.events.Push(&AsyncEvent{Type: ev.Type, Port: ev.Port})
		}
		return
	}
	for _, t := range e.owners[object] {
		if told := t.event(ev); told != nil {
			t.context().events.Push(told)
		}
	}
}

// fatal tells the context that its device has failed, by a fault rule.
func (c *Context) fatal() { c.events.Push(&AsyncEvent{Type: EventDeviceFatal}) }

// watch makes object's events go to t.
func (e *sharedEngine) watch(object any, t eventTarget) {
	e.mu.Lock()
	e.owners[object] = append(e.owners[object], t)
	e.mu.Unlock()
}

// unwatch ends that and forgets events of t that nobody has fetched.
func (e *sharedEngine) unwatch(object any, t eventTarget, count *unacked) {
	e.mu.Lock()
	left := slices.DeleteFunc(slices.Clone(e.owners[object]), func(o eventTarget) bool { return o == t })
	if e.owners[object] = left; len(left) == 0 {
		delete(e.owners, object)
	}
	e.mu.Unlock()
	t.context().events.Drop(func(ev *AsyncEvent) bool { return ev.count == count })
}

// GetAsyncEvent waits for the next asynchronous event of this context's objects or
// of the port (ibv_get_async_event). Each event must be acknowledged, because
// destroying its object waits for that.
func (c *Context) GetAsyncEvent(ctx context.Context) (*AsyncEvent, error) {
	ev, err := c.events.Pop(ctx, func(ev *AsyncEvent) {
		if ev.count != nil {
			ev.count.add()
		}
	})
	return popped("GetAsyncEvent", ev, err)
}

// Ack acknowledges the event (ibv_ack_async_event). Doing so twice is harmless.
func (ev *AsyncEvent) Ack() {
	if ev.acked.Swap(true) || ev.count == nil {
		return
	}
	ev.count.ack(1)
}
