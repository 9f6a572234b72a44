package filter

import (
	"errors"
	"fmt"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ErrListenerExists is the error of Install in a process that already runs under a
// listener: that of an outer `gorxe run`, or of a container engine. The kernel allows
// one. Under an outer gorxe run the program has its devices already, and can simply be
// run.
var ErrListenerExists = errors.New("another seccomp listener already answers for this process " +
	"(an outer gorxe run, or the container engine), and the kernel allows one: " +
	"start this outside of it, or the container with a seccomp profile without notifications")

// Installed is a filter in force.
type Installed struct {
	// Listener is the descriptor that notifications come from, close-on-exec.
	Listener int
	// Killable says that signals do not interrupt a call that is being answered
	// (SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV, Linux 5.19). Without it a program
	// with frequent signals may see calls on its devices fail with EINTR after
	// they took effect.
	Killable bool
}

// Install puts the calling thread, and all that it will start, under the filter. The caller
// must have locked the goroutine to the thread. It then passes the listener to a process that
// answers, and executes the program. It must not open files in between, because no process
// answers yet. The thread cannot remove the filter, nor no_new_privs: set-user-ID programs
// run without their privilege below it.
func Install(fds Range) (Installed, error) {
	prog, err := build(fds).assemble()
	if err != nil {
		return Installed{}, err
	}
	fprog := unix.SockFprog{Len: uint16(len(prog)), Filter: &prog[0]}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return Installed{}, fmt.Errorf("prctl(PR_SET_NO_NEW_PRIVS): %w", err)
	}
	// SPEC_ALLOW: before 5.16 a filter otherwise turns speculation off for the
	// whole program.
	flags := uintptr(unix.SECCOMP_FILTER_FLAG_NEW_LISTENER | unix.SECCOMP_FILTER_FLAG_SPEC_ALLOW)
	in := Installed{Killable: true}
	fd, errno := setFilter(flags|unix.SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV, &fprog)
	if errno == unix.EINVAL {
		in.Killable = false
		fd, errno = setFilter(flags, &fprog)
	}
	runtime.KeepAlive(prog)
	if errno != 0 {
		return Installed{}, installError(errno)
	}
	in.Listener = fd
	return in, nil
}

func setFilter(flags uintptr, prog *unix.SockFprog) (int, unix.Errno) {
	fd, _, errno := unix.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, flags, uintptr(unsafe.Pointer(prog)))
	return int(fd), errno
}

// installError explains an errno of seccomp(2) to the user.
func installError(errno unix.Errno) error {
	var why string
	switch errno {
	case unix.EBUSY:
		return ErrListenerExists
	case unix.EPERM, unix.EACCES:
		why = "seccomp(2) is forbidden here: in a container, allow it in the seccomp profile " +
			"(the default profiles of Docker and Podman do), or set seccomp=unconfined"
	case unix.ENOSYS:
		why = "this kernel has no seccomp filters, or a sandbox hides them: " +
			"CONFIG_SECCOMP_FILTER and Linux 5.14 are needed"
	case unix.EINVAL:
		why = "this kernel cannot notify a listener: Linux 5.14 is needed"
	default:
		why = "seccomp(2)"
	}
	return fmt.Errorf("%s: %w", why, errno)
}

// Sandboxed tells the user what to do about a system call that a sandbox forbids. The
// kernel by itself allows it to everybody.
func Sandboxed(call string) string {
	return "a sandbox forbids it: allow " + call + " in the container's seccomp profile, or in the service's SystemCallFilter="
}
