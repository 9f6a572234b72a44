package uverbs

import (
	"errors"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/kernel"
	"github.com/gorxe/gorxe/internal/kernel/uapi"
	"github.com/gorxe/gorxe/internal/provider"
	"github.com/gorxe/gorxe/internal/quota"
	"github.com/gorxe/gorxe/rxe"
)

// File is one open of the device: what the kernel keeps in struct
// ib_uverbs_file. Objects belong to it and end with it. Its methods may be called
// by several threads at once.
type File struct {
	dev        *Device
	ctx        provider.Context
	budget     *quota.Budget
	objects    handleTable
	events     eventFileTable
	keys       keyTable
	context    atomic.Bool          // GET_CONTEXT was called
	idle       atomic.Pointer[call] // one to use again, so that a doorbell allocates nothing
	spent      sync.Once            // the budget was, which is logged
	doorbellAt atomic.Uint32        // the handle that Ring begins with
	overrun    overrun

	// gate counts the calls in progress, so that what they use goes when the last
	// has ended. It is a leaf lock and never held during a call.
	gate struct {
		sync.Mutex
		calls   int
		pending bool // teardown is to run when there are no calls
		running bool // teardown runs
		closed  bool // Close was called
		done    bool // all was given back
	}
	settled chan struct{} // closed when teardown has run for the first time
}

// FD is the memfd that the program's queues are mapped from. It belongs to the
// File: give the program a description of its own (reopen /proc/self/fd/N).
func (f *File) FD() int { return f.ctx.FD() }

// enter begins a call. EIO while the file goes away.
func (f *File) enter(c kernel.Caller) (*call, error) {
	f.gate.Lock()
	if f.gate.closed || f.gate.pending || f.gate.running {
		f.gate.Unlock()
		return nil, unix.EIO
	}
	f.gate.calls++
	f.gate.Unlock()
	k := f.idle.Swap(nil)
	if k == nil {
		k = &call{f: f}
	}
	k.begin(c)
	return k, nil
}

// leave ends a call.
func (f *File) leave(k *call, err error) {
	k.end(err)
	if err != nil && errors.Is(err, quota.ErrSpent) {
		f.spent.Do(func() {
			f.dev.log.Warn("a program cannot make all that it wants", "error", err)
		})
	}
	f.idle.Store(k)
	f.uncount()
}

// uncount ends a count of gate.calls.
func (f *File) uncount() {
	f.gate.Lock()
	f.gate.calls--
	run := f.gate.calls == 0 && f.gate.pending && !f.gate.running
	f.gate.Unlock()
	if run {
		// Not in this thread, which answers the program's calls: the engine may
		// have to wait for memory.
		go f.teardown()
	}
}

// Close gives back everything that the open held. It waits for no call in
// progress: with one, everything goes when that ends. Without one it is all
// gone when Close returns, which may take as long as the engine's accesses to
// this program's memory, but for what is closed aside (quota.Budget). A second Close does
// nothing.
func (f *File) Close() {
	f.gate.Lock()
	f.gate.closed = true
	f.gate.Unlock()
	f.endObjects()
}

// disassociate ends the objects, but leaves their handles to be destroyed. It
// returns when that has been done, by whoever ends the last call in progress.
func (f *File) disassociate() {
	f.endObjects()
	<-f.settled
}

func (f *File) endObjects() {
	f.gate.Lock()
	run := false
	if !f.gate.done {
		f.gate.pending = true
		run = f.gate.calls == 0 && !f.gate.running
	}
	f.gate.Unlock()
	if run {
		f.teardown()
	}
}

// teardown ends what is left, again if it is asked for meanwhile.
func (f *File) teardown() {
	for {
		f.gate.Lock()
		if f.gate.running || !f.gate.pending || f.gate.calls > 0 {
			f.gate.Unlock()
			return
		}
		f.gate.running, f.gate.pending = true, false
		closing := f.gate.closed
		f.gate.Unlock()

		f.ctx.End() // a program that lost its device still reads its queues
		if closing {
			f.events.close()
		}
		if f.dev.gone.Load() {
			f.flushAll()
		}
		f.destroyAll()
		if closing {
			// What a program has that lost its device are its last completions.
			f.ctx.Close(f.dev.gone.Load())
			f.dev.forget(f)
		}

		f.gate.Lock()
		f.gate.running = false
		f.gate.done = closing
		select {
		case <-f.settled:
		default:
			close(f.settled)
		}
		f.gate.Unlock()
	}
}

// teardownOrder is the order in which objects depend on each other.
var teardownOrder = []uapi.ObjectType{uapi.ObjQP, uapi.ObjAH, uapi.ObjSRQ, uapi.ObjMW, uapi.ObjMR, uapi.ObjCQ, uapi.ObjPD}

// destroyAll ends the resources of all objects. Nobody else works with them.
func (f *File) destroyAll() {
	for _, typ := range teardownOrder {
		f.objects.each(func(o *object) {
			if o.typ != typ {
				return
			}
			if err := o.destroy(true); err != nil {
				f.dev.log.Error("object survives its program", "type", o.typ, "handle", o.handle, "err", err)
				return
			}
			f.discharge(o)
		})
	}
}

// flushAll completes what is in the queues with an error.
func (f *File) flushAll() {
	f.objects.each(func(o *object) {
		if r, ok := o.res.(*qpRes); ok {
			_ = r.qp.Modify(&rxe.QPAttr{State: rxe.QPErr}, rxe.QPAttrState) // it may be in RESET
		}
	})
}

// needContext is what making an object takes: a device and a context
// (uverbs_main.c:ib_uverbs_get_ucontext_file).
func (f *File) needContext() error {
	switch {
	case f.dev.gone.Load():
		return unix.EIO
	case !f.context.Load():
		return unix.EINVAL
	}
	return nil
}

// abandon undoes an object whose making failed, or could not be told.
func (f *File) abandon(o *object) {
	if o.res != nil {
		if err := o.destroy(true); err != nil {
			f.dev.log.Error("object survives its making", "type", o.typ, "err", err)
		}
	}
	f.discharge(o)
	f.objects.remove(o.handle)
}
