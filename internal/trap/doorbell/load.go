package doorbell

import (
	"runtime"

	"github.com/gorxe/gorxe/internal/sched"
	"github.com/gorxe/gorxe/internal/sys/clock"
	"github.com/gorxe/gorxe/internal/sys/procfs"
)

// Load is what Place and Contention ask of the machine. Tests have another one.
type Load struct {
	Ready func() (threads int, ok bool) // that run or are ready to, the caller among them
	Delay func() (ns int64, ok bool)    // how long the calling thread was ready so far, and did not run
}

// SystemLoad is the Load of this machine.
var SystemLoad = &Load{Ready: procfs.Ready, Delay: sched.Delay}

// Contention says whether many threads of the machine want its processors. Then a thread should not come before
// others: daemons of several users would take the machine together, and none knows of the others.
//
// The zero value never reports contention. One thread uses it.
type Contention struct {
	Load *Load

	high bool
	next int64 // when to ask again, clock.Now
}

// High reports whether more than two threads for each processor are ready.
func (c *Contention) High() bool {
	if c.Load == nil {
		return false
	}
	if now := clock.Now(); now >= c.next {
		ready, ok := c.Load.Ready()
		c.high, c.next = !ok || ready > readyEach*runtime.NumCPU(), now+readyFor
	}
	return c.high
}
