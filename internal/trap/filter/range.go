package filter

import (
	"fmt"

	"github.com/gorxe/gorxe/internal/nofile"
)

// Range is where gorxe keeps its descriptors in the program: Base to Base+Count-1.
type Range struct {
	Base, Count uint32
}

// The range lies just below the soft limit of open files, because the kernel refuses
// higher numbers. It does not lie above 4096: programs that close everything up to
// the limit are trapped for each close, and select(2) cannot take such numbers.
const (
	maxTop   = 4096
	maxCount = 160
	leastTop = 32 // a lower limit leaves too few descriptors for a device
	shareOf  = 4  // the range takes a quarter of a low limit
	directOf = 5  // a fifth of the range is for direct doorbells

	// deviceRoom is how many numbers of the range are for devices only.
	deviceRoom = 8

	// maxPollable is how many pollable files a process may have. librdmacm opens one for
	// each connection of its synchronous interface.
	maxPollable = 1024
)

// For returns the range for a program whose soft RLIMIT_NOFILE is limit.
func For(limit uint64) (Range, error) {
	if limit < leastTop {
		return Range{}, fmt.Errorf("the limit of open files (RLIMIT_NOFILE) is %d; "+
			"a program with an RDMA device needs %d or more: raise it with ulimit -n", limit, leastTop)
	}
	top := uint32(min(limit, maxTop))
	count := min(top/shareOf, maxCount)
	return Range{Base: top - count, Count: count}, nil
}

// Own returns the range for the limit that this process was started with. A program
// that it executes has the same limit. (Getrlimit shows another one: package syscall
// raises it.)
func Own() (Range, error) { return For(nofile.Soft()) }

// Check refuses a range that For does not make.
func (r Range) Check() error {
	if r.Count == 0 || r.Count > maxCount || r.Base > maxTop-r.Count {
		return fmt.Errorf("%d descriptors from %d on are not the range of a filter", r.Count, r.Base)
	}
	return nil
}

// Contains reports whether fd lies in the range.
func (r Range) Contains(fd uint32) bool { return fd-r.Base < r.Count }

// Files is the range below r, for files of the tree that the program opened for
// reading. They are memfds, which the kernel reads. Only the calls that ask for their
// status are trapped: fstat must agree with stat of the path.
func (r Range) Files() Range {
	count := min(r.Count, r.Base)
	return Range{Base: r.Base - count, Count: count}
}

// Pollable is the range below Files, for files whose descriptors are pipes or sockets.
// The program polls them without a trap. Calls that would read from them or write to
// them are trapped, and so are those that copy the descriptor. The lowest quarter of the
// numbers below Files stays free: the kernel gives those to the program's own files.
func (r Range) Pollable() Range {
	top := r.Files().Base
	count := min(top-top/4, maxPollable)
	return Range{Base: top - count, Count: count}
}

// Ours reports whether the trap answers the calls on fd: it lies in r or in Pollable.
func (r Range) Ours(fd uint32) bool { return r.Contains(fd) || r.Pollable().Contains(fd) }

// Doorbells is the part of r for devices with direct doorbells.
func (r Range) Doorbells() Range {
	count := r.Count / directOf
	return Range{Base: r.Base + r.Count - count, Count: count}
}

// Trapped is the other part of r: every write there is trapped.
func (r Range) Trapped() Range {
	return Range{Base: r.Base, Count: r.Count - r.Doorbells().Count}
}

// Spare is the part of r where completion channels may be if a program has hundreds. There,
// a read of them is trapped. The numbers below it are for devices.
func (r Range) Spare() Range {
	kept := min(r.Count, deviceRoom)
	return Range{Base: r.Base + kept, Count: r.Count - kept}
}
