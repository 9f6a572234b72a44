package sched

import (
	"time"

	"github.com/gorxe/gorxe/internal/sys/clock"
)

// Arrivals decides how a reader waits for packets: in Go's poller, or, while many come, in a thread
// of its own. A packet wakes such a thread, and nothing else. The zero value is ready. It has no
// clock.
//
//	state    becomes
//	polled   threaded, when busyBatches batches came within busyTime (Busy)
//	threaded polled, when no packet came for a while (rocev2: idleTime)
type Arrivals struct {
	batches int
	first   time.Duration
}

// Busy is called for each batch while the poller waits. It reports whether the reader should have a
// thread.
func (a *Arrivals) Busy(at time.Duration) bool {
	if a.batches == 0 {
		a.first = at
	}
	if a.batches++; a.batches < busyBatches {
		return false
	}
	a.batches = 0
	return at-a.first < busyTime
}

// ForPackets reports whether a thread that waits for packets wants the class: unless there are
// processors to spare (Room).
func (c *Class) ForPackets() bool {
	if c == nil || c.processors <= pair || c.ready == nil {
		return c != nil
	}
	at := clock.Now()
	next := c.askNext.Load()
	if at >= next && c.askNext.CompareAndSwap(next, at+int64(readyFor)) {
		ready, known := c.ready()
		c.spare.Store(!packetsInClass(c.processors, ready, known))
	}
	return !c.spare.Load()
}
