package verbsapi

import (
	"context"
	"errors"
	"sync"

	"github.com/gorxe/gorxe/verbsapi/internal/waitqueue"
)

// popped returns what the queue of events gave, and names the call that waited.
func popped[T any](op string, v T, err error) (T, error) {
	if errors.Is(err, waitqueue.ErrClosed) {
		err = closed(op, "")
	}
	return v, err
}

// unacked counts events that were handed to the program and not acknowledged.
// As in libibverbs, an object's destruction waits for them, so that a thread
// that still works on an event does not find its object match.
type unacked struct {
	mu   sync.Mutex
	n    int
	idle chan struct{} // closed when n falls to 0; nil: nobody waits
}

func (u *unacked) add() {
	u.mu.Lock()
	u.n++
	u.mu.Unlock()
}

// ack takes n off and reports false, changing nothing, if there are not as many.
func (u *unacked) ack(n int) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if n < 0 || n > u.n {
		return false
	}
	u.n -= n
	if u.n == 0 && u.idle != nil {
		close(u.idle)
		u.idle = nil
	}
	return true
}

// wait returns when nothing is unacknowledged, or done is closed.
func (u *unacked) wait(ctx context.Context, done <-chan struct{}) error {
	u.mu.Lock()
	if u.n == 0 {
		u.mu.Unlock()
		return nil
	}
	if u.idle == nil {
		u.idle = make(chan struct{})
	}
	idle := u.idle
	u.mu.Unlock()
	select {
	case <-idle:
		return nil
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
