package threads

import (
	"encoding/binary"
	"fmt"
	"sync"

	"golang.org/x/sys/unix"
)

// A Poller waits for files with one thread.
type Poller struct {
	mu      sync.Mutex // a leaf lock
	users   int
	epoll   int // valid while there are users
	wake    int // an eventfd: the thread ends
	sources map[uint64]*Source
	last    uint64 // the number of the last source
}

// A Source is a file that the poller waits for.
type Source struct {
	poller *Poller
	id     uint64 // the file's number may be another file's soon
	fd     int
	ring   func(events uint32)
	away   bool // suspended; under poller.mu
}

// idWake is the number of the eventfd.
const idWake = 0

func (p *Poller) join() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.users == 0 {
		if err := p.open(); err != nil {
			return err
		}
	}
	p.users++
	return nil
}

// open starts the thread; p.mu is held.
func (p *Poller) open() (err error) {
	if p.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return fmt.Errorf("epoll_create: %w", err)
	}
	if p.wake, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		unix.Close(p.epoll)
		return fmt.Errorf("eventfd: %w", err)
	}
	if err := control(p.epoll, unix.EPOLL_CTL_ADD, p.wake, idWake, unix.EPOLLIN); err != nil {
		unix.Close(p.epoll)
		unix.Close(p.wake)
		return err
	}
	p.sources = make(map[uint64]*Source)
	go p.run(p.epoll, p.wake)
	return nil
}

func (p *Poller) leave() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.users--; p.users == 0 {
		_, _ = unix.Write(p.wake, binary.NativeEndian.AppendUint64(nil, 1))
	}
}

// Add calls ring when the file has one of the events, is in error or hangs up, and then no more
// until Arm. The poller's thread calls it, so it must not wait. The caller has joined.
func (p *Poller) Add(fd int, events uint32, ring func(events uint32)) (*Source, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last++
	s := &Source{poller: p, id: p.last, fd: fd, ring: ring}
	if err := control(p.epoll, unix.EPOLL_CTL_ADD, fd, s.id, events); err != nil {
		return nil, err
	}
	p.sources[s.id] = s
	return s, nil
}

// Arm replaces the events that the source waits for. The poller calls ring again for the next
// one, also if the file already has it. If the kernel refuses a file that was suspended, because
// the user has too many, Arm calls ring at once, without an event.
func (s *Source) Arm(events uint32) {
	if !s.arm(events) {
		s.ring(0)
	}
}

func (s *Source) arm(events uint32) bool {
	p := s.poller
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.sources[s.id] != s:
		return true
	case s.away:
		s.away = control(p.epoll, unix.EPOLL_CTL_ADD, s.fd, s.id, events) != nil
		return !s.away
	default:
		_ = control(p.epoll, unix.EPOLL_CTL_MOD, s.fd, s.id, events) // it is there
		return true
	}
}

// Suspend makes the poller not wait for the file until Arm, not even for errors and hang-ups.
// An event of some files, as of inotify, wakes every thread that waits, whatever for
// (fs/notify/notification.c: wake_up). After Arm(0) it would wake the poller's thread for nothing.
func (s *Source) Suspend() {
	p := s.poller
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.sources[s.id] == s && !s.away {
		s.away = true
		s.forget()
	}
}

// Suspended reports whether the poller does not wait for the file.
func (s *Source) Suspended() bool {
	s.poller.mu.Lock()
	defer s.poller.mu.Unlock()
	return s.away
}

// forget removes the file from the epoll set; p.mu is held.
// it is there
func (s *Source) forget() { _ = unix.EpollCtl(s.poller.epoll, unix.EPOLL_CTL_DEL, s.fd, nil) }

// Remove forgets the file, which must be open still. A call of ring may be under way.
func (s *Source) Remove() {
	p := s.poller
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.sources[s.id] == s {
		delete(p.sources, s.id)
		if !s.away {
			s.forget()
		}
	}
}

// control adds or changes a file. The kernel reports one event of it (EPOLLONESHOT). It
// reports errors and hang-ups always. The id has both words of the data of a struct epoll_event.
func control(epoll, op, fd int, id uint64, events uint32) error {
	e := unix.EpollEvent{Events: events | unix.EPOLLONESHOT, Fd: int32(uint32(id)), Pad: int32(uint32(id >> 32))}
	if err := unix.EpollCtl(epoll, op, fd, &e); err != nil {
		return fmt.Errorf("epoll_ctl (the limit is fs.epoll.max_user_watches): %w", err)
	}
	return nil
}

// run is the thread. It ends when the last user has left, and closes its files. The data of each
// struct epoll_event is an id.
func (p *Poller) run(epoll, wake int) {
	defer unix.Close(epoll)
	defer unix.Close(wake)
	var events [eventsPerWait]unix.EpollEvent
	for {
		n, err := unix.EpollWait(epoll, events[:], -1)
		if err != nil && err != unix.EINTR {
			panic(fmt.Sprintf("epoll_wait: %v", err)) // the arguments are wrong
		}
		for _, e := range events[:max(n, 0)] {
			id := uint64(uint32(e.Fd)) | uint64(uint32(e.Pad))<<32
			if id == idWake {
				return
			}
			if s := p.source(id); s != nil {
				s.ring(e.Events)
			}
		}
	}
}

func (p *Poller) source(id uint64) *Source {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.sources[id]
}
