package doorbell

import (
	"sync/atomic"
	"time"

	"github.com/gorxe/gorxe/internal/trap/mono"
)

// Pace is how long trapped calls take: the shortest time between the answer to a
// thread and its next call. What the program does between the two is in it, but among
// the calls that come before a device is opened some follow each other at once. It is
// measured until then, or until it is known not to be slow. A receiver that was blocked,
// and is not alone for a moment, makes it a little wrong.
type Pace struct {
	settled atomic.Bool // it is no longer measured
	least   atomic.Int64
	calls   atomic.Int32
	last    atomic.Uint32 // the thread that was answered, 0 if that is not known
	at      atomic.Int64  // when
}

const (
	// slowCall is several times the time of a trapped call where processes are
	// switched fast, and a fraction of its time where an emulator switches them.
	slowCall = 30 * time.Microsecond
	// paceCalls are enough to have been undisturbed now and then. The loader and
	// libibverbs make more of them.
	paceCalls = 16
)

// Received notes a call of a thread.
func (p *Pace) Received(tid uint32) {
	if p.settled.Load() || tid != p.last.Load() {
		return
	}
	gap := mono.Now() - p.at.Load()
	if least := p.least.Load(); least == 0 || gap < least {
		p.least.Store(gap)
	}
	if p.calls.Add(1) >= paceCalls && p.least.Load() <= int64(slowCall) {
		p.settled.Store(true) // it will not be more
	}
}

// Answers notes that the thread's call is about to be answered, or 0 for one that was answered
// some time ago. The thread may then get the processor at once. This thread gets it back when
// that one makes its next call.
func (p *Pace) Answers(tid uint32) {
	if p.settled.Load() {
		return
	}
	p.last.Store(tid)
	if tid != 0 {
		p.at.Store(mono.Now())
	}
}

// Least returns the shortest time that was measured.
func (p *Pace) Least() time.Duration { return time.Duration(p.least.Load()) }

// Slow reports whether trapped calls are slow. From then on they are not measured.
func (p *Pace) Slow() bool {
	p.settled.Store(true)
	return p.calls.Load() >= paceCalls && p.least.Load() > int64(slowCall)
}
