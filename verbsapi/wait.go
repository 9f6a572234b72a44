package verbsapi

import (
	"context"
	"sync"
)

// queue is an unbounded FIFO whose readers wait with a context. Push never
// blocks, so the engine may call it with its locks held.
type queue[T comparable] struct {
	mu    sync.Mutex
	items []T
	head  int
	wake  chan struct{} // holds a token while items may be there
	done  chan struct{} // closed by close
}

func (q *queue[T]) init() {
	q.wake = make(chan struct{}, 1)
	q.done = make(chan struct{})
}

func (q *queue[T]) push(v T) {
	q.mu.Lock()
	if q.head > 0 && len(q.items) == cap(q.items) {
		n := copy(q.items, q.items[q.head:])
		clear(q.items[n:])
		q.items, q.head = q.items[:n], 0
	}
	q.items = append(q.items, v)
	q.mu.Unlock()
	q.signal()
}

func (q *queue[T]) signal() {
	select {
	case q.wake <- struct{}{}:
	default: // somebody is about to look anyway
	}
}

// take removes the first item. Deliver runs under the queue's lock, so that
// nothing can come between the item's removal and its being counted.
func (q *queue[T]) take(deliver func(T)) (v T, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.head == len(q.items) {
		return v, false
	}
	var none T
	v, q.items[q.head] = q.items[q.head], none
	if q.head++; q.head == len(q.items) {
		q.items, q.head = q.items[:0], 0
	} else {
		q.signal() // for the next reader
	}
	deliver(v)
	return v, true
}

// pop waits for an item. After close it still returns the items that are queued.
func (q *queue[T]) pop(ctx context.Context, op string, deliver func(T)) (T, error) {
	for {
		if v, ok := q.take(deliver); ok {
			return v, nil
		}
		var none T
		select {
		case <-q.wake:
		case <-q.done:
			return none, closed(op, "")
		case <-ctx.Done():
			return none, ctx.Err()
		}
	}
}

// drop removes every item that match says is of an object that is destroyed.
func (q *queue[T]) drop(match func(T) bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	kept := q.items[:0]
	for _, v := range q.items[q.head:] {
		if !match(v) {
			kept = append(kept, v)
		}
	}
	clear(q.items[len(kept):])
	q.items, q.head = kept, 0
}

// close ends every wait; a second call does nothing.
func (q *queue[T]) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	select {
	case <-q.done:
	default:
		close(q.done)
	}
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
