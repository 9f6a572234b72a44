package trap

import (
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/trap/filter"
	"github.com/gorxe/gorxe/internal/trap/procfs"
	"github.com/gorxe/gorxe/internal/trap/procmem"
)

// freeFor finds a number for a descriptor of o.
func (r *receiver) freeFor(o *object) (uint32, bool) {
	if o.polled == nil || o.socket != nil { // every call on a socket is trapped
		return r.freeFD(o.numbers(r.s.cfg.FDs), r.unused)
	}
	last := new(atomic.Uint32)
	if owner, err := r.caller.owner(); err == nil {
		last = &owner.lastPolled
	}
	return r.freeAfter(last, r.s.cfg.FDs.Pollable())
}

// freeForOwn finds a number for a descriptor that the program reads without the trap: a
// completion channel. If ok is false, the kernel should choose: it takes the lowest free
// number. But rsockets open a pollable file and a completion channel for each connection. When
// the low numbers are used up, the kernel's choice would leave no room for the former.
func (r *receiver) freeForOwn() (fd uint32, ok bool) {
	fds := r.s.cfg.FDs
	owner, err := r.caller.owner()
	if err != nil || owner.lastPolled.Load() == 0 || r.unused(int32(fds.Pollable().Base)-1) {
		return 0, false
	}
	return r.freeAfter(&owner.lastOwn, fds.Files(), fds.Spare())
}

// freeAfter finds a number that the caller does not use. It goes through each range from the
// top, because the kernel gives away the lowest numbers first. It begins after the last number
// that it found, because a program may have hundreds.
func (r *receiver) freeAfter(last *atomic.Uint32, in ...filter.Range) (uint32, bool) {
	total := uint32(0)
	for _, part := range in {
		total += part.Count
	}
	next := last.Load()
	for i := range total {
		n := (next + i) % total
		if fd := fromTop(in, n); r.unused(int32(fd)) {
			last.Store(n + 1)
			return fd, true
		}
	}
	return 0, false
}

// fromTop returns number n of the ranges, each of which is counted from its top.
func fromTop(in []filter.Range, n uint32) uint32 {
	for _, part := range in {
		if n < part.Count {
			return part.Base + part.Count - 1 - n
		}
		n -= part.Count
	}
	panic("no such number")
}

// freeFD finds a number of the ranges that the caller does not use. A number that
// is in use would be replaced silently, so this looks; a thread that uses dup2 to
// the same number at this moment is not seen.
func (r *receiver) freeFD(in []filter.Range, unused func(fd int32) bool) (uint32, bool) {
	for _, part := range in {
		for n := range part.Count {
			if fd := part.Base + n; unused(int32(fd)) {
				return fd, true
			}
		}
	}
	return 0, false
}

func (r *receiver) unused(fd int32) bool {
	_, err := procfs.Readlink(r.procFD(fd))
	if procmem.Forbidden(err) {
		_, err = r.keptID(fd, err)
	}
	return err == unix.ENOENT || err == unix.EBADF
}
