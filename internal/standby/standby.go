// Package standby keeps work going whose goroutine may be caught in a call that
// never returns: a copy to another process's memory waits for that process's
// userfaultfd handler or FUSE server, for ever if it likes, and no signal or
// deadline ends it. The thread is lost as long as that lasts; the work must not
// be.
//
// A [Role] is work that one goroutine at a time does, its [Holder]. The holder
// says when it begins and ends a call that may catch it. A [Watch] looks at all
// its roles every now and then, and when a call takes too long it starts another
// holder in the caught one's place. The caught one learns of it when its call
// returns, and ends.
//
// A call may also take long because its thread waits for a processor. A second
// holder would only overtake it then; so the watch looks at the process's threads
// first, and while none of them waits for memory it has more patience.
//
// What it costs: two atomic operations per call, no clock reading and no system
// call; the watch sleeps while no calls are made.
package standby

import (
	"sync"
	"sync/atomic"
	"time"
)

// Watch looks after roles. It must be closed.
type Watch struct {
	tick    time.Duration
	blocked func() bool  // whether any call may be caught
	now     atomic.Int64 // ticks so far, from 1
	asleep  atomic.Bool
	wake    chan struct{}
	stop    chan struct{}
	done    chan struct{}

	mu    sync.Mutex
	roles map[*Role]struct{}
}

const (
	// A call that began in one tick is too long in the third after it, so that it
	// has taken two whole ticks.
	tooManyTicks = 3
	// UnconfirmedFactor is how many times longer a call may take while nothing says that it is
	// caught: what catches it may be something that the threads do not show.
	UnconfirmedFactor = 10
	// After so many ticks in which no call was seen, the watch sleeps.
	quietTicks = 16
)

// NewWatch starts a watch that replaces the holder of a role when a call has
// taken between limit and one and a half times that and a thread of the process
// waits for memory, or when it has taken [Doubt] times as long.
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

// Close ends the watch, whose roles must have been stopped.
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
		// A call that began before the flag was up is seen by this look, one
		// that begins afterwards sees the flag.
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

// look replaces the holders that are caught. It reports whether any holder is in
// a call.
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

	alive  atomic.Int32 // holders whose run has not returned, caught ones too
	worker *Worker      // under watch.mu
}

// Worker is the goroutine that does the work of a role, until it is caught.
type Worker struct {
	watch *Watch
	since atomic.Int64 // the tick in which the call began, or one of these:
	done  chan struct{}
}

const (
	outside  = 0  // of a call
	replaced = -1 // another one holds the role
)

// Start calls run in a goroutine, and in another one whenever that is caught;
// but no more than most goroutines are in run at a time: past that the work waits
// until one comes back. run does the work until it is told to end by means of its
// own, or until [Holder.Leave] says so.
func (w *Watch) Start(most int, run func(*Worker)) *Role {
	r := &Role{watch: w, most: most, run: run}
	w.mu.Lock()
	defer w.mu.Unlock()
	r.appoint()
	w.roles[r] = struct{}{}
	return r
}

// appoint starts a new holder. The caller holds watch.mu.
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

// Enter says that a call begins which may catch the holder. The watch may start
// another holder from here on; what that one reads of what this one wrote before
// Enter is in order.
func (h *Worker) Enter() {
	h.since.Store(h.watch.now.Load())
	if h.watch.asleep.Load() {
		select {
		case h.watch.wake <- struct{}{}:
		default:
		}
	}
}

// Leave says that the call has returned. If it reports false, the role has
// another holder: run must return, and touch nothing of the role's.
func (h *Worker) Leave() bool {
	return h.since.Swap(outside) != replaced
}

// Alive is how many goroutines are in run: one, and those that are caught.
func (r *Role) Alive() int { return int(r.alive.Load()) }

// Stop waits until the holder's run has returned, which the caller has told it
// to do. It reports false if that took longer than patience: then the holder is
// caught in a call, and left to itself, as are those that were caught before. run
// is not called again.
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
		// Inside a call it will find out; if it is not, its run is about to end.
		if since := h.since.Load(); since != outside {
			h.since.CompareAndSwap(since, replaced)
		}
		return false
	}
}
