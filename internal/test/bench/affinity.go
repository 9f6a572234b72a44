package bench

import (
	"os"

	"golang.org/x/sys/unix"
)

// processors returns the first and the last processor that the calling thread may use.
func processors() (first, last int, err error) {
	var all unix.CPUSet
	if err := unix.SchedGetaffinity(0, &all); err != nil {
		return 0, 0, os.NewSyscallError("sched_getaffinity", err)
	}
	first, last = outermost(&all)
	return first, last, nil
}

// outermost returns the first and the last processor of a set.
func outermost(set *unix.CPUSet) (first, last int) {
	first = -1
	for i := range 64 * len(set) {
		if !set.IsSet(i) {
			continue
		}
		if first < 0 {
			first = i
		}
		last = i
	}
	return first, last
}

// bind binds a thread to a processor. The thread 0 is the calling one.
func bind(tid, cpu int) error {
	var one unix.CPUSet
	one.Set(cpu)
	return os.NewSyscallError("sched_setaffinity", unix.SchedSetaffinity(tid, &one))
}
