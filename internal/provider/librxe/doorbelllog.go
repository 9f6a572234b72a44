package librxe

import (
	"sync"
	"sync/atomic"

	"github.com/gorxe/gorxe/internal/provider"
)

// doorbellLog is the part of an arena's file to which direct doorbells are written.
type doorbellLog struct {
	used  atomic.Bool
	sweep atomic.Int32 // sweepNone, or the state of a sweep

	mu    sync.Mutex // held while the log is punched out
	ended bool
}

const (
	sweepNone = iota
	sweepOnce
	sweepAgain // sweep once more, for what was written meanwhile
)

// clean clears the log in one thread of the budget, because the program can hold the
// file's lock (arena).
func (l *doorbellLog) clean(a *arena) {
	l.used.Store(true)
	if l.sweep.Swap(sweepAgain) != sweepNone {
		return
	}
	a.budget.Background(func() {
		for l.sweep.Store(sweepOnce); ; l.sweep.Store(sweepOnce) {
			l.clear(a)
			if l.sweep.CompareAndSwap(sweepOnce, sweepNone) {
				return
			}
		}
	})
}

// clear punches the log out. Nobody reads what the program writes there.
func (l *doorbellLog) clear(a *arena) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.used.Load() && !l.ended {
		a.punch(provider.OffsetsEnd, arenaEnd-provider.OffsetsEnd)
	}
}

// end clears the log for the last time. The file will be closed.
func (l *doorbellLog) end(a *arena) {
	l.clear(a)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = true
}
