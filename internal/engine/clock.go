package engine

import (
	"math"
	"sync/atomic"
	"time"

	"github.com/gorxe/gorxe/internal/standby"
	"github.com/gorxe/gorxe/rxe"
)

// What is due when a deadline passes may be caught: it may write to the memory of
// a program that does not answer. As rocev2 does for packets.
const (
	expireLimit = 20 * time.Millisecond
	maxExpirers = 128
	// clockCloseTimeout is how long close waits for one of them.
	clockCloseTimeout = time.Second
)

// clock is the engine's clock: monotonic time since it was made, and one
// goroutine at a time that waits for the deadline that Arm gave last.
type clock struct {
	start    time.Time
	deadline atomic.Int64 // the next one
	sleeping atomic.Int64 // what the goroutine sleeps for
	poke     chan struct{}
	stop     chan struct{}
	watch    *standby.Watch
	role     *standby.Role
}

const never = math.MaxInt64

// newClock starts no goroutine: run does, once there is something to expire.
func newClock() *clock {
	c := &clock{start: time.Now(), poke: make(chan struct{}, 1), stop: make(chan struct{})}
	c.deadline.Store(never)
	c.sleeping.Store(never)
	return c
}

// Now is the time since the clock was made. It is never 0, which the engine
// takes for "no time".
func (c *clock) Now() rxe.Time { return rxe.Time(time.Since(c.start)) + 1 }

// Arm sets the deadline. The goroutine is woken only for an earlier one than it
// sleeps for: it looks again whenever it wakes.
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
	c.watch = standby.NewWatch(expireLimit)
	c.role = c.watch.Start(maxExpirers, func(h *standby.Worker) { c.wait(h, expire) })
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

// passed tells whether the deadline has passed, and forgets it if so: expire arms
// the next one.
func (c *clock) passed() bool {
	due := c.deadline.Load()
	return due <= int64(c.Now()) && c.deadline.CompareAndSwap(due, never)
}

// close ends run. It returns when the last call of expire has, or reports false
// when that has not within patience: then it is caught.
func (c *clock) close() bool {
	close(c.stop)
	if c.role == nil {
		return true
	}
	ended := c.role.Stop(clockCloseTimeout)
	c.watch.Close()
	return ended
}
