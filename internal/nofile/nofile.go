// Package nofile knows the limit of open files that this process was started
// with. Go's package syscall raises it when it is initialised, and restores it for
// programs that are executed, but keeps what it was to itself; a program that is
// about to replace itself by another must know. So this package imports nothing:
// packages without uninitialised imports are initialised in the order of their
// paths ("Package initialization" in the language specification), and
// github.com/… comes before syscall.
package nofile

const rlimitNofile = 7 // RLIMIT_NOFILE

// getrlimit is the system call; 0 or a negative errno.
func getrlimit(resource uintptr, limit *[2]uint64) (errno uintptr)

var soft = func() uint64 {
	var limit [2]uint64
	if getrlimit(rlimitNofile, &limit) != 0 {
		return 0
	}
	return limit[0]
}()

// Soft is the soft limit at the start.
func Soft() uint64 { return soft }
