package usersock

import (
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/quota"
)

// A Sender delivers datagrams to the sockets of programs.
//
// A socket takes what its receive buffer has room for. The rest of a dump waits here until the
// program has read. No kernel tells a sender of that, so a goroutine tries again and again while
// something waits.
type Sender struct {
	fd     int
	port   uint32
	budget *quota.Budget // bears what waits

	mu      sync.Mutex
	waiting map[uint32]*dump // by the port of the socket
	running bool             // retry runs
	closed  chan struct{}
	done    sync.WaitGroup
}

// dump is what waits for a socket.
type dump struct {
	datagrams [][]byte
	cost      quota.Cost
}

// maxDumps bounds the sockets for which a dump waits.
const maxDumps = 256

// NewSender opens the Sender's socket. The budget is charged for messages that wait.
func NewSender(b *quota.Budget) (*Sender, error) {
	fd, err := Open(unix.SOCK_RAW)
	if err != nil {
		return nil, err
	}
	port, err := Port(fd)
	if err != nil {
		unix.Close(fd)
		return nil, err
	}
	return &Sender{fd: fd, port: port, budget: b, waiting: make(map[uint32]*dump), closed: make(chan struct{})}, nil
}

// Port returns the port that datagrams come from.
func (s *Sender) Port() uint32 { return s.port }

// Waits reports whether a dump waits for the socket with that port.
func (s *Sender) Waits(port uint32) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.waiting[port] != nil
}

// Send delivers a datagram, without waiting for anything. One of a dump waits if the socket has
// no room for it, or if others wait. Another one is lost then, as in the kernel. ENOBUFS means
// that too much waits, and that the dump is lost.
func (s *Sender) Send(port uint32, datagram []byte, ofDump bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-s.closed:
		return unix.ENOBUFS // the descriptor may be another file's
	default:
	}
	d := s.waiting[port]
	if d == nil || !ofDump {
		if s.deliver(port, datagram) != unix.EAGAIN || !ofDump {
			return nil
		}
	}
	if d == nil {
		if len(s.waiting) >= maxDumps {
			return unix.ENOBUFS
		}
		d = new(dump)
	}
	cost := quota.Cost{Memory: int64(cap(datagram))}
	if err := s.budget.Take(cost); err != nil {
		s.drop(port)
		return unix.ENOBUFS
	}
	d.cost.Memory += cost.Memory
	d.datagrams = append(d.datagrams, datagram)
	s.waiting[port] = d
	if !s.running {
		s.running = true
		s.done.Go(s.retry)
	}
	return nil
}

// deliver sends a datagram; EAGAIN if the socket has no room, ECONNREFUSED if there is no such
// socket.
func (s *Sender) deliver(port uint32, datagram []byte) error {
	for {
		err := unix.Sendto(s.fd, datagram, unix.MSG_DONTWAIT, &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Pid: port})
		if err != unix.EINTR {
			return err
		}
	}
}

// drop forgets what waits for a socket; s.mu is held.
func (s *Sender) drop(port uint32) {
	if d := s.waiting[port]; d != nil {
		s.budget.Give(d.cost)
		delete(s.waiting, port)
	}
}

// The pauses of retry, which double as long as no program reads.
const (
	leastPause = time.Millisecond
	mostPause  = 64 * time.Millisecond
)

// retry delivers what waits, until nothing does.
func (s *Sender) retry() {
	pause := leastPause
	for timer := time.NewTimer(pause); ; timer.Reset(pause) {
		select {
		case <-s.closed:
			timer.Stop()
			return
		case <-timer.C:
		}
		progress, more := s.pass()
		switch {
		case !more:
			return
		case progress:
			pause = leastPause
		default:
			pause = min(2*pause, mostPause)
		}
	}
}

// pass tries each socket once. progress says that one took something, more that something
// still waits.
func (s *Sender) pass() (progress, more bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for port, d := range s.waiting {
		for len(d.datagrams) > 0 {
			err := s.deliver(port, d.datagrams[0])
			if err == unix.EAGAIN {
				break
			}
			progress = true
			if err != nil { // the program has closed the socket
				d.datagrams = nil
				break
			}
			d.datagrams = d.datagrams[1:]
		}
		if len(d.datagrams) == 0 {
			s.drop(port)
		}
	}
	s.running = len(s.waiting) > 0
	return progress, s.running
}

// Close drops what waits.
func (s *Sender) Close() {
	s.mu.Lock()
	close(s.closed)
	s.mu.Unlock()
	s.done.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	for port := range s.waiting {
		s.drop(port)
	}
	unix.Close(s.fd)
}
