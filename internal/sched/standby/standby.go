// Package standby replaces threads that are blocked. A copy to another process's
// memory waits for that process's userfaultfd handler or FUSE server. The wait may never
// end, and no signal or deadline ends it. The thread is lost for that time, but its work
// must continue.
//
// A [Worker] marks the begin and the end of a call that may block it. A [Watch] looks at all
// workers regularly. When a call takes too long, their [Owner] may take the role from the worker
// ([Worker.Replace]) and give it to another one ([Entry.Appoint]). The blocked worker learns this
// when its call returns, and ends. A [Role] is an owner whose workers are goroutines. The receivers
// of package trap have owners of their own.
//
// A call may also take long because its thread waits for a processor. A second worker
// would only overtake it. So the watch first checks whether any thread of the process
// waits for memory. If none does, it is sure after [UnconfirmedFactor] times as long.
//
// The cost is two atomic writes per call. There is no clock reading and no system
// call, and the watch sleeps while no calls are made.
package standby

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Watch looks at workers. The code that made it must close it.
type Watch struct {
	tick    time.Duration
	blocked func() bool // reports whether a thread waits for memory
	asleep  atomic.Bool
	wake    chan struct{}
	stop    chan struct{}
	done    chan struct{}

	mu      sync.Mutex // for those that change the list
	entries atomic.Pointer[[]*Entry]
}

// Owner decides about a worker. The watch calls it without a lock, and once more, perhaps, after
// [Entry.Remove]. It must not wait for what a worker does.
type Owner interface {
	// TooLong is called in each tick in which the worker's call takes too long. sure returns false
	// if the worker may only wait for a processor.
	TooLong(c Call, sure func() bool)
	// Idle is called in each tick in which the worker is in no call: looks is in how many before.
	// It returns true if it has to be called again although no worker calls.
	Idle(looks int) (again bool)
}

// Entry is a worker in a watch.
type Entry struct {
	watch  *Watch
	owner  Owner
	worker atomic.Pointer[Worker] // nil: nobody works

	// What the last look found; of the watch.
	seen  *Worker
	last  Call
	looks int // before that found the same
}

// NewWatch starts a watch. A call takes too long after limit to one and a half times limit.
func NewWatch(limit time.Duration) *Watch { return newWatch(limit, memoryWaits) }

func newWatch(limit time.Duration, blocked func() bool) *Watch {
	w := &Watch{
		blocked: blocked,
		tick:    limit / tooManyLooks,
		wake:    make(chan struct{}, 1),
		stop:    make(chan struct{}),
		done:    make(chan struct{}),
	}
	w.entries.Store(new([]*Entry))
	go w.run()
	return w
}

// Add has the watch look at the workers of a role.
func (w *Watch) Add(o Owner) *Entry {
	e := &Entry{watch: w, owner: o}
	w.change(func(list []*Entry) []*Entry { return append(list, e) })
	return e
}

// Remove ends that.
func (e *Entry) Remove() {
	e.watch.change(func(list []*Entry) []*Entry {
		return slices.DeleteFunc(list, func(other *Entry) bool { return other == e })
	})
}

func (w *Watch) change(f func([]*Entry) []*Entry) {
	w.mu.Lock()
	defer w.mu.Unlock()
	list := f(slices.Clone(*w.entries.Load()))
	w.entries.Store(&list)
}

// Appoint gives the role to a worker that has not begun; nil is nobody.
func (e *Entry) Appoint(h *Worker) {
	if h != nil {
		h.watch = e.watch
	}
	e.worker.Store(h)
	if h != nil && e.watch.asleep.Load() {
		e.watch.rouse()
	}
}

// Close ends the watch. No owner is called any more.
func (w *Watch) Close() {
	close(w.stop)
	<-w.done
}

// rouse wakes it.
func (w *Watch) rouse() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

func (w *Watch) run() {
	defer close(w.done)
	ticker := time.NewTicker(w.tick)
	defer ticker.Stop()
	for quiet := 0; ; {
		select {
		case <-ticker.C:
		case <-w.stop:
			return
		}
		quiet++
		if w.look() {
			quiet = 0
		}
		if quiet < quietTicks {
			continue
		}
		// needed sees a call that began before the flag was set. A call that begins afterwards
		// sees the flag.
		w.asleep.Store(true)
		if !w.needed() {
			ticker.Stop()
			select {
			case <-w.wake:
			case <-w.stop:
				return
			}
			ticker.Reset(w.tick)
		}
		w.asleep.Store(false)
		quiet = 0
	}
}

// look tells the owners what their workers do. It reports whether another look is needed.
func (w *Watch) look() (again bool) {
	blocked := sync.OnceValue(w.blocked)
	for _, e := range *w.entries.Load() {
		if e.look(blocked) {
			again = true
		}
	}
	return again
}

func (e *Entry) look(blocked func() bool) (again bool) {
	h := e.worker.Load()
	if h == nil {
		e.seen = nil
		return false
	}
	call := h.Call()
	e.looks++
	if h != e.seen || call != e.last {
		e.seen, e.last, e.looks = h, call, 0
	}
	if !call.Inside() {
		return e.owner.Idle(e.looks)
	}
	if e.looks >= tooManyLooks {
		e.owner.TooLong(call, func() bool { return e.looks >= unconfirmedLooks || blocked() })
	}
	return true
}

// needed reports whether a worker is in a call, or an owner waits for a look.
func (w *Watch) needed() bool {
	return slices.ContainsFunc(*w.entries.Load(), func(e *Entry) bool {
		h := e.worker.Load()
		return h != nil && (h.Call().Inside() || e.owner.Idle(0))
	})
}
