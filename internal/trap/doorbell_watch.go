package trap

import (
	"encoding/binary"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/kernel"
	"github.com/gorxe/gorxe/internal/trap/filter"
	"github.com/gorxe/gorxe/internal/trap/mono"
	"github.com/gorxe/gorxe/internal/trap/procfs"
)

// doorbellWatch waits for the direct doorbells of a session. Such a doorbell is a write to a
// device's memfd, which the kernel carries out, and which inotify reports. Direct doorbells
// have a receiver of their own.
type doorbellWatch struct {
	dog    watchdog    // of that receiver
	open   atomic.Bool // there were devices with such doorbells
	notify int         // the inotify instance, once open
	wake   int         // a memfd that is watched as well: a write to it ends wait

	inHand inHand

	mu      sync.Mutex
	stopped bool // no more devices get such doorbells
	watches map[int]*object
	pending []*object // their doorbells must be taken
}

// maxDoorbellWatches bounds the instances of inotify, of which a user has 128 in all.
const maxDoorbellWatches = 64

// add makes o, a device behind the description fd, one with direct
// doorbells. It leaves the device as it is if the kernel grants no inotify watch.
func (b *doorbellWatch) add(o *object, fd int, c *Closes) error {
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
	o.direct, o.doorbellWD, o.doorbells = true, wd, file
	b.watches[wd] = o
	return nil
}

// begin makes the instance and starts the receiver, if there is none; b.mu is held.
func (b *doorbellWatch) begin(c *Closes) bool {
	switch {
	case b.stopped:
		return false
	case b.open.Load():
		return true
	case c.doorbells.Add(1) > maxDoorbellWatches || !b.make():
		c.doorbells.Add(-1)
		return false
	}
	b.open.Store(true)
	b.dog.start()
	return true
}

func (b *doorbellWatch) make() bool {
	notify, err := unix.InotifyInit1(unix.IN_CLOEXEC)
	if err != nil {
		return false
	}
	wake, err := fixedSize("gorxe-wake", 1)
	if err != nil {
		unix.Close(notify)
		return false
	}
	if _, err := unix.InotifyAddWatch(notify, procfs.SelfFD(wake), unix.IN_MODIFY); err != nil {
		unix.Close(notify)
		unix.Close(wake)
		return false
	}
	b.notify, b.wake, b.watches = notify, wake, make(map[int]*object)
	return true
}

// stop ends the receiver.
func (b *doorbellWatch) stop() {
	b.mu.Lock()
	b.stopped = true
	b.mu.Unlock()
	if b.open.Load() {
		b.dog.stop()
	}
}

// remove ends the watch of an object.
func (b *doorbellWatch) remove(o *object) {
	if !o.direct {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.watches[o.doorbellWD] != o {
		return
	}
	delete(b.watches, o.doorbellWD)
	_, _ = unix.InotifyRmWatch(b.notify, uint32(o.doorbellWD)) // it fails if the file is gone
}

// close is called when no receiver is left.
func (b *doorbellWatch) close(c *Closes) {
	if b.open.Load() {
		unix.Close(b.notify)
		unix.Close(b.wake)
		c.doorbells.Add(-1)
	}
}

// read waits for doorbells and puts the objects that have rung on the list. It returns
// early if a signal comes.
func (b *doorbellWatch) read() {
	var buf [64 * unix.SizeofInotifyEvent]byte
	n, err := unix.Read(b.notify, buf[:])
	if err != nil {
		return // EINTR
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for e := buf[:n]; len(e) >= unix.SizeofInotifyEvent; {
		b.note(int(int32(binary.NativeEndian.Uint32(e))), binary.NativeEndian.Uint32(e[4:]))
		e = e[unix.SizeofInotifyEvent+int(binary.NativeEndian.Uint32(e[12:])):]
	}
}

// note enters the object of one event; b.mu is held. If events were lost, all have
// rung.
func (b *doorbellWatch) note(wd int, mask uint32) {
	if mask&unix.IN_Q_OVERFLOW != 0 {
		for _, o := range b.watches {
			b.enter(o)
		}
	} else if o := b.watches[wd]; o != nil && mask&unix.IN_MODIFY != 0 {
		b.enter(o)
	}
}

// enter puts an object on the list once; b.mu is held.
func (b *doorbellWatch) enter(o *object) {
	if !o.listed {
		o.listed = true
		b.pending = append(b.pending, o)
	}
}

// take takes one off the list, nil if there is none. What is left when a receiver is
// blocked is for the next one.
func (b *doorbellWatch) take() *object {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.pending) == 0 {
		return nil
	}
	o := b.pending[0]
	b.pending = append(b.pending[:0], b.pending[1:]...)
	o.listed = false
	return o
}

// again puts it back.
func (b *doorbellWatch) again(o *object) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.enter(o)
}

// rouse makes the receiver look at the list.
func (b *doorbellWatch) rouse() { _, _ = unix.Pwrite(b.wake, make([]byte, 1), 0) }

func (b *doorbellWatch) waiting() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.pending)
}

// runDoorbells takes direct doorbells until the session stops, or the receiver was
// blocked. It is not the thread that receives calls. After a trapped call, the caller may
// take the processor from the thread that has answered it, and keep it while it polls.
// That does no harm to this caller: it sleeps when it needs that thread again. But the
// doorbells of other programs would have to wait.
func (r *receiver) runDoorbells() {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	r.tid.Store(int32(unix.Gettid()))
	defer r.tid.Store(0)
	for !r.s.stopping.Load() {
		r.s.doorbells.wait(r.s.exhausted())
		if r.s.exhausted() {
			continue
		}
		for range r.s.doorbells.waiting() {
			if !r.takeFrom(r.s.doorbells.take()) {
				return
			}
		}
	}
}

// wait returns when there are doorbells to take, or a signal came. If no thread can be
// spared for those that there are, it returns after some time.
func (b *doorbellWatch) wait(exhausted bool) {
	if b.waiting() > 0 {
		timeout := 0
		if exhausted {
			timeout = int(watchInterval / time.Millisecond)
		}
		fds := []unix.PollFd{{Fd: int32(b.notify), Events: unix.POLLIN}}
		if n, err := unix.Poll(fds, timeout); err != nil || n == 0 {
			return
		}
	}
	b.read()
}

// takeDoorbellsFirst takes the direct doorbells that the program rang on a device
// before the call in hand, and reports whether the receiver is still in its place. If
// it is not, the receiver that has replaced it answers the call. The work of a doorbell may
// wait for the memory of another program, and the call must not wait with it.
func (r *receiver) takeDoorbellsFirst() bool {
	s := r.s
	if !s.doorbells.open.Load() || !r.followsDoorbells() || r.n.TID == 0 || s.exhausted() {
		return true
	}
	r.seq++
	s.page.take(r.slot, &r.n)
	r.callWaits = true
	r.begin(r.seq)
	r.dog.see()
	r.caller.begin(r)
	o, more := r.object(r.fd(0)), false
	if o != nil && o.direct {
		more = s.doorbells.inHand.takeInOrder(o)
	}
	if !r.end(r.seq) {
		for more {
			more = o.doorbells.TakeDoorbells()
		}
		if r.abandoned.Load() {
			r.respond()
		}
		return false
	}
	if more {
		s.doorbells.again(o)
		s.doorbells.rouse()
	}
	return true
}

// followsDoorbells reports whether the call in hand may be on a device whose doorbells
// are direct. A trapped doorbell is not.
func (r *receiver) followsDoorbells() bool {
	switch r.n.NR {
	case unix.SYS_IOCTL, unix.SYS_CLOSE:
	case unix.SYS_WRITE:
		if r.arg(2) == filter.DoorbellSize {
			return false
		}
	default:
		return false
	}
	return r.s.cfg.FDs.Contains(uint32(r.fd(0)))
}

// sweepEvery is how often the traces of doorbells are removed: 32 bytes each.
const sweepEvery = 250 * time.Millisecond

// takeFrom answers the doorbells of an object and reports whether the receiver is still in
// its place. One that is not goes on with that object alone.
func (r *receiver) takeFrom(o *object) bool {
	if o == nil {
		return true
	}
	r.seq++
	r.begin(r.seq)
	r.dog.see()
	r.s.doorbells.inHand.claim(o, r)
	more := o.doorbells.TakeDoorbells()
	r.s.doorbells.inHand.release(o, r)
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
		r.s.doorbells.again(o)
	}
	return true
}

// inHand says which receiver has a doorbell of an object in hand, so that a call on that
// object can wait for it.
type inHand struct {
	mu    sync.Mutex // a leaf lock
	freed sync.Cond
}

func (h *inHand) init() { h.freed.L = &h.mu }

// claim notes that r is about to take the doorbells of o.
func (h *inHand) claim(o *object, r *receiver) {
	h.mu.Lock()
	defer h.mu.Unlock()
	o.taker = r
}

// release ends what claim noted. The receiver that has replaced r may have claimed o.
func (h *inHand) release(o *object, r *receiver) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if o.taker == r {
		o.taker = nil
		h.freed.Broadcast()
	}
}

// replaced is called when a receiver was replaced: nobody waits for it any more.
func (h *inHand) replaced() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.freed.Broadcast()
}

// await waits until the receiver of doorbells has none of this object in hand, and
// reports whether it had one. It does not wait for one that is blocked in the memory of a
// program: the watchdog has replaced that one.
func (h *inHand) await(o *object) (waited bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for o.taker != nil && !o.taker.replaced() {
		waited = true
		h.freed.Wait()
	}
	return waited
}

// takeInOrder takes the direct doorbells of an object so that a call may follow. The
// receiver of doorbells may have one of them in hand: this thread then has nothing to
// take, and waits for that receiver.
func (h *inHand) takeInOrder(o *object) (more bool) {
	h.await(o)
	more = o.doorbells.TakeDoorbells()
	if h.await(o) { // that one came meanwhile, and may have left something
		more = o.doorbells.TakeDoorbells()
	}
	return more
}
