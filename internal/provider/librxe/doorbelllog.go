package librxe

import (
	"sync"
	"sync/atomic"
)

// doorbellLog is the part of an arena's file that doorbells are written to.
type doorbellLog struct {
	used  atomic.Bool
	sweep atomic.Int32 // sweepNone, or what is under way

	mu    sync.Mutex // held while a thread punches; no thread does after end
	ended bool
}

const (
	sweepNone = iota
	sweepOnce
	sweepAgain // clear what was written meanwhile, too
)

// clean clears the log in the background, because the program can hold the file's lock
// (arena). One thread at a time does so.
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

// clear punches the log out. Where the program writes at that moment it loses
// nothing that is ever read.
func (l *doorbellLog) clear(a *arena) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.used.Load() && !l.ended {
		a.punch(arenaSize, arenaEnd-arenaSize)
	}
}

// end clears the log for the last time: the file is about to be closed.
func (l *doorbellLog) end(a *arena) {
	l.clear(a)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = true
}
