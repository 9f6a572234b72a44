package engine

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/gorxe/gorxe/internal/sched/standby"
	"github.com/gorxe/gorxe/rxe"
)

// Deadlines are kept while the goroutine that kept an earlier one is blocked.
func TestClockWhenExpireBlocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClock()
		kept := make(chan rxe.Time, 10)
		blocked := make(chan chan struct{}, 10)
		catch := true
		c.run(func() {
			kept <- c.Now()
			if catch {
				free := make(chan struct{})
				blocked <- free
				<-free
			}
		})
		c.Arm(c.Now() + rxe.Time(time.Second))
		<-kept
		free := <-blocked
		catch = false
		// armed by another goroutine, before and after a spare one took over
		for _, in := range []time.Duration{standby.CallLimit / 2, time.Second} {
			due := c.Now() + rxe.Time(in)
			c.Arm(due)
			if at := <-kept; at < due || at > due+2*standby.UnconfirmedFactor*rxe.Time(standby.CallLimit) {
				t.Errorf("due at %v, kept at %v", due, at)
			}
		}
		close(free)
		c.Arm(c.Now() + rxe.Time(time.Second))
		<-kept
		if !c.close() {
			t.Error("close left somebody behind")
		}
	})
}

func TestClockClosesWhileBlocked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClock()
		free, called := make(chan struct{}), make(chan struct{})
		c.run(func() { close(called); <-free })
		c.Arm(c.Now())
		<-called
		if c.close() {
			t.Error("close waited for a blocked call")
		}
		close(free)
	})
}
