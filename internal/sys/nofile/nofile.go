// Package nofile reads the limit of open files that this process was started with.
//
// Go's package syscall raises that limit in its initialization, and restores it for programs
// that it executes, but does not tell the old value. This package must therefore read the
// limit earlier, so it imports nothing. Packages without uninitialized imports are
// initialized in the order of their paths ("Package initialization" in the language
// specification), and github.com/… comes before syscall.
package nofile

const rlimitNofile = 7 // RLIMIT_NOFILE

// getrlimit is the system call; 0 or a negative errno.
func getrlimit(resource uintptr, limit *[2]uint64) (errno uintptr)

// atStart are the soft and the hard limit.
var atStart = func() (limit [2]uint64) {
	if getrlimit(rlimitNofile, &limit) != 0 {
		return [2]uint64{}
	}
	return limit
}()

// Soft is the soft limit at the start.
func Soft() uint64 { return atStart[0] }

// Hard is the hard limit at the start.
func Hard() uint64 { return atStart[1] }
