package uverbs

import "github.com/gorxe/gorxe/internal/provider"

// A doorbell is a write() of 32 bytes to the device's file. Where such a call is not
// trapped the kernel carries it out on the memfd, behind the queues, where it
// disturbs nobody; whoever serves the program hears of it through inotify, and calls
// Ring. What was written is not looked at: the queues themselves say what is new.
//
// The program is told nothing: a doorbell for a queue pair in the wrong state, which
// rdma_rxe refuses with EINVAL, succeeds, as with devices whose doorbell is a store
// to a register.

// DoorbellOffset returns where the program's description of the file must stand for that.
func (f *File) DoorbellOffset() int64 { return f.ctx.DoorbellOffset() }

// TakeDoorbells takes what is new in the send queues to the engine, or some of it: more says
// that it should be called again. It may take as long as the engine's accesses to
// the memory of programs.
func (f *File) TakeDoorbells() (more bool) {
	if !f.enterDoorbell() {
		return false
	}
	defer f.uncount()
	slots := f.objects.slots.Load()
	if slots == nil || f.dev.gone.Load() {
		return false
	}
	// Each call begins behind the queue that the one before ended with.
	first, n, share := f.doorbellAt.Load(), uint32(len(*slots)), provider.Share
	for i := range n {
		at := (first + i) % n
		o := (*slots)[at].Load()
		if o == nil {
			continue
		}
		r := o.doorbell.Load()
		if r == nil || !r.mem.Pending() {
			continue
		}
		for left := true; left; {
			var done int
			done, left = r.mem.Take(share)
			if share -= max(done, provider.ShareEach); share <= 0 {
				f.doorbellAt.Store(at + 1)
				return true
			}
		}
	}
	return false
}

// enterDoorbell begins a call that has no caller; false while the file goes away.
func (f *File) enterDoorbell() bool {
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
func (f *File) Sweep() { f.ctx.Sweep() }
