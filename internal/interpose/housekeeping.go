package interpose

import (
	"encoding/binary"
	"fmt"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"
)

// house waits for what happens to the program outside of its trapped calls:
// descriptors that are closed, processes and the session that end.
type house struct {
	s     *Session
	epoll int
	wake  int // eventfd

	mu     sync.Mutex
	notify int // inotify; -1 once closed
}

// Tags of what epoll reports; a process's is its pidfd.
const (
	tagListener = -1 - iota
	tagNotify
	tagWake
)

func newHouse(s *Session) (*house, error) {
	h := &house{s: s, epoll: -1, wake: -1, notify: -1}
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
	if h.notify, err = unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK); err != nil {
		return fmt.Errorf("inotify_init (the limit is fs.inotify.max_user_instances): %w", err)
	}
	// No events for the listener: hang-up is reported without being asked for.
	for _, e := range []struct {
		fd, tag int32
		events  uint32
	}{
		{int32(h.s.listener), tagListener, 0},
		{int32(h.notify), tagNotify, unix.EPOLLIN},
		{int32(h.wake), tagWake, unix.EPOLLIN},
	} {
		if err := h.add(int(e.fd), e.tag, e.events); err != nil {
			return err
		}
	}
	return nil
}

func (h *house) add(fd int, tag int32, events uint32) error {
	e := unix.EpollEvent{Events: events, Fd: tag}
	if err := unix.EpollCtl(h.epoll, unix.EPOLL_CTL_ADD, fd, &e); err != nil {
		return fmt.Errorf("epoll_ctl: %w", err)
	}
	return nil
}

func (h *house) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, fd := range []int{h.epoll, h.wake, h.notify} {
		if fd >= 0 {
			unix.Close(fd)
		}
	}
	h.epoll, h.wake, h.notify = -1, -1, -1
}

// stop makes keep return.
func (h *house) stop() {
	h.mu.Lock()
	defer h.mu.Unlock()
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
			switch tag := events[i].Fd; tag {
			case tagListener, tagWake:
				return
			case tagNotify:
				h.closed()
			default:
				h.s.procs.ended(int(tag))
			}
		}
	}
}

// watchClose asks for news of the last close of a description of the file behind
// fd: by close, exec, exit or munmap, of whichever process has it then. The watch
// also keeps the inode, and so its number, until unwatch.
func (h *house) watchClose(fd int) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.notify < 0 {
		return 0, unix.ENODEV
	}
	wd, err := unix.InotifyAddWatch(h.notify, procSelfFD(fd), unix.IN_CLOSE)
	if err != nil {
		return 0, fmt.Errorf("inotify_add_watch (the limit is fs.inotify.max_user_watches): %w", err)
	}
	return wd, nil
}

func (h *house) unwatch(wd int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.notify >= 0 {
		_, _ = unix.InotifyRmWatch(h.notify, uint32(wd))
	}
}

// watchExit asks for news of a process's end.
func (h *house) watchExit(pidfd int) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.epoll < 0 {
		return unix.ENODEV
	}
	return h.add(pidfd, int32(pidfd), unix.EPOLLIN)
}

// closed reads what inotify has to say. Events carry no name: all are of one size.
func (h *house) closed() {
	var buf [64 * unix.SizeofInotifyEvent]byte
	for {
		n, err := unix.Read(h.notify, buf[:])
		if err != nil || n <= 0 {
			return
		}
		for b := buf[:n]; len(b) >= unix.SizeofInotifyEvent; {
			wd := int(int32(binary.NativeEndian.Uint32(b)))
			mask := binary.NativeEndian.Uint32(b[4:])
			if mask&unix.IN_Q_OVERFLOW != 0 {
				h.s.log.Error("inotify lost events: files that the program closed may stay open until it ends")
			}
			if o := h.s.objects.byWatch(wd); o != nil && mask&unix.IN_CLOSE != 0 {
				h.s.closeObject(o)
			}
			b = b[unix.SizeofInotifyEvent+int(binary.NativeEndian.Uint32(b[12:])):]
		}
	}
}

func procSelfFD(fd int) string { return "/proc/self/fd/" + strconv.Itoa(fd) }
