// Package standby replaces goroutines that are blocked. A copy to another process's
// memory waits for that process's userfaultfd handler or FUSE server. The wait may never
// end, and no signal or deadline ends it. The thread is lost for that time, but its work
// must continue.
//
// A [Role] is work that one goroutine at a time does, its [Worker]. The worker marks the
// begin and the end of a call that may block it. A [Watch] examines all its roles
// regularly. When a call takes too long, the watch starts another worker. The blocked
// worker learns this when its call returns, and ends.
//
// A call may also take long because its thread waits for a processor. A second worker
// would only overtake it. So the watch first checks whether any thread of the process
// waits for memory. If none does, it waits [UnconfirmedFactor] times as long.
//
// The cost is two atomic operations per call. There is no clock reading and no system
// call, and the watch sleeps while no calls are made.
package standby

import (
	"sync"
	"sync/atomic"
	"time"
)

// Watch replaces the blocked workers of its roles. The owner must close it.
type Watch struct {
	tick    time.Duration
	blocked func() bool  // reports whether a thread waits for memory
	now     atomic.Int64 // ticks so far, from 1
	asleep  atomic.Bool
	wake    chan struct{}
	stop    chan struct{}
	done    chan struct{}

	mu    sync.Mutex
	roles map[*Role]struct{}
}

// NewWatch starts a watch. It replaces the worker of a role when a call has taken between
// limit and one and a half times limit, and a thread of the process waits for memory. If
// no thread does, the call may take [UnconfirmedFactor] times as long.
func NewWatch(limit time.Duration) *Watch { return newWatch(limit, memoryWaits) }

func newWatch(limit time.Duration, blocked func() bool) *Watch {
	w := &Watch{
		blocked: blocked,
		tick:    limit / (tooManyTicks - 1),
		wake:    make(chan struct{}, 1),
		stop:    make(chan struct{}),
		done:    make(chan struct{}),
		roles:   make(map[*Role]struct{}),
	}
	w.now.Store(1)
	go w.run()
	return w
}

// Close ends the watch. Its roles must have been stopped.
func (w *Watch) Close() {
	close(w.stop)
	<-w.done
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
		w.now.Add(1)
		quiet++
		if w.look() {
			quiet = 0
		}
		if quiet < quietTicks {
			continue
		}
		// The look below sees a call that began before the flag was set. A call that
		// begins afterwards sees the flag.
		w.asleep.Store(true)
		if !w.look() {
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

// look replaces the workers that are blocked. It reports whether any worker is in a call.
func (w *Watch) look() (calls bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.now.Load()
	blocked := sync.OnceValue(w.blocked)
	for r := range w.roles {
		since := r.worker.since.Load()
		if since == outside {
			continue
		}
		calls = true
		took := now - since
		if took < tooManyTicks || int(r.alive.Load()) >= r.most || took < UnconfirmedFactor*tooManyTicks && !blocked() {
			continue
		}
		if r.worker.since.CompareAndSwap(since, replaced) {
			r.appoint()
		}
	}
	return calls
}

// Role is work that one goroutine at a time does.
type Role struct {
	watch *Watch
	most  int
	run   func(*Worker)

	alive  atomic.Int32 // workers whose run has not returned, blocked ones too
	worker *Worker      // under watch.mu
}

// Worker is the goroutine that does the work of a role, until a call blocks it.
type Worker struct {
	watch *Watch
	since atomic.Int64 // the tick in which the call began, or one of these:
	done  chan struct{}
}

const (
	outside  = 0  // not in a call
	replaced = -1 // another worker has the role
)

// Start calls run in a goroutine, and in another one whenever that is blocked. At most most
// goroutines are in run at a time; beyond that the work waits until one returns. run does
// the work until its owner ends it, or until [Worker.Leave] reports false.
func (w *Watch) Start(most int, run func(*Worker)) *Role {
	r := &Role{watch: w, most: most, run: run}
	w.mu.Lock()
	defer w.mu.Unlock()
	r.appoint()
	w.roles[r] = struct{}{}
	return r
}

// appoint starts a new worker. The caller holds watch.mu.
func (r *Role) appoint() {
	h := &Worker{watch: r.watch, done: make(chan struct{})}
	r.worker = h
	r.alive.Add(1)
	go func() {
		defer close(h.done)
		defer r.alive.Add(-1)
		r.run(h)
	}()
}

// Enter marks the begin of a call that may block. From here on the watch may start another
// worker. That worker sees all that this one wrote before Enter.
func (h *Worker) Enter() {
	h.since.Store(h.watch.now.Load())
	if h.watch.asleep.Load() {
		select {
		case h.watch.wake <- struct{}{}:
		default:
		}
	}
}

// Leave marks the end of the call. If it reports false, the role has another worker: run
// must then return without touching the role's data.
func (h *Worker) Leave() bool {
	return h.since.Swap(outside) != replaced
}

// Alive returns how many goroutines are in run: one, and the blocked ones.
func (r *Role) Alive() int { return int(r.alive.Load()) }

// Stop waits until the worker's run has returned, which the caller must have told it to
// do. It reports false after timeout. A call then blocks the worker, and Stop abandons it
// like the workers that were blocked before. run is not called again.
func (r *Role) Stop(timeout time.Duration) bool {
	r.watch.mu.Lock()
	delete(r.watch.roles, r)
	h := r.worker
	r.watch.mu.Unlock()
	select {
	case <-h.done:
		return true
	default:
	}
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case <-h.done:
		return true
	case <-timer.C:
		// In a call, the worker finds out when the call returns. Otherwise its run ends now.
		if since := h.since.Load(); since != outside {
			h.since.CompareAndSwap(since, replaced)
		}
		return false
	}
}
