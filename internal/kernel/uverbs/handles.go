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
	user   uint64   // the program's own name of it, which events carry
	async  *asyncFD // where its asynchronous events go; nil: nowhere
	res    resource // nil once the device went away
	cost   int64    // of the file's budget, bytes; guarded as res is

	// use counts the calls that work with the object, -1 being one that
	// destroys or replaces it. Nobody waits: whoever finds it taken gets EBUSY
	// (rdma_core.c:uverbs_try_lock_object).
	use atomic.Int32

	// doorbell is where doorbells of a QP ring, until it is destroyed. They do not
	// take the object for use: one that is held up may have been answered for
	// (interpose does so), and the program, which knows of no call that it still
	// makes, may destroy the QP.
	doorbell atomic.Pointer[qpRes]

	// Events that the program has read of it, known once it is destroyed.
	asyncReported, compReported uint32
}

// resource is the engine's side of an object.
type resource interface {
	// destroy ends it and gives back what it held. closing is set when file or
	// device go away: what the program would have to undo first is then undone.
	// After an error everything is as it was.
	destroy(o *object, closing bool) error
}

// share takes the object for use beside others.
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

// seize takes the object for one's own.
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

// handleTable are the handles of one open file: small integers, the lowest free
// one first, as the kernel's (rdma_core.c:idr_add_uobj), one space for all types.
// Lookups take no lock.
type handleTable struct {
	slots atomic.Pointer[[]atomic.Pointer[object]]

	mu   sync.Mutex // writers; a leaf lock
	free uint32     // there is no free slot below
}

// reserved is in the slot of an object that is being made.
var reserved = new(object)

// lookup finds an object; nil when there is none.
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

// reserve takes a handle that lookup does not find yet.
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
