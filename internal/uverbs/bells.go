package uverbs

import (
	"math"
	"sync"
	"sync/atomic"
)

// A doorbell is a write() of 32 bytes to the device's file. Where such a call is not
// trapped the kernel carries it out on the memfd, behind the queues, where it
// disturbs nobody; whoever serves the program hears of it through inotify, and calls
// Ring. What was written is not looked at: the queues themselves say what is new.
//
// The program is told nothing: a doorbell for a queue pair in the wrong state, which
// rdma_rxe refuses with EINVAL, succeeds, as with devices whose doorbell is a store
// to a register.

// BellOffset is where the program's description of the file must stand for that.
func (f *File) BellOffset() int64 { return arenaSize }

// ringShare is how much Ring does before it returns: the bytes of messages, where
// each counts as ringEach at least. It takes microseconds, and in an emulated machine
// some milliseconds: less than what a watchdog takes for being stuck.
const (
	ringShare = 256 << 10
	ringEach  = 1 << 10

	noShare = math.MaxInt // for what is bounded otherwise
)

// Ring takes what is new in the send queues to the engine, or some of it: more says
// that it should be called again. It may take as long as the engine's accesses to
// the memory of programs.
func (f *File) Ring() (more bool) {
	if !f.enterBell() {
		return false
	}
	defer f.uncount()
	slots := f.objects.slots.Load()
	if slots == nil || f.dev.gone.Load() {
		return false
	}
	// Each call begins behind the queue that the one before ended with.
	first, n, share := f.bellAt.Load(), uint32(len(*slots)), ringShare
	for i := range n {
		at := (first + i) % n
		o := (*slots)[at].Load()
		if o == nil {
			continue
		}
		r := o.bell.Load()
		if r == nil || !r.send.waits() {
			continue
		}
		for left := true; left; {
			var done int
			done, left = r.send.look(r.qp, r, share)
			if share -= max(done, ringEach); share <= 0 {
				f.bellAt.Store(at + 1)
				return true
			}
		}
	}
	return false
}

// enterBell begins a call that has no caller; false while the file goes away.
func (f *File) enterBell() bool {
	f.gate.Lock()
	defer f.gate.Unlock()
	if f.gate.closed || f.gate.pending || f.gate.running {
		return false
	}
	f.gate.calls++
	return true
}

// Sweep gives back the memory that doorbells have filled since the last time. It
// waits for nothing.
func (f *File) Sweep() { f.arena.bells.clean(f.arena) }

// bellLog is the part of an arena's file that doorbells are written to.
type bellLog struct {
	used  atomic.Bool
	sweep atomic.Int32 // sweepNone, or what is under way

	mu    sync.Mutex // held by who punches; after end nobody does
	ended bool
}

const (
	sweepNone = iota
	sweepOnce
	sweepAgain // what was written meanwhile is to go too
)

// clean clears the log aside, for the program can hold the file's lock (arena), and
// one thread has to do for that.
func (l *bellLog) clean(a *arena) {
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
func (l *bellLog) clear(a *arena) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.used.Load() && !l.ended {
		a.punch(arenaSize, arenaEnd-arenaSize)
	}
}

// end clears the log for the last time: the file is about to be closed.
func (l *bellLog) end(a *arena) {
	l.clear(a)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = true
}
