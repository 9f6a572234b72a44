package uverbs

import (
	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/kernel"
	"github.com/gorxe/gorxe/internal/provider"
)

// A doorbell is a write() of 32 bytes to the device's file. If such a call is not trapped,
// the kernel writes the bytes to the memfd, behind the queues, where they do no harm.
// inotify tells the trap, which calls TakeDoorbells. The bytes do not matter: the queues
// say what is new.
//
// The program gets no errno. A doorbell for a queue pair in the wrong state succeeds,
// where rdma_rxe refuses it with EINVAL. Devices whose doorbell is a store to a register
// behave in the same way.

// DoorbellOffset implements kernel.DoorbellFile.
func (f *File) DoorbellOffset() int64 { return f.ctx.DoorbellOffset() }

// Belled implements kernel.DoorbellFile.
func (f *File) Belled(b kernel.DoorbellKind) { f.belled.Store(&b) }

// doorbellKind returns how the program's doorbells reach the device.
func (f *File) doorbellKind() kernel.DoorbellKind {
	if r, ok := f.ctx.(provider.Rung); ok {
		if err := r.Woken(); err != nil {
			return kernel.DoorbellKind{How: kernel.DoorbellPolled, Why: err.Error()}
		}
		return kernel.DoorbellKind{How: kernel.DoorbellWoken}
	}
	if b := f.belled.Load(); b != nil {
		return *b
	}
	return kernel.DoorbellKind{}
}

// Mappings implements kernel.DoorbellFile.
func (f *File) Mappings() (told uint64, pipe bool) {
	told, atOnce := f.ctx.Mappings()
	return told, atOnce && f.sends.Load()
}

// TakeDoorbells hands what is new in the send queues to the engine, or some of it. It blocks as
// long as the engine's accesses to the memory of programs.
func (f *File) TakeDoorbells(credited bool) (d kernel.Doorbells) {
	if !f.gate.enter() {
		return d
	}
	defer f.uncount()
	slots := f.live.slots.Load()
	if slots == nil || f.gone() {
		return d
	}
	// Each call begins after the queue at which the last one ended.
	first, n, share := f.live.at.Load(), uint32(len(*slots)), provider.Share
	for i := range n {
		at := (first + i) % n
		r := (*slots)[at].Load()
		if r == nil || !r.mem.Pending() {
			continue
		}
		for left := true; left; {
			taken, err := r.mem.Take(share, credited)
			if err != nil {
				f.refusedDoorbell()
			}
			left = taken.More
			d.Requests += taken.Requests
			d.NoCredit = d.NoCredit || taken.NoCredit
			if taken.Awaited {
				d.Awaited++
			}
			if share -= max(taken.Worth, provider.ShareEach); share <= 0 {
				f.live.at.Store(at + 1)
				d.More = true
				return d
			}
		}
	}
	return d
}

// refusedDoorbell reports a queue pair that cannot send. The program was not told.
func (f *File) refusedDoorbell() {
	if f.reports != nil {
		f.reports.Refused("post_send", errnoOf(errSilent), errSilent)
	}
}

var errSilent = kernel.Refuse(unix.EINVAL, "qp", "cannot send in its state, and a direct doorbell returns no error",
	"move it to RTS before posting")

// Sweep gives back the memory that doorbells have filled. It does not block.
func (f *File) Sweep() { f.ctx.Sweep() }
