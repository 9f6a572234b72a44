package trap

import (
	"encoding/binary"
	"fmt"
	"sync"

	"golang.org/x/sys/unix"
)

// house waits for what happens to the program outside of its trapped calls:
// descriptors that are closed, processes and the session that end.
type house struct {
	s     *Session
	epoll int
	wake  int // eventfd: keep has something to look at

	mu       sync.Mutex
	polled   map[int]*object // pollable files, by the daemon's end
	stopped  bool
	news     []int // watches whose files were closed
	overflow bool  // news were lost
}

// Tags of what epoll reports; a process's is its pidfd.
const (
	tagListener = -1 - iota
	tagWake
)

// padPolled tells the end of a pollable file from a pidfd.
const padPolled = 1

func newHouse(s *Session) (*house, error) {
	h := &house{s: s, epoll: -1, wake: -1, polled: make(map[int]*object)}
	s.cfg.Closes.join(h)
	err := h.open()
	if err != nil {
		h.close()
		return nil, err
	}
	return h, nil
}

func (h *house) open() (err error) {
	if h.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return fmt.Errorf("epoll_create: %w", err)
	}
	if h.wake, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		return fmt.Errorf("eventfd: %w", err)
	}
	// No events for the listener: hang-up is reported without being asked for.
	if err := h.add(int(h.s.listener), tagListener, 0, 0); err != nil {
		return err
	}
	return h.add(h.wake, tagWake, 0, unix.EPOLLIN)
}

func (h *house) add(fd int, tag, pad int32, events uint32) error {
	e := unix.EpollEvent{Events: events, Fd: tag, Pad: pad}
	if err := unix.EpollCtl(h.epoll, unix.EPOLL_CTL_ADD, fd, &e); err != nil {
		return fmt.Errorf("epoll_ctl: %w", err)
	}
	return nil
}

func (h *house) close() {
	h.mu.Lock()
	for _, fd := range []int{h.epoll, h.wake} {
		if fd >= 0 {
			unix.Close(fd)
		}
	}
	h.epoll, h.wake = -1, -1
	h.mu.Unlock()
	h.s.cfg.Closes.leave(h)
}

// stop makes keep return.
func (h *house) stop() { h.post(func() { h.stopped = true }) }

// closed makes keep close the object with that watch.
func (h *house) closed(wd int) { h.post(func() { h.news = append(h.news, wd) }) }

// lost makes keep say that closes were missed.
func (h *house) lost() { h.post(func() { h.overflow = true }) }

// post notes something for keep and wakes it.
func (h *house) post(note func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	note()
	if h.wake >= 0 {
		_, _ = unix.Write(h.wake, binary.NativeEndian.AppendUint64(nil, 1))
	}
}

// keep works until the program has ended or stop is called.
func (h *house) keep() {
	var events [32]unix.EpollEvent
	for {
		n, err := unix.EpollWait(h.epoll, events[:], -1)
		if err != nil && err != unix.EINTR {
			h.s.stop(fmt.Errorf("epoll_wait: %w", err))
			return
		}
		for i := range max(n, 0) {
			if events[i].Pad == padPolled {
				h.hungUp(int(events[i].Fd))
				continue
			}
			switch tag := events[i].Fd; tag {
			case tagListener:
				return
			case tagWake:
				if !h.look() {
					return
				}
			default:
				h.s.procs.ended(int(tag))
			}
		}
	}
}

// look closes what was closed. False means that the session stops.
func (h *house) look() bool {
	h.mu.Lock()
	var count [8]byte
	_, _ = unix.Read(h.wake, count[:]) // what is noted from here on wakes keep again
	news, overflow, stopped := h.news, h.overflow, h.stopped
	h.news, h.overflow = nil, false
	h.mu.Unlock()
	if overflow {
		h.s.log.Error("inotify lost events: files that the program closed may stay open until it ends")
	}
	for _, wd := range news {
		if o := h.s.objects.byWatch(wd); o != nil {
			h.s.closeObject(o)
		}
	}
	return !stopped
}

// watchExit asks for news of a process's end.
func (h *house) watchExit(pidfd int) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.epoll < 0 {
		return unix.ENODEV
	}
	return h.add(pidfd, int32(pidfd), 0, unix.EPOLLIN)
}

// watchPoll asks for news of the last close of a pollable file in the program: its other
// end hangs up then.
func (h *house) watchPoll(o *object) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.epoll < 0 {
		return unix.ENODEV
	}
	if err := h.add(o.poll, int32(o.poll), padPolled, 0); err != nil {
		return err
	}
	h.polled[o.poll] = o
	return nil
}

// unwatchPoll ends what watchPoll began.
func (h *house) unwatchPoll(o *object) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.polled[o.poll] != o {
		return
	}
	delete(h.polled, o.poll)
	_ = unix.EpollCtl(h.epoll, unix.EPOLL_CTL_DEL, o.poll, nil) // it is there
}

// hungUp closes a pollable file that the program has closed.
func (h *house) hungUp(fd int) {
	h.mu.Lock()
	o := h.polled[fd]
	h.mu.Unlock()
	if o == nil {
		return
	}
	h.unwatchPoll(o)
	if !h.s.waiting.keeps(o) {
		h.s.closeObject(o)
	}
}
