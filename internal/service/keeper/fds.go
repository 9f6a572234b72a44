package keeper

import (
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// The user's shell may pass descriptors above the standard three (of a pipe, of make's job
// server). They belong to the program, with their numbers. All descriptors that this process
// opens are close-on-exec, which tells them apart.

// inherited returns the descriptors above 2 that are not close-on-exec.
func inherited() ([]int, error) {
	dir, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return nil, err
	}
	var fds []int
	for _, e := range dir {
		fd, err := strconv.Atoi(e.Name())
		if err != nil || fd <= 2 {
			continue
		}
		// The directory itself is closed meanwhile.
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err == nil && flags&unix.FD_CLOEXEC == 0 {
			fds = append(fds, fd)
		}
	}
	return fds, nil
}

// setCloseOnExec sets whether a child inherits fds.
func setCloseOnExec(fds []int, on bool) {
	flags := 0
	if on {
		flags = unix.FD_CLOEXEC
	}
	for _, fd := range fds {
		_, _ = unix.FcntlInt(uintptr(fd), unix.F_SETFD, flags) // it is open
	}
}

// letGo closes the program's descriptors in a process that outlives their use. The reader
// of a pipe waits for the last writer.
func letGo(fds []int, standard ...int) error {
	null, err := unix.Open(os.DevNull, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return &os.PathError{Op: "open", Path: os.DevNull, Err: err}
	}
	for _, fd := range standard {
		if err := unix.Dup3(null, fd, 0); err != nil {
			return os.NewSyscallError("dup3", err)
		}
	}
	for _, fd := range append(fds, null) {
		unix.Close(fd)
	}
	return nil
}

// passOn returns a duplicate of f that a child inherits under the same number. It avoids
// numbers below 10, which shell scripts use.
func passOn(f *os.File) (fd int, err error) {
	const first = 10
	fd, err = unix.FcntlInt(f.Fd(), unix.F_DUPFD, first)
	return fd, os.NewSyscallError("fcntl(F_DUPFD)", err)
}
