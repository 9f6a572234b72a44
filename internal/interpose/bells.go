package interpose

import (
	"encoding/binary"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/kernel"
	"github.com/gorxe/gorxe/internal/trap/mono"
	"github.com/gorxe/gorxe/internal/trap/procfs"
)

// bells are the doorbells of a session that the kernel carries out: a write to a
// device's memfd, of which inotify tells. The receiver waits for these as well as for
// calls.
type bells struct {
	open   atomic.Bool // there were devices with such doorbells
	notify int         // the inotify instance, once open

	mu      sync.Mutex
	watches map[int]*object
	pending []*object // to be rung
}

// maxBells bounds the instances of inotify, of which a user has 128 in all.
const maxBells = 64

// add makes o, a device behind the description fd, one with such doorbells, or
// leaves it as it is if there is no inotify to be had for it.
func (b *bells) add(o *object, fd int, c *Closes) error {
	file, ok := o.file.(kernel.DoorbellFile)
	if !ok {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.begin(c) {
		return nil
	}
	wd, err := unix.InotifyAddWatch(b.notify, procfs.SelfFD(fd), unix.IN_MODIFY)
	if err != nil {
		return nil
	}
	if _, err := unix.Seek(fd, file.DoorbellOffset(), unix.SEEK_SET); err != nil {
		return fmt.Errorf("lseek of a memfd: %w", err)
	}
	o.direct, o.bellWD, o.doorbells = true, wd, file
	b.watches[wd] = o
	return nil
}

// begin makes the instance, if there is none; b.mu is held.
func (b *bells) begin(c *Closes) bool {
	if b.open.Load() {
		return true
	}
	if c.bells.Add(1) > maxBells {
		c.bells.Add(-1)
		return false
	}
	notify, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		c.bells.Add(-1)
		return false
	}
	b.notify, b.watches = notify, make(map[int]*object)
	b.open.Store(true)
	return true
}

// remove ends the watch of an object.
func (b *bells) remove(o *object) {
	if !o.direct {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.watches[o.bellWD] != o {
		return
	}
	delete(b.watches, o.bellWD)
	_, _ = unix.InotifyRmWatch(b.notify, uint32(o.bellWD)) // it fails if the file is gone
}

// close is called when no receiver is left.
func (b *bells) close(c *Closes) {
	if b.open.Load() {
		unix.Close(b.notify)
		c.bells.Add(-1)
	}
}

// read puts the objects whose bells have rung on the list.
func (b *bells) read() {
	var buf [64 * unix.SizeofInotifyEvent]byte
	for {
		n, err := unix.Read(b.notify, buf[:])
		if err != nil {
			return // there are none
		}
		b.mu.Lock()
		for e := buf[:n]; len(e) >= unix.SizeofInotifyEvent; {
			b.note(int(int32(binary.NativeEndian.Uint32(e))), binary.NativeEndian.Uint32(e[4:]))
			e = e[unix.SizeofInotifyEvent+int(binary.NativeEndian.Uint32(e[12:])):]
		}
		b.mu.Unlock()
		if n < len(buf) {
			return
		}
	}
}

// note enters the object of one event; b.mu is held. If events were lost, all have
// rung.
func (b *bells) note(wd int, mask uint32) {
	if mask&unix.IN_Q_OVERFLOW != 0 {
		for _, o := range b.watches {
			b.enter(o)
		}
	} else if o := b.watches[wd]; o != nil && mask&unix.IN_MODIFY != 0 {
		b.enter(o)
	}
}

// enter puts an object on the list once; b.mu is held.
func (b *bells) enter(o *object) {
	if !o.rings {
		o.rings = true
		b.pending = append(b.pending, o)
	}
}

// take takes one off the list, nil if there is none. What is left when a receiver is
// caught is for the next one.
func (b *bells) take() *object {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.pending) == 0 {
		return nil
	}
	o := b.pending[0]
	b.pending = append(b.pending[:0], b.pending[1:]...)
	o.rings = false
	return o
}

// again puts it back.
func (b *bells) again(o *object) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.enter(o)
}

func (b *bells) waiting() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.pending)
}

type bellsOutcome uint8

const (
	bellsCall   bellsOutcome = iota // there is a call to receive
	bellsRung                       // there may be more of either
	bellsCaught                     // the receiver was replaced
)

// bells waits for calls and doorbells, and answers the latter. Those that the program
// rang before the call that is received next come first.
func (r *receiver) bells() bellsOutcome {
	b := &r.s.bells
	patience := -1
	switch left := b.waiting(); {
	case left > 0 && r.s.dog.exhausted():
		patience = int(watchInterval / time.Millisecond)
	case left > 0:
		patience = 0
	}
	// In this order: the kernel looks at the listener first, and so sees the
	// doorbell of a thread whose call it has seen.
	fds := []unix.PollFd{{Fd: int32(r.s.listener), Events: unix.POLLIN}, {Fd: int32(b.notify), Events: unix.POLLIN}}
	if _, err := unix.Poll(fds, patience); err != nil {
		return bellsRung // EINTR
	}
	if fds[1].Revents != 0 {
		b.read()
	}
	if !r.s.dog.exhausted() {
		for range b.waiting() {
			if !r.ring(b.take()) {
				return bellsCaught
			}
		}
	}
	if fds[0].Revents != 0 {
		return bellsCall
	}
	return bellsRung
}

// sweepEvery is how often the traces of doorbells are removed: 32 bytes each.
const sweepEvery = 250 * time.Millisecond

// ring answers the doorbells of an object and reports whether the receiver is still in
// its place. One that is not goes on with that object alone.
func (r *receiver) ring(o *object) bool {
	if o == nil {
		return true
	}
	r.seq++
	r.begin(r.seq)
	r.s.dog.see()
	more := o.doorbells.TakeDoorbells()
	if now := mono.Now(); now-o.swept.Load() > int64(sweepEvery) {
		o.swept.Store(now)
		o.doorbells.Sweep()
	}
	if !r.end(r.seq) {
		for more {
			more = o.doorbells.TakeDoorbells()
		}
		return false
	}
	if more {
		r.s.bells.again(o)
	}
	return true
}
