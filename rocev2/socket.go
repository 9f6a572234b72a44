package rocev2

import (
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// socket is a receiving socket whose reader can wait for packets in two ways. In one, the runtime's
// poller waits, and only the goroutine is suspended. In the other, a thread waits in recvmmsg, and
// the poller does not know the socket: it would be woken for each packet, too.
type socket struct {
	name string

	mu     sync.Mutex
	closed bool
	waits  bool // calls wait
	file   *os.File
	raw    syscall.RawConn
}

// openSocket takes over a descriptor, whose calls do not wait.
func openSocket(fd int, name string) (*socket, error) {
	s := &socket{name: name}
	if err := s.take(fd); err != nil {
		return nil, err
	}
	return s, nil
}

// take makes fd the descriptor. The poller gets to know it if its calls do not wait (os.NewFile).
func (s *socket) take(fd int) error {
	file := os.NewFile(uintptr(fd), s.name)
	raw, err := file.SyscallConn()
	if err != nil {
		file.Close()
		return err
	}
	s.file, s.raw = file, raw
	return nil
}

// setWaits makes calls wait, or not, and returns the socket for them. Nothing may wait for
// packets meanwhile. The error is os.ErrClosed, or that there are too many descriptors.
func (s *socket) setWaits(waits bool) (syscall.RawConn, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, os.ErrClosed
	}
	if waits == s.waits {
		return s.raw, nil
	}
	// The poller forgets a descriptor when it is closed, so the socket gets another one.
	var fd int
	var err error
	if e := s.raw.Control(func(old uintptr) {
		fd, err = unix.FcntlInt(old, unix.F_DUPFD_CLOEXEC, 0)
	}); e != nil {
		return nil, e
	}
	if err != nil {
		return nil, os.NewSyscallError("fcntl", err)
	}
	if err := unix.SetNonblock(fd, !waits); err != nil {
		unix.Close(fd)
		return nil, os.NewSyscallError("fcntl", err)
	}
	old := s.file
	if err := s.take(fd); err != nil {
		return nil, err
	}
	s.waits = waits
	old.Close()
	return s.raw, nil
}

// control calls f with the descriptor, unless the socket was closed.
func (s *socket) control(f func(fd int)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return os.ErrClosed
	}
	return s.raw.Control(func(fd uintptr) { f(int(fd)) })
}

// isClosed reports whether close was called.
func (s *socket) isClosed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}

// close closes the socket, and wakes the reader that waits for packets.
func (s *socket) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	s.closed = true
	_ = s.raw.Control(func(fd uintptr) {
		// A thread that waits returns. The error is that the socket is not connected.
		_ = unix.Shutdown(int(fd), unix.SHUT_RD)
	})
	s.file.Close()
}
