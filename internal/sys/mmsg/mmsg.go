// Package mmsg calls sendmmsg(2) and recvmmsg(2), which x/sys/unix does not have.
package mmsg

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// Header is struct mmsghdr: a message, and how many bytes of it were sent or received.
type Header struct {
	Hdr unix.Msghdr
	N   uint32
}

// Set points a message at its packets and at the room for control messages. They are stored as
// pointers, so that the garbage collector sees them.
func (m *Header) Set(iovs []unix.Iovec, control []byte) {
	m.Hdr.Iov = unsafe.SliceData(iovs)
	m.Hdr.SetIovlen(len(iovs))
	m.Hdr.Control = nil
	if len(control) > 0 {
		m.Hdr.Control = unsafe.SliceData(control)
	}
	m.Hdr.SetControllen(len(control))
	m.Hdr.Flags = 0
	m.N = 0
}

// SetIovec points an element of a message at bytes.
func SetIovec(iov *unix.Iovec, data []byte) {
	iov.Base = unsafe.SliceData(data)
	iov.SetLen(len(data))
}

// Bytes returns what SetIovec was given.
func Bytes(iov *unix.Iovec) []byte { return unsafe.Slice(iov.Base, int(iov.Len)) }

// Send sends as many messages as it can, in order, and returns their number. An error is about the
// first message: if the kernel has sent any, it reports success. flags has MSG_DONTWAIT already.
func Send(fd int, msgs []Header, flags uintptr) (int, unix.Errno) {
	return repeat(unix.SYS_SENDMMSG, fd, msgs, unix.MSG_DONTWAIT|flags, true)
}

// Receive receives the messages that are there, without waiting.
func Receive(fd int, msgs []Header) (int, unix.Errno) {
	return repeat(unix.SYS_RECVMMSG, fd, msgs, unix.MSG_DONTWAIT, true)
}

// Await is Receive, but waits for the first message. The error is EAGAIN if none comes in the time
// that the socket has for it (SO_RCVTIMEO). The Go runtime is not told of an unseen call.
func Await(fd int, msgs []Header, unseen bool) (int, unix.Errno) {
	return repeat(unix.SYS_RECVMMSG, fd, msgs, unix.MSG_WAITFORONE, unseen)
}

// repeat repeats a call that a signal has ended.
func repeat(trap uintptr, fd int, msgs []Header, flags uintptr, unseen bool) (n int, errno unix.Errno) {
	for {
		if n, errno = call(trap, fd, msgs, flags, unseen); errno != unix.EINTR {
			return n, errno
		}
	}
}

// call does not tell the Go runtime about an unseen call. That would cost as much as a short
// packet. The runtime needs no other thread for a call that never waits, or not for long.
//
// The runtime may have to stop the goroutine while an unseen call waits, as for garbage collection.
// It sends the thread a signal. A call with a timeout then ends with EINTR (signal(7)), and the
// goroutine stops where a function begins. This function is not inlined, so that one begins before
// each call.
//
//go:noinline
func call(trap uintptr, fd int, msgs []Header, flags uintptr, unseen bool) (int, unix.Errno) {
	var n uintptr
	var errno unix.Errno
	if unseen {
		n, _, errno = unix.RawSyscall6(trap, uintptr(fd),
			uintptr(unsafe.Pointer(unsafe.SliceData(msgs))), uintptr(len(msgs)), flags, 0, 0)
	} else {
		n, _, errno = unix.Syscall6(trap, uintptr(fd),
			uintptr(unsafe.Pointer(unsafe.SliceData(msgs))), uintptr(len(msgs)), flags, 0, 0)
	}
	if errno != 0 {
		return 0, errno
	}
	return int(n), 0
}
