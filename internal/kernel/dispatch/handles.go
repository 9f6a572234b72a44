package dispatch

import (
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/kernel"
	"github.com/gorxe/gorxe/internal/kernel/uapi"
)

// Object is what a handle stands for (struct ib_uobject).
type Object struct {
	Type   uapi.ObjectType
	Handle uint32
	User   uint64    // the name that the program gave it, which events carry
	Async  EventSink // where its asynchronous events go; nil: nowhere
	Res    Resource  // nil once the device went away
	Cost   int64     // of the file's budget, bytes; guarded as res is

	// Use counts the calls that work with the object. -1 is a call that destroys or
	// replaces it. No call waits: one that finds the object in use gets EBUSY
	// (rdma_core.c:uverbs_try_lock_object).
	Use atomic.Int32

	// Doorbell is the QP for doorbells, until it is destroyed. Doorbells do not count in
	// use. The trap answers a doorbell that blocks, so the program can destroy the QP
	// while the doorbell still runs.
	Doorbell atomic.Pointer[Resource]

	// How many of its events the program has read, known once it is destroyed.
	AsyncReported, CompReported uint32
	AsyncUnread                 uint32 // how many it has not read
}

// EventSink is a file that carries events of objects.
type EventSink interface {
	// Forget takes back the unread events of an object, and returns how many were read, and how
	// many not.
	Forget(key any) (reported, unread uint32)
}

// Resource is the engine's side of an object.
type Resource interface {
	// Destroy ends the resource and gives back what it took. closing is set when the file
	// or the device ends: then destroy undoes what the program would have to undo first.
	// After an error nothing has changed.
	Destroy(o *Object, closing bool) error
}

// Share begins a use beside others, and reports whether it could.
func (o *Object) Share() bool {
	for {
		n := o.Use.Load()
		if n < 0 {
			return false
		}
		if o.Use.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

func (o *Object) Unshare() { o.Use.Add(-1) }

// Seize begins an exclusive use, and reports whether it could.
func (o *Object) Seize() bool { return o.Use.CompareAndSwap(0, -1) }

func (o *Object) Unseize() { o.Use.Store(0) }

// Destroy ends the seized object's resource and counts its events.
func (o *Object) Destroy(closing bool) error {
	if o.Res == nil {
		return nil // the device is gone, and the resource with it
	}
	if err := o.Res.Destroy(o, closing); err != nil {
		return err
	}
	o.Res = nil
	if o.Async != nil {
		o.AsyncReported, o.AsyncUnread = o.Async.Forget(o)
	}
	return nil
}

// Handles holds the handles of one open file. They are small integers, the lowest
// free one first, in one space for all types (rdma_core.c:idr_add_uobj). Lookups take no
// lock.
type Handles struct {
	slots atomic.Pointer[[]atomic.Pointer[Object]]

	mu   sync.Mutex // writers; a leaf lock
	free uint32     // no slot below is free
}

// reserved is in the slot of an object that is being made.
var reserved = new(Object)

// Lookup returns an object, or nil.
func (t *Handles) Lookup(handle uint32) *Object {
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
func (t *Handles) reserve() uint32 {
	t.mu.Lock()
	defer t.mu.Unlock()
	var slots []atomic.Pointer[Object]
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

func (t *Handles) grow(old []atomic.Pointer[Object]) []atomic.Pointer[Object] {
	slots := make([]atomic.Pointer[Object], max(16, 2*len(old)))
	for i := range old {
		slots[i].Store(old[i].Load())
	}
	t.slots.Store(&slots)
	return slots
}

// publish makes lookup find o under the handle reserved for it.
func (t *Handles) publish(o *Object) {
	t.mu.Lock()
	defer t.mu.Unlock()
	(*t.slots.Load())[o.Handle].Store(o)
}

// Remove frees a handle.
func (t *Handles) Remove(handle uint32) {
	t.mu.Lock()
	defer t.mu.Unlock()
	(*t.slots.Load())[handle].Store(nil)
	t.free = min(t.free, handle)
}

// Each calls f with every object, the newest handles first.
func (t *Handles) Each(f func(*Object)) {
	p := t.slots.Load()
	if p == nil {
		return
	}
	for i := len(*p) - 1; i >= 0; i-- {
		if o := t.Lookup(uint32(i)); o != nil {
			f(o)
		}
	}
}

// Find looks an object of a type up, with the errno of
// rdma_core.c:rdma_lookup_get_uobject.
func (t *Handles) Find(typ uapi.ObjectType, handle uint64) (*Object, error) {
	if handle > 1<<63-1 {
		return nil, kernel.Refuse(unix.EINVAL, "handle", "is negative", "give one that a create call returned")
	}
	var o *Object
	if handle < 1<<32 {
		o = t.Lookup(uint32(handle))
	}
	switch {
	case o == nil:
		return nil, unix.ENOENT
	case o.Type != typ:
		return nil, kernel.Refuse(unix.EINVAL, "handle", "belongs to an object of another type", "give that of the object that the call is for")
	}
	return o, nil
}
