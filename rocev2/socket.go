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

// setWaits makes calls wait, or not, and returns the socket for them. Nothing may wait for packets
// meanwhile. If there are too many descriptors, calls stay as they are, and the error says so.
// Another error is os.ErrClosed.
func (s *socket) setWaits(waits bool) (syscall.RawConn, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return nil, os.ErrClosed
	case waits == s.waits:
		return s.raw, nil
	}
	fd, err := s.duplicate()
	if err != nil {
		return s.raw, err
	}
	if err := unix.SetNonblock(fd, !waits); err != nil {
		unix.Close(fd)
		return s.raw, os.NewSyscallError("fcntl", err)
	}
	// The poller forgets a descriptor when that is closed.
	old := s.file
	if err := s.take(fd); err != nil {
		return s.raw, err
	}
	s.waits = waits
	old.Close()
	return s.raw, nil
}

func (s *socket) duplicate() (fd int, err error) {
	closed := s.raw.Control(func(old uintptr) {
		fd, err = unix.FcntlInt(old, unix.F_DUPFD_CLOEXEC, 0)
	})
	if closed != nil {
		return -1, closed
	}
	return fd, os.NewSyscallError("fcntl", err)
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
