package uverbs

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/kernel"
	"github.com/gorxe/gorxe/internal/kernel/dispatch"
	"github.com/gorxe/gorxe/internal/kernel/uapi"
	"github.com/gorxe/gorxe/internal/provider"
	"github.com/gorxe/gorxe/internal/quota"
	"github.com/gorxe/gorxe/internal/sys/fdid"
	"github.com/gorxe/gorxe/rxe"
	"github.com/gorxe/gorxe/wire"
)

// File is one open of the device: what the kernel keeps in struct
// ib_uverbs_file. Objects belong to it and end with it. Its methods may be called
// by several threads at once.
type File struct {
	dev     *Device
	sub     *rxe.Subdevice
	ctx     provider.Context
	belled  atomic.Pointer[kernel.DoorbellKind]
	budget  *quota.Budget
	number  uint32 // of its context
	objects dispatch.Handles
	events  eventFileTable
	keys    keyTable
	context atomic.Uint32        // contextNone, contextBegins or contextMade
	idle    atomic.Pointer[call] // reused, to allocate nothing for a doorbell
	spent   sync.Once            // logs once that the budget is spent
	live    liveQPs
	sends   atomic.Bool // a queue pair was made
	overrun overrun
	owner   any // of the queue pairs; see SetOwner
	work    rxe.WorkFaults
	chaos   *rxe.Chaos
	faults  kernel.FaultPoint
	reports Reports                         // nil: not wanted
	watcher Watcher                         // nil: none
	rung    atomic.Pointer[dispatch.Object] // of watcher: the queue pair of the last doorbell
	unhook  func()                          // of the budget

	gate    gate
	removed atomic.Bool // Remove was called
}

// What File.context says of GET_CONTEXT.
const (
	contextNone   = iota // it was not called, or it failed
	contextBegins        // a call is in progress
	contextMade          // it succeeded
)

// Fatal tells the program that the device has failed.
func (f *File) Fatal() { f.events.broadcast(0, uint32(rxe.EventDeviceFatal)) }

// Remove takes the device away from the program, as Device.Close does from all, and waits as that
// does.
func (f *File) Remove() {
	if f.removed.Swap(true) {
		return
	}
	f.events.tell(0, uint32(rxe.EventDeviceFatal))
	f.disassociate()
}

// gone reports whether the program has lost the device.
func (f *File) gone() bool { return f.removed.Load() || f.dev.gone.Load() }

// FD implements kernel.File. The program's queues are mapped from it, so it must get a
// description of its own (reopen /proc/self/fd/N).
func (f *File) FD() int { return f.ctx.FD() }

// SetOwner sets what rxe.QP.Owner returns for the queue pairs of this open, and what goes wrong
// with their work requests. It must be called before the program can make one.
func (f *File) SetOwner(owner any, faults rxe.WorkFaults) { f.owner, f.work = owner, faults }

// SetChaos sets the chaos of the queue pairs of this open, nil for none. It must be called before
// the program can make one.
func (f *File) SetChaos(c *rxe.Chaos) { f.chaos = c }

// SetFaults says what goes wrong with the verbs of this open. It must be called before the first
// call.
func (f *File) SetFaults(faults kernel.Faults) { f.faults.Init(faults) }

// Reports receives the reasons why verbs and work of a program failed.
type Reports interface {
	rxe.Reports
	kernel.Refusals
	// Moved is told of each state that a program brings a queue pair to: RESET when it is made, and
	// Destroyed at the end.
	Moved(q wire.QPN, state string)
}

// Destroyed is the last state of a queue pair.
const Destroyed = "destroyed"

// moved reports a state.
func (f *File) moved(q wire.QPN, state string) {
	if f.reports != nil {
		f.reports.Moved(q, state)
	}
}

// SetReports sets the receiver of failures. It must be called before the first call.
func (f *File) SetReports(r Reports) { f.reports = r }

// refused reports a call that failed. It leaves out the questions of libibverbs that may fail:
// methods that the kernel may lack, INVOKE_WRITE without a command, and empty GIDs.
func (f *File) refused(k *call, err error) {
	errno := errnoOf(err)
	switch {
	case f.reports == nil, errno == unix.EPROTONOSUPPORT, errno == unix.ENOTTY, errno == unix.ENODATA && k.Method != "MODIFY_QP",
		k.Method == "INVOKE_WRITE":
		return
	}
	verb := verbOf(k.Method)
	if verb == "" {
		verb = strings.ToLower(k.Method)
	}
	f.reports.Refused(verb, errno, err)
}

// Verb implements dispatch.Owner.
func (f *File) Verb(name string) error { return f.faults.Pass(name) }

// enter begins a call; EIO while the file ends.
func (f *File) enter(c kernel.Caller) (*call, error) {
	if !f.gate.enter() {
		return nil, unix.EIO
	}
	k := f.idle.Swap(nil)
	if k == nil {
		k = &call{f: f}
		k.Bind(k, f, &f.objects)
	}
	k.Begin(c)
	return k, nil
}

// leave ends a call.
func (f *File) leave(k *call, err error) {
	if err != nil {
		f.refused(k, err)
	}
	if f.watcher != nil {
		f.watched(k, err)
	}
	k.End(err)
	if err != nil && errors.Is(err, quota.ErrSpent) {
		f.spent.Do(func() {
			f.dev.log.Warn("user limit reached: a request of the program fails", "error", err)
		})
	}
	f.idle.Store(k)
	f.uncount()
}

// uncount ends what gate.enter began.
func (f *File) uncount() {
	if f.gate.leave() {
		// Not in this thread, which answers the program's calls. The engine may block in
		// the program's memory.
		go f.teardown()
	}
}

// Close gives back everything that the open held. It does not wait for calls in progress:
// if there is one, everything is given back when it ends. Otherwise all is given back when
// Close returns, except what a thread of the budget closes. Close blocks as long as the
// engine's accesses to this program's memory. A second Close does nothing.
func (f *File) Close() {
	f.endObjects(true)
}

// disassociate ends the objects, but leaves their handles, which the program destroys. It
// returns when teardown has run, in this thread or after the last call in progress.
func (f *File) disassociate() {
	f.endObjects(false)
	<-f.gate.settled
}

func (f *File) endObjects(closing bool) {
	f.faults.End()
	if f.gate.end(closing) {
		f.teardown()
	}
}

// teardown ends the objects. It runs again if it was requested meanwhile.
func (f *File) teardown() {
	for {
		closing, ok := f.gate.begin()
		if !ok {
			return
		}
		f.ctx.End() // queues leave their memory to Close
		if closing {
			f.unhook()
			f.events.close()
		}
		if f.gone() {
			f.flushAll()
		}
		f.destroyAll()
		if closing {
			// A program that lost its device still reads its last completions.
			f.ctx.Close(f.gone())
			f.dev.forget(f)
		}
		f.gate.finish(closing)
	}
}

// teardownOrder is the order in which objects depend on each other. The objects of a driver's own
// types come last, all at once, before the protection domains.
var teardownOrder = []uapi.ObjectType{uapi.ObjFlow, uapi.ObjCounters, uapi.ObjQP, uapi.ObjRWQIndTbl, uapi.ObjWQ,
	uapi.ObjAH, uapi.ObjSRQ, uapi.ObjMW, uapi.ObjMR, uapi.ObjCQ, uapi.ObjXRCD, driverObjects, uapi.ObjPD}

const driverObjects uapi.ObjectType = 1<<16 - 1

// teardownType is the type that stands for an object in teardownOrder.
func teardownType(typ uapi.ObjectType) uapi.ObjectType {
	if slices.Contains(teardownOrder, typ) {
		return typ
	}
	return driverObjects
}

// destroyAll ends the resources of all objects. No call is in progress.
func (f *File) destroyAll() {
	for _, typ := range teardownOrder {
		f.objects.Each(func(o *dispatch.Object) {
			if teardownType(o.Type) != typ {
				return
			}
			if err := o.Destroy(true); err != nil {
				f.dev.log.Error("an object cannot be destroyed at the end of its program", "type", o.Type, "handle", o.Handle, "err", err)
				return
			}
			f.Discharge(o)
		})
	}
}

// flushAll completes all work requests with an error.
func (f *File) flushAll() {
	f.objects.Each(func(o *dispatch.Object) {
		switch r := o.Res.(type) {
		case *qpRes:
			_ = r.qp.Modify(&rxe.QPAttr{State: rxe.QPErr}, rxe.QPAttrState) // it may be in RESET
		case *wqRes:
			_ = r.QP.Modify(&rxe.QPAttr{State: rxe.QPErr}, rxe.QPAttrState)
		}
	})
}

// NeedContext reports whether objects can be made: that takes a device and a context
// (uverbs_main.c:ib_uverbs_get_ucontext_file).
func (f *File) NeedContext() error {
	switch {
	case f.gone():
		return unix.EIO
	case f.context.Load() != contextMade:
		return kernel.Refuse(unix.EINVAL, "context", "is missing", "open the device with ibv_open_device")
	}
	return nil
}

// Abandon undoes an object whose creation failed, or whose answer was not delivered.
func (f *File) Abandon(o *dispatch.Object) {
	if o.Res != nil {
		if err := o.Destroy(true); err != nil {
			f.dev.log.Error("an object whose creation failed cannot be destroyed", "type", o.Type, "err", err)
		}
	}
	f.Discharge(o)
	f.objects.Remove(o.Handle)
}

// Gone implements Owner.
func (f *File) Gone() bool { return f.gone() }

// DriverID implements Owner.
func (f *File) DriverID() uint32 { return f.dev.cfg.Driver.ID() }

// EventFile implements Owner.
func (f *File) EventFile(id fdid.ID, typ uapi.ObjectType) any { return f.events.find(id, typ) }
