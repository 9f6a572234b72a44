// Package waitqueue has a queue whose readers wait with a context.
package waitqueue

import (
	"context"
	"errors"
	"sync"
)

// ErrClosed is the error of a Pop that ends because the queue was closed.
var ErrClosed = errors.New("the queue is closed")

// Queue is an unbounded FIFO. Push never blocks, so a caller may hold locks. Init comes
// before all else.
type Queue[T comparable] struct {
	mu    sync.Mutex
	items []T
	head  int
	wake  chan struct{} // holds a token while items may be there
	done  chan struct{} // closed by Close
}

// Init makes the queue ready for use.
func (q *Queue[T]) Init() {
	q.wake = make(chan struct{}, 1)
	q.done = make(chan struct{})
}

// Push adds an item.
func (q *Queue[T]) Push(v T) {
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

func (q *Queue[T]) signal() {
	select {
	case q.wake <- struct{}{}:
	default: // somebody is about to look anyway
	}
}

// Len returns how many items wait.
func (q *Queue[T]) Len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.items) - q.head
}

// take removes the first item. Deliver runs under the queue's lock, so that
// nothing can come between the item's removal and its being counted.
func (q *Queue[T]) take(deliver func(T)) (v T, ok bool) {
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
	if deliver != nil {
		deliver(v)
	}
	return v, true
}

// Pop waits for an item and removes it. deliver, if not nil, is called before another
// reader, or Drop, can look at the queue. After Close it still returns the items that are
// queued, and then ErrClosed.
func (q *Queue[T]) Pop(ctx context.Context, deliver func(T)) (T, error) {
	for {
		if v, ok := q.take(deliver); ok {
			return v, nil
		}
		var none T
		select {
		case <-q.wake:
		case <-q.done:
			return none, ErrClosed
		case <-ctx.Done():
			return none, ctx.Err()
		}
	}
}

// Drop removes every item that match reports true for.
func (q *Queue[T]) Drop(match func(T) bool) {
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

// Close ends every wait. A second call does nothing.
func (q *Queue[T]) Close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	select {
	case <-q.done:
	default:
		close(q.done)
	}
}
