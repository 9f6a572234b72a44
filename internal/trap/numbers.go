package trap

import (
	"bufio"
	"math"
	"os"
	"strconv"
	"strings"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/sys/procfs"
	"github.com/gorxe/gorxe/internal/trap/filter"
	"github.com/gorxe/gorxe/internal/trap/procmem"
)

// noEnd is the end of numbers for a program whose limit of open files is not known.
const noEnd = math.MaxInt32

// bounds are what the number of a descriptor has to lie between.
type bounds struct {
	from uint32 // the argument of F_DUPFD
	end  uint32 // the program's limit of open files
}

func (b bounds) contain(fd uint32) bool { return fd >= b.from && fd < b.end }

// freeFor finds a number for a descriptor of o. Programs call select(2) with those of pollable
// files, and it takes none from 1024 on. So these have the upper range only if the lower one is
// full. Devices and directories, with which nobody calls select, take the upper one first.
func (r *receiver) freeFor(o *object, b bounds) (uint32, bool) {
	fds := r.s.cfg.FDs
	if o.pace != nil {
		if owner, err := r.caller.owner(); err == nil {
			fits := func(n uint32) bool { return fds.Devices().Contains(n) && b.contain(n) }
			if fd, ok := r.spare(owner, fits); ok {
				return fd, true
			}
		}
	}
	if o.socket != nil { // every call on a socket is trapped
		return r.freeFD(o.numbers(fds), b, r.unused)
	}
	if o.polled == nil {
		if fd, ok := r.freeFD(o.numbers(fds), b, r.unused); ok {
			return fd, true
		}
	}
	polled, over := new(atomic.Uint32), new(atomic.Uint32)
	if owner, err := r.caller.owner(); err == nil {
		polled, over = &owner.lastPolled, &owner.lastOver
	}
	if o.polled == nil {
		if fd, ok := r.freeAfter(over, b, fds.Overflow()); ok {
			return fd, true
		}
	}
	if fd, ok := r.freeAfter(polled, b, fds.Pollable()); ok || o.polled == nil {
		return fd, ok
	}
	return r.freeAfter(over, b, fds.Overflow())
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
	return r.freeAfter(&owner.lastOwn, bounds{end: noEnd}, fds.Files(), fds.Spare())
}

// freeAfter finds a number that the caller does not use. It goes through each range from the
// top, because the kernel gives away the lowest numbers first. It begins after the last number
// that it found, because a program may have hundreds.
func (r *receiver) freeAfter(last *atomic.Uint32, b bounds, in ...filter.Range) (uint32, bool) {
	total := uint32(0)
	for _, part := range in {
		total += part.Count
	}
	next := last.Load()
	for i := range total {
		n := (next + i) % total
		if fd := fromTop(in, n); b.contain(fd) && r.unused(int32(fd)) {
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
func (r *receiver) freeFD(in []filter.Range, b bounds, unused func(fd int32) bool) (uint32, bool) {
	for _, part := range in {
		for n := range part.Count {
			if fd := part.Base + n; b.contain(fd) && unused(int32(fd)) {
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

// openLimit returns the caller's soft limit of open files, which it may have changed since it
// was started.
func (r *receiver) openLimit() uint32 {
	f, err := os.Open(procfs.Path(r.thread(), "limits"))
	if err != nil {
		return noEnd
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if rest, ok := strings.CutPrefix(lines.Text(), "Max open files"); ok {
			if fields := strings.Fields(rest); len(fields) > 0 {
				if n, err := strconv.ParseUint(fields[0], 10, 31); err == nil {
					return uint32(n)
				}
			}
		}
	}
	return noEnd // "unlimited"
}
