package uverbs

import (
	"encoding/binary"
	"fmt"
	"os"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/fdid"
	"github.com/gorxe/gorxe/internal/quota"
)

// eventPipe carries records of one size to the program, which reads them as it
// reads the kernel's event files: a pipe, so that read, poll and epoll need no
// help.
//
// libibverbs follows the pointer in each event, and waits when it destroys an
// object until as many of its events are acknowledged as were read. So the
// daemon counts what it sends for each object, and forget takes the unread ones
// back: it reads the pipe empty, drops the object's, and writes the rest again.
//
// The daemon keeps no reading end: so it sees when the program has closed its
// own (EPIPE, POLLERR), and forget opens one through /proc for its moment.
//
// send is called with a QP locked. Its write never waits for room, but it may
// for the pipe's lock, which a reader holds for ever whose buffer does not
// answer (userfaultfd): as the engine's own accesses to that program's memory
// may, so whoever runs the engine is prepared for it. One thread at a time makes
// system calls on a pipe (busy), and no other waits for it: they leave their
// events behind, and it takes them along; and few do on all pipes of a user
// (quota.Budget). (A socket has no such lock, but no reading end that can be opened
// anew, and so no way to see that the program has closed its own.)
type eventPipe struct {
	size   int // of a record
	inode  fdid.ID
	budget *quota.Budget
	done   chan struct{} // closed with the pipe

	mu      sync.Mutex // a leaf lock, not held in calls that may wait
	idle    *sync.Cond // busy became false, or closed true
	busy    bool       // somebody makes system calls on w
	closed  bool
	w       int // writing end, non-blocking
	r       int // reading end, until the program has its own; -1: closed
	sent    map[any]sentEvents
	backlog backlog
	waiter  *os.File      // w again, on which a goroutine waits for room; nil: none
	buf     [pipeBuf]byte // of whoever is busy
}

// event is one record, and what it is about; key may be nil.
type event struct {
	record [maxEventSize]byte
	key    any
}

// handle is the object as the program knows it, with which records begin.
func (e *event) handle() uint64 { return binary.NativeEndian.Uint64(e.record[:]) }

// sentEvents says how many events an object had.
type sentEvents struct {
	n      uint32
	handle uint64
}

// maxEventSize is the largest record: struct ib_uverbs_async_event_desc.
const maxEventSize = 16

// pipeBuf is how much a write to a pipe takes as a whole or not at all
// (PIPE_BUF), in whole records.
const pipeBuf = 4096

func newEventPipe(size int, budget *quota.Budget) (*eventPipe, error) {
	if err := budget.Take(pipeCost); err != nil {
		return nil, fmt.Errorf("event pipe: %w", err)
	}
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
		budget.Give(pipeCost)
		return nil, fmt.Errorf("event pipe: %w", err)
	}
	p := &eventPipe{size: size, r: fds[0], w: fds[1], sent: make(map[any]sentEvents), budget: budget,
		done: make(chan struct{})}
	p.idle = sync.NewCond(&p.mu)
	var st unix.Stat_t
	err := unix.Fstat(p.r, &st)
	if err == nil {
		// The kernel's event files block until told otherwise. The flag is the
		// description's: w keeps its own.
		err = unix.SetNonblock(p.r, false)
	}
	if err != nil {
		p.close()
		return nil, fmt.Errorf("event pipe: %w", err)
	}
	p.inode = fdid.FromStat(&st)
	return p, nil
}

// fd is the reading end, to be given to the program; -1 after handedOver.
func (p *eventPipe) fd() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.r
}

// handedOver gives up the daemon's reading end: the program has its own. As
// forget it is for the program's own requests.
func (p *eventPipe) handedOver() {
	if r := p.takeReader(); r >= 0 {
		_ = unix.Close(r) // nothing to be written back
	}
}

func (p *eventPipe) takeReader() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := p.r
	p.r = -1
	return r
}

// closeAside gives the ends of the pipe up, which takes the pipe's lock as well
// (pipe_release). The caller holds the lock.
func (p *eventPipe) closeAside() {
	r, w, budget := p.r, p.w, p.budget
	p.r = -1
	budget.Background(func() {
		if r >= 0 {
			_ = unix.Close(r) // nothing to be written back
		}
		_ = unix.Close(w)
		budget.Give(pipeCost)
	})
}

func (p *eventPipe) id() fdid.ID { return p.inode }

// gone says whether nobody has a reading end any more.
func (p *eventPipe) gone() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return true
	}
	fds := []unix.PollFd{{Fd: int32(p.w)}}
	n, err := unix.Poll(fds, 0)
	return n == 1 && err == nil && fds[0].Revents&unix.POLLERR != 0
}

// close ends the pipe: the program reads what is in it, and then its end. It
// waits for nobody.
func (p *eventPipe) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return
	}
	p.closed = true
	close(p.done)
	if p.waiter != nil {
		_ = p.waiter.SetWriteDeadline(time.Unix(1, 0)) // wakes its goroutine
	}
	if !p.busy {
		p.closeAside()
	}
	p.idle.Broadcast()
}

// enter and leave enclose system calls on w, which are made without the lock.
// The last to leave a closed pipe gives it up.
func (p *eventPipe) enter() {
	p.busy = true
	p.mu.Unlock()
}

func (p *eventPipe) leave() {
	p.mu.Lock()
	p.busy = false
	if p.closed {
		p.closeAside()
	}
	p.idle.Broadcast()
}

// send gives the program a record.
func (p *eventPipe) send(e event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return
	}
	if e.key != nil {
		p.sent[e.key] = sentEvents{p.sent[e.key].n + 1, e.handle()}
	}
	if p.busy || p.waiter != nil { // whoever it is takes it along
		p.backlog.add(e)
		return
	}
	defer p.budget.LeaveInline()
	if !p.budget.EnterInline() {
		p.backlog.add(e)
		p.awaitRoom()
		return
	}
	if p.backlog.empty() {
		copy(p.buf[:], e.record[:p.size])
		p.enter()
		err := p.write(p.buf[:p.size])
		p.leave()
		if err == unix.EAGAIN {
			p.backlog.addFirst(e)
		}
	} else {
		p.backlog.add(e)
	}
	p.flush()
}

// sendAside gives the program a record in a goroutine of the pipe's: for a
// caller that runs no engine, and has other programs to tell.
func (p *eventPipe) sendAside(e event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return
	}
	p.backlog.add(e)
	if !p.busy {
		p.awaitRoom()
	}
}

// write puts records into the pipe: all, or none with EAGAIN if there is no
// room and EPIPE if there is no reader.
func (p *eventPipe) write(b []byte) error {
	for {
		if _, err := unix.Write(p.w, b); err != unix.EINTR {
			return err
		}
	}
}

// flush sends the backlog and reports whether all of it went. The caller holds
// the lock, and nobody is busy.
func (p *eventPipe) flush() bool {
	for !p.closed && !p.backlog.empty() {
		n := p.backlog.encode(p.buf[:], p.size)
		p.enter()
		err := p.write(p.buf[:n])
		p.leave()
		switch err {
		case nil:
			p.backlog.remove(n / p.size)
		case unix.EAGAIN:
			p.awaitRoom()
			return false
		default:
			p.backlog = backlog{} // there is no reader, and will be none
		}
	}
	return true
}

// awaitRoom has a goroutine flush the backlog, now and whenever the program has
// made room. One that cannot be started leaves that to the next event.
func (p *eventPipe) awaitRoom() {
	if p.waiter != nil {
		return
	}
	fd, err := unix.FcntlInt(uintptr(p.w), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return
	}
	p.waiter = os.NewFile(uintptr(fd), "event pipe")
	go p.flushWhenRoom(p.waiter)
}

func (p *eventPipe) flushWhenRoom(f *os.File) {
	conn, err := f.SyscallConn()
	if err == nil {
		err = conn.Write(func(uintptr) bool {
			if !p.budget.EnterWriter(p.done) {
				return true
			}
			defer p.budget.LeaveWriter()
			p.mu.Lock()
			defer p.mu.Unlock()
			for p.busy && !p.closed {
				p.idle.Wait()
			}
			if !p.closed && !p.flush() {
				return false
			}
			p.waiter = nil // under the lock that found nothing left
			return true
		})
	}
	_ = f.Close() // a duplicate
	if err != nil {
		p.mu.Lock()
		p.waiter = nil
		p.mu.Unlock()
	}
}

// forget takes back the events about key that the program has not read, and
// returns how many it has read. It waits for a thread in a system call of the
// pipe: only the program's own requests may call it.
//
// Records in the pipe tell objects apart by their handle, which the program
// chose; if it gave two objects the same one, both lose their events.
func (p *eventPipe) forget(key any) (reported uint32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.busy && !p.closed {
		p.idle.Wait()
	}
	if p.closed {
		return 0
	}
	sent := p.sent[key]
	delete(p.sent, key)
	unread := p.backlog.drop(key)
	if sent.n <= unread {
		return 0
	}
	p.enter()
	dropped, rest := p.takeBack(sent.handle)
	p.leave()
	for i := len(rest); i > 0; i -= p.size { // what found no room any more
		e := event{}
		copy(e.record[:], rest[i-p.size:i])
		e.key = p.keyOf(e.handle())
		p.backlog.addFirst(e)
	}
	p.flush() // there may be room for what waited
	return sent.n - min(unread+dropped, sent.n)
}

// takeBack reads the pipe empty and writes back, in order, all but the records
// with the handle. It returns how many those were, and what found no room.
func (p *eventPipe) takeBack(handle uint64) (dropped uint32, rest []byte) {
	all := p.drain()
	// A program that read part of a record gets the rest of it first.
	torn := len(all) % p.size
	keep := all[:torn]
	for all = all[torn:]; len(all) > 0; all = all[p.size:] {
		if binary.NativeEndian.Uint64(all) == handle {
			dropped++
		} else {
			keep = append(keep, all[:p.size]...)
		}
	}
	for len(keep) > 0 {
		n := min(len(keep), pipeBuf)
		if p.write(keep[:n]) != nil {
			return dropped, keep[len(keep)%p.size:]
		}
		keep = keep[n:]
	}
	return dropped, nil
}

// maxPipe bounds how much is drained: the largest pipe that an ordinary user
// gets (pipe-max-size). The program could write to it as fast as it is read.
const maxPipe = 1 << 20

func (p *eventPipe) drain() []byte {
	r, err := unix.Open("/proc/self/fd/"+strconv.Itoa(p.w),
		unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	defer func() { _ = unix.Close(r) }() // nothing to be written back
	var all []byte
	for buf := make([]byte, 16*pipeBuf); len(all) < maxPipe; {
		n, err := unix.Read(r, buf)
		if err == unix.EINTR {
			continue
		}
		if err != nil || n <= 0 {
			break
		}
		all = append(all, buf[:n]...)
	}
	return all
}

// keyOf finds the object with the handle; nil if there is none.
func (p *eventPipe) keyOf(handle uint64) any {
	for k, s := range p.sent {
		if s.handle == handle {
			return k
		}
	}
	return nil
}
