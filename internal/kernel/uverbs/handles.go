package uverbs

import (
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/kernel/uapi"
)

// object is what a handle stands for (struct ib_uobject).
type object struct {
	typ    uapi.ObjectType
	handle uint32
	user   uint64   // the name that the program gave it, which events carry
	async  *asyncFD // where its asynchronous events go; nil: nowhere
	res    resource // nil once the device went away
	cost   int64    // of the file's budget, bytes; guarded as res is

	// use counts the calls that work with the object. -1 is a call that destroys or
	// replaces it. No call waits: one that finds the object in use gets EBUSY
	// (rdma_core.c:uverbs_try_lock_object).
	use atomic.Int32

	// doorbell is the QP for doorbells, until it is destroyed. Doorbells do not count in
	// use. The trap answers a doorbell that blocks, so the program can destroy the QP
	// while the doorbell still runs.
	doorbell atomic.Pointer[qpRes]

	// How many of its events the program has read, known once it is destroyed.
	asyncReported, compReported uint32
}

// resource is the engine's side of an object.
type resource interface {
	// destroy ends the resource and gives back what it took. closing is set when the file
	// or the device ends: then destroy undoes what the program would have to undo first.
	// After an error nothing has changed.
	destroy(o *object, closing bool) error
}

// share begins a use beside others, and reports whether it could.
func (o *object) share() bool {
	for {
		n := o.use.Load()
		if n < 0 {
			return false
		}
		if o.use.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

func (o *object) unshare() { o.use.Add(-1) }

// seize begins an exclusive use, and reports whether it could.
func (o *object) seize() bool { return o.use.CompareAndSwap(0, -1) }

func (o *object) unseize() { o.use.Store(0) }

// destroy ends the seized object's resource and counts its events.
func (o *object) destroy(closing bool) error {
	if o.res == nil {
		return nil // the device is gone, and the resource with it
	}
	if err := o.res.destroy(o, closing); err != nil {
		return err
	}
	o.res = nil
	if o.async != nil {
		o.asyncReported = o.async.Forget(o)
	}
	return nil
}

// handleTable holds the handles of one open file. They are small integers, the lowest
// free one first, in one space for all types (rdma_core.c:idr_add_uobj). Lookups take no
// lock.
type handleTable struct {
	slots atomic.Pointer[[]atomic.Pointer[object]]

	mu   sync.Mutex // writers; a leaf lock
	free uint32     // no slot below is free
}

// reserved is in the slot of an object that is being made.
var reserved = new(object)

// lookup returns an object, or nil.
func (t *handleTable) lookup(handle uint32) *object {
	slots := t.slots.Load()
	if slots == nil || uint64(handle) >= uint64(len(*slots)) {
		return nil
	}
	if o := (*slots)[handle].Load(); o != reserved {
		return o
	}
	return nil
}

// reserve returns a new handle, which lookup does not find yet.
func (t *handleTable) reserve() uint32 {
	t.mu.Lock()
	defer t.mu.Unlock()
	var slots []atomic.Pointer[object]
	if p := t.slots.Load(); p != nil {
		slots = *p
	}
	for int(t.free) < len(slots) && slots[t.free].Load() != nil {
		t.free++
	}
	if int(t.free) == len(slots) {
		slots = t.grow(slots)
	}
	h := t.free
	slots[h].Store(reserved)
	t.free++
	return h
}

func (t *handleTable) grow(old []atomic.Pointer[object]) []atomic.Pointer[object] {
	slots := make([]atomic.Pointer[object], max(16, 2*len(old)))
	for i := range old {
		slots[i].Store(old[i].Load())
	}
	t.slots.Store(&slots)
	return slots
}

// publish makes lookup find o under the handle reserved for it.
func (t *handleTable) publish(o *object) {
	t.mu.Lock()
	defer t.mu.Unlock()
	(*t.slots.Load())[o.handle].Store(o)
}

// remove frees a handle.
func (t *handleTable) remove(handle uint32) {
	t.mu.Lock()
	defer t.mu.Unlock()
	(*t.slots.Load())[handle].Store(nil)
	t.free = min(t.free, handle)
}

// each calls f with every object, the newest handles first.
func (t *handleTable) each(f func(*object)) {
	p := t.slots.Load()
	if p == nil {
		return
	}
	for i := len(*p) - 1; i >= 0; i-- {
		if o := t.lookup(uint32(i)); o != nil {
			f(o)
		}
	}
}

// Find looks an object of a type up, with the errno of
// rdma_core.c:rdma_lookup_get_uobject.
func (t *handleTable) find(typ uapi.ObjectType, handle uint64) (*object, error) {
	if handle > 1<<63-1 {
		return nil, unix.EINVAL // a negative id
	}
	var o *object
	if handle < 1<<32 {
		o = t.lookup(uint32(handle))
	}
	switch {
	case o == nil:
		return nil, unix.ENOENT
	case o.typ != typ:
		return nil, unix.EINVAL
	}
	return o, nil
}
