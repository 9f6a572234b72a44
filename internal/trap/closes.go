package trap

import (
	"encoding/binary"
	"fmt"
	"os"
	"sync"

	"github.com/gorxe/gorxe/internal/sys/procfs"
	"github.com/gorxe/gorxe/internal/trap/doorbell"
	"golang.org/x/sys/unix"
)

// Closes learns which files programs have closed, for all sessions that share it:
// of inotify instances a user has few (fs.inotify.max_user_instances: 128), and
// other programs want some too. The zero value is ready.
type Closes struct {
	reading sync.Mutex // held while events are read and passed on; it comes before mu

	mu      sync.Mutex
	houses  map[*house]struct{} // of the sessions
	notify  *os.File            // nil until something is watched
	watches map[int]*house      // by watch descriptor

	doorbells doorbell.Instances // of the sessions, for their doorbells
}

// join announces a session that may watch.
func (c *Closes) join(h *house) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.houses == nil {
		c.houses, c.watches = make(map[*house]struct{}), make(map[int]*house)
	}
	c.houses[h] = struct{}{}
}

// leave is called by a session that has no watches left.
func (c *Closes) leave(h *house) {
	c.mu.Lock()
	var last *os.File
	delete(c.houses, h)
	if len(c.houses) == 0 {
		last, c.notify = c.notify, nil
	}
	c.mu.Unlock()
	if last != nil { // Close waits for readSome, which needs the lock
		last.Close() //nolint:errcheck // it ends read, and has nothing to lose
	}
}

// watch asks for news, to h, of the last close of a description of the file behind
// fd: by close, exec, exit or munmap, of whichever process has it then. The watch
// also keeps the inode, and so its number, until unwatch.
func (c *Closes) watch(fd int, h *house) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.houses[h]; !ok {
		return 0, unix.ENODEV
	}
	// It tries again for each file, because the owner of the last instance may have ended.
	if err := c.open(); err != nil {
		return 0, err
	}
	var wd int
	err := control(c.notify, func(notify int) (err error) {
		wd, err = unix.InotifyAddWatch(notify, procfs.SelfFD(fd), unix.IN_CLOSE)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("inotify_add_watch (the limit is fs.inotify.max_user_watches): %w", err)
	}
	c.watches[wd] = h
	return wd, nil
}

// open starts to listen; c.mu is held.
func (c *Closes) open() error {
	if c.notify != nil {
		return nil
	}
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return fmt.Errorf("inotify_init (the limit is fs.inotify.max_user_instances): %w", err)
	}
	c.notify = os.NewFile(uintptr(fd), "inotify")
	go c.read(c.notify)
	return nil
}

func (c *Closes) unwatch(wd int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.watches[wd] == nil {
		return
	}
	delete(c.watches, wd)
	// It fails if the watched file is gone.
	_ = control(c.notify, func(notify int) error {
		_, err := unix.InotifyRmWatch(notify, uint32(wd))
		return err
	})
}

// control makes a call on a file that another goroutine reads.
func control(f *os.File, call func(fd int) error) error {
	conn, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var result error
	if err := conn.Control(func(fd uintptr) { result = call(int(fd)) }); err != nil {
		return err
	}
	return result
}

// read passes on what inotify has to say until notify is closed.
func (c *Closes) read(notify *os.File) {
	conn, err := notify.SyscallConn()
	if err != nil {
		return
	}
	for {
		more := false
		err := conn.Read(func(fd uintptr) bool {
			more = c.readSome(notify, int(fd))
			return more // if not, Read waits
		})
		if err != nil || !more {
			return
		}
	}
}

// readSome passes on the events that are there. It reports false if there is none. Events carry no
// name: all are of one size.
func (c *Closes) readSome(notify *os.File, fd int) bool {
	c.reading.Lock()
	defer c.reading.Unlock()
	var buf [eventsPerRead * unix.SizeofInotifyEvent]byte
	n, err := unix.Read(fd, buf[:])
	if err != nil {
		return err != unix.EAGAIN && err != unix.EINTR
	}
	for b := buf[:n]; len(b) >= unix.SizeofInotifyEvent; {
		c.tell(notify, int(int32(binary.NativeEndian.Uint32(b))), binary.NativeEndian.Uint32(b[4:]))
		b = b[unix.SizeofInotifyEvent+int(binary.NativeEndian.Uint32(b[12:])):]
	}
	return n > 0
}

// drain passes on all events that are there, before it returns.
func (c *Closes) drain() {
	c.mu.Lock()
	notify := c.notify
	c.mu.Unlock()
	if notify == nil {
		return
	}
	_ = control(notify, func(fd int) error { // an error is that of a closed file
		for range drainReads {
			if !c.readSome(notify, fd) {
				break
			}
		}
		return nil
	})
}

// tell passes on one event. The kernel does not reuse the numbers of watches (fs/notify/
// inotify: idr_alloc_cyclic), so a late event matches no watch. But another instance begins to
// count from the start.
func (c *Closes) tell(notify *os.File, wd int, mask uint32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if notify != c.notify {
		return
	}
	if mask&unix.IN_Q_OVERFLOW != 0 {
		for h := range c.houses {
			h.lost()
		}
		return
	}
	if h := c.watches[wd]; h != nil && mask&unix.IN_CLOSE != 0 {
		h.fileClosed(wd)
	}
}
