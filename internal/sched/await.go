package sched

import (
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// AwaitBriefly waits until a file can be read, or some milliseconds have passed. It reports whether
// a signal has ended the wait. It is for threads that are in their class, and read the file next.
//
// It does not tell Go's runtime that the thread waits. Otherwise Go's monitor thread looks at it
// every 20 µs, and keeps it from going on meanwhile. The file's event may come just then, and the
// thread takes the processor from the monitor. It then spins until the monitor runs again, which
// takes up to a second if it has to wait for threads of the real-time class.
//
// The runtime may have to stop the goroutine meanwhile, as for garbage collection. It sends the
// thread a signal, and the goroutine stops where the next function begins.
func AwaitBriefly(fd int) (interrupted bool) {
	p := unix.PollFd{Fd: int32(fd), Events: unix.POLLIN}
	limit := unix.NsecToTimespec(Briefly.Nanoseconds())
	_, _, errno := unix.RawSyscall6(unix.SYS_PPOLL, uintptr(unsafe.Pointer(&p)), 1, uintptr(unsafe.Pointer(&limit)), 0, 0, 0)
	return errno == unix.EINTR
}

// PauseBriefly sleeps until some microseconds have passed, or a signal comes. It does not tell Go's
// runtime, for the reason of AwaitBriefly.
func PauseBriefly(d time.Duration) {
	ts := unix.NsecToTimespec(d.Nanoseconds())
	// only a signal ends it early
	_, _, _ = unix.RawSyscall(unix.SYS_NANOSLEEP, uintptr(unsafe.Pointer(&ts)), 0, 0)
}
