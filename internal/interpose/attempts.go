package interpose

import (
	"sync/atomic"
	"time"
)

// attempts bounds how many of the engine's threads one address space can hold up.
// The engine has spares for some that are stuck, but one program with many queue
// pairs could use them all up. So a space in which several accesses are stuck
// refuses more, which is a protection error to the queue pair that needed one,
// until some come back.
type attempts struct {
	since [8]atomic.Int64 // when an access began; 0 if there is none
}

const (
	maxStuck   = 4
	stuckAfter = int64(200 * time.Millisecond) // a busy machine is no reason
	noTicket   = -1                            // more at once than are counted
)

// begin allows an access or refuses it. What it returns is for end.
func (a *attempts) begin() (ticket int, ok bool) {
	now, free, stuck := nanotime(), noTicket, 0
	for i := range a.since {
		switch since := a.since[i].Load(); {
		case since == 0:
			free = i
		case now-since > stuckAfter:
			stuck++
		}
	}
	if stuck >= maxStuck {
		return noTicket, false
	}
	if free != noTicket && a.since[free].CompareAndSwap(0, now|1) {
		return free, true
	}
	return noTicket, true
}

func (a *attempts) end(ticket int) {
	if ticket != noTicket {
		a.since[ticket].Store(0)
	}
}
