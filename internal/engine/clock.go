package engine

import (
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gorxe/gorxe/rxe"
)

// clock is the engine's clock: monotonic time since it was made, and one
// goroutine that waits for the deadline that Arm gave last.
type clock struct {
	start    time.Time
	deadline atomic.Int64 // the next one
	sleeping atomic.Int64 // what the goroutine sleeps for
	poke     chan struct{}
	stop     chan struct{}
	wg       sync.WaitGroup
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
	c.wg.Go(func() {
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
				c.expireDue(expire)
			case <-c.poke:
			case <-c.stop:
				return
			}
		}
	})
}

// expireDue forgets the deadline before it calls expire, which arms the next.
func (c *clock) expireDue(expire func()) {
	due := c.deadline.Load()
	if due <= int64(c.Now()) && c.deadline.CompareAndSwap(due, never) {
		expire()
	}
}

func (c *clock) close() {
	close(c.stop)
	c.wg.Wait()
}
