package uverbs

import (
	"sync"
	"sync/atomic"
)

// liveQPs are the queue pairs of a file, for TakeDoorbells, which looks at each for every trapped
// call. The handles of all objects would take too long: a program may have a million of other
// objects. Readers take no lock.
type liveQPs struct {
	slots atomic.Pointer[[]atomic.Pointer[qpRes]]
	at    atomic.Uint32 // the slot that TakeDoorbells begins with

	mu   sync.Mutex // writers; a leaf lock
	free []uint32   // empty slots
}

// add gives a queue pair a slot.
func (l *liveQPs) add(r *qpRes) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.free) == 0 {
		l.grow()
	}
	last := len(l.free) - 1
	r.slot, l.free = l.free[last], l.free[:last]
	(*l.slots.Load())[r.slot].Store(r)
}

func (l *liveQPs) grow() {
	var old []atomic.Pointer[qpRes]
	if p := l.slots.Load(); p != nil {
		old = *p
	}
	slots := make([]atomic.Pointer[qpRes], max(4, 2*len(old)))
	for i := range old {
		slots[i].Store(old[i].Load())
	}
	for i := len(slots) - 1; i >= len(old); i-- {
		l.free = append(l.free, uint32(i))
	}
	l.slots.Store(&slots)
}

// remove takes a queue pair out, if it was added. A reader may still find it. Its queues are then
// empty, once they are freed.
func (l *liveQPs) remove(r *qpRes) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if slots := l.slots.Load(); slots != nil && (*slots)[r.slot].CompareAndSwap(r, nil) {
		l.free = append(l.free, r.slot)
	}
}
