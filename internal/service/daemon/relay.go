package daemon

import (
	"sync/atomic"

	"github.com/gorxe/gorxe/rxe"
)

// eventRelay passes a device's events on, as soon as there is a receiver.
type eventRelay struct {
	hear atomic.Pointer[func(rxe.Event)]
}

func (r *eventRelay) to(f func(rxe.Event)) { r.hear.Store(&f) }

func (r *eventRelay) event(ev rxe.Event) {
	if f := r.hear.Load(); f != nil {
		(*f)(ev)
	}
}
