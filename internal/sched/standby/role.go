package standby

import (
	"sync"
	"sync/atomic"
	"time"
)

// Role is work that one goroutine at a time does.
type Role struct {
	entry *Entry
	most  int
	run   func(*Worker)
	alive atomic.Int32 // workers whose run has not returned, blocked ones too

	mu      sync.Mutex
	stopped bool
	worker  *Worker
	done    chan struct{} // closed when that ends
}

// Start calls run in a goroutine, and in another one whenever that is blocked. At most most
// goroutines are in run at a time; beyond that the work waits until one returns. run does
// the work until its owner ends it, or until [Worker.Leave] reports false.
func (w *Watch) Start(most int, run func(*Worker)) *Role {
	r := &Role{most: most, run: run}
	r.entry = w.Add(r)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.appoint()
	return r
}

// appoint starts a new worker; r.mu is held.
func (r *Role) appoint() {
	h, done := new(Worker), make(chan struct{})
	r.worker, r.done = h, done
	r.alive.Add(1)
	r.entry.Appoint(h)
	go func() {
		defer close(done)
		defer r.alive.Add(-1)
		r.run(h)
	}()
}

// TooLong implements [Owner].
func (r *Role) TooLong(c Call, sure func() bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.stopped && int(r.alive.Load()) < r.most && sure() && r.worker.Replace(c) {
		r.appoint()
	}
}

// Idle implements [Owner].
func (r *Role) Idle(int) (again bool) { return false }

// Alive returns how many goroutines are in run: one, and the blocked ones.
func (r *Role) Alive() int { return int(r.alive.Load()) }

// Stop waits until the worker's run has returned, which the caller must have told it to
// do. It reports false after timeout. A call then blocks the worker, and Stop abandons it
// like the workers that were blocked before. run is not called again.
func (r *Role) Stop(timeout time.Duration) bool {
	r.entry.Remove()
	r.mu.Lock()
	r.stopped = true
	h, done := r.worker, r.done
	r.mu.Unlock()
	select {
	case <-done:
		return true
	default:
	}
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case <-done:
		return true
	case <-timer.C:
		// it finds out when the call returns; outside of calls, its run ends now
		h.Replace(h.Call())
		return false
	}
}
