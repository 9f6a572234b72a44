package filter

import (
	"fmt"

	"github.com/gorxe/gorxe/internal/sys/nofile"
)

// Range is where gorxe keeps its descriptors in the program: Base to Base+Count-1. Other
// ranges follow from it: Files and Pollable lie below it, and Overflow above.
type Range struct {
	Base, Count uint32
	Top         uint32 // the end of Overflow; 0: there is none
}

// For returns the range for a program whose RLIMIT_NOFILE is soft now, and may be raised to hard.
func For(soft, hard uint64) (Range, error) {
	if soft < leastTop {
		return Range{}, fmt.Errorf("the limit of open files (RLIMIT_NOFILE) is %d; "+
			"a program with an RDMA device needs %d or more: raise it with ulimit -n", soft, leastTop)
	}
	end := uint32(min(soft, selectTop))
	count := min(end/shareOf, maxCount)
	r := Range{Base: end - count, Count: count}
	// Many programs raise a low limit to the hard one, for example Java.
	if soft <= selectTop {
		soft = hard
	}
	if soft > selectTop {
		r.Top = uint32(min(soft, maxTop))
	}
	return r, nil
}

// Own returns the range for the limits that this process was started with. A program
// that it executes has the same limits. (Getrlimit shows another one: package syscall
// raises it.)
func Own() (Range, error) { return For(nofile.Soft(), nofile.Hard()) }

// Check refuses a range that For does not make.
func (r Range) Check() error {
	if r.Count == 0 || r.Count > maxCount || r.Base > selectTop-r.Count {
		return fmt.Errorf("%d descriptors from %d on are not the range of a filter", r.Count, r.Base)
	}
	if r.Top != 0 && (r.Top <= selectTop || r.Top > maxTop) {
		return fmt.Errorf("%d is not the end of a filter's descriptors", r.Top)
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
// numbers below Files (freeOf) stays free: the kernel gives those to the program's own files.
func (r Range) Pollable() Range {
	top := r.Files().Base
	count := min(top-top/freeOf, maxPollable)
	return Range{Base: top - count, Count: count}
}

// Overflow is a range for devices and pollable files that find no room below. The same calls are
// trapped as in Pollable. It has half of the numbers that select(2) does not take. A process can
// thus have as many devices as with the kernel: each needs a second descriptor for its events.
func (r Range) Overflow() Range {
	if r.Top <= selectTop {
		return Range{Base: r.Base + r.Count}
	}
	count := (r.Top - selectTop) / 2
	return Range{Base: r.Top - count, Count: count}
}

// Ours reports whether the trap answers the calls on fd: it lies in r, Pollable or Overflow.
func (r Range) Ours(fd uint32) bool {
	return r.Contains(fd) || r.Pollable().Contains(fd) || r.Overflow().Contains(fd)
}

// Doorbells is the part of r for devices with direct doorbells.
func (r Range) Doorbells() Range {
	count := r.Count / directOf
	return Range{Base: r.Base + r.Count - count, Count: count}
}

// Trapped is the other part of r: every write there is trapped.
func (r Range) Trapped() Range {
	return Range{Base: r.Base, Count: r.Count - r.Doorbells().Count}
}

// Devices is the part of r for devices without direct doorbells. The numbers below it, a few, are
// for directories and netlink sockets: the latter cannot lie elsewhere.
func (r Range) Devices() Range {
	kept := min(r.Count/roomOf, deviceRoom)
	t := r.Trapped()
	return Range{Base: t.Base + kept, Count: t.Count - kept}
}

// Spare is the part of r where completion channels may be if a program has hundreds. There,
// a read of them is trapped. The numbers below it are for directories and netlink sockets.
func (r Range) Spare() Range {
	kept := min(r.Count, deviceRoom)
	return Range{Base: r.Base + kept, Count: r.Count - kept}
}
