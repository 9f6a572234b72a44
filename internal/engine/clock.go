package engine

import (
	"math"
	"sync/atomic"
	"time"

	"github.com/gorxe/gorxe/internal/sched/standby"
	"github.com/gorxe/gorxe/rxe"
)

// clock is the engine's clock. It has monotonic time since its creation. One goroutine at a
// time waits for the deadline that Arm set last.
type clock struct {
	start    time.Time
	deadline atomic.Int64 // the next one
	sleeping atomic.Int64 // the deadline that the goroutine sleeps for
	poke     chan struct{}
	stop     chan struct{}
	watch    *standby.Watch
	role     *standby.Role
}

const never = math.MaxInt64

// newClock starts no goroutine; run does.
func newClock() *clock {
	c := &clock{start: time.Now(), poke: make(chan struct{}, 1), stop: make(chan struct{})}
	c.deadline.Store(never)
	c.sleeping.Store(never)
	return c
}

// Now returns the time since the clock was made. It is never 0, which means "no time" to
// the engine.
func (c *clock) Now() rxe.Time { return rxe.Time(time.Since(c.start)) + 1 }

// Arm sets the deadline. It wakes the goroutine only for an earlier deadline than the one
// that it sleeps for, because the goroutine looks again whenever it wakes.
func (c *clock) Arm(deadline rxe.Time) {
	c.deadline.Store(int64(deadline))
	if int64(deadline) < c.sleeping.Load() {
		select {
		case c.poke <- struct{}{}:
		default:
		}
	}
}

// run calls expire at each deadline until close.
func (c *clock) run(expire func()) {
	c.watch = standby.NewWatch(standby.CallLimit)
	c.role = c.watch.Start(standby.MaxBlocked, func(h *standby.Worker) { c.wait(h, expire) })
}

// wait calls expire at each deadline until close, or until another goroutine
// does.
func (c *clock) wait(h *standby.Worker, expire func()) {
	timer := time.NewTimer(never)
	defer timer.Stop()
	for {
		next := c.deadline.Load()
		c.sleeping.Store(next)
		// An Arm between the two lines above saw the old value: look again.
		if c.deadline.Load() < next {
			continue
		}
		timer.Reset(time.Duration(next - int64(c.Now())))
		select {
		case <-timer.C:
			if c.passed() {
				h.Enter()
				expire()
				if !h.Leave() {
					return
				}
			}
		case <-c.poke:
		case <-c.stop:
			return
		}
	}
}

// passed reports whether the deadline has passed, and then clears it: expire arms the next
// one.
func (c *clock) passed() bool {
	due := c.deadline.Load()
	return due <= int64(c.Now()) && c.deadline.CompareAndSwap(due, never)
}

// close ends run, and waits for the last call of expire. It reports false if that call has
// not returned within clockCloseTimeout, because program memory blocks it.
func (c *clock) close() bool {
	close(c.stop)
	if c.role == nil {
		return true
	}
	ended := c.role.Stop(clockCloseTimeout)
	c.watch.Close()
	return ended
}
