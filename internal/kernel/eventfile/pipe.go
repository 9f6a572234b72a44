package eventfile

import (
	"encoding/binary"
	"fmt"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/quota"
	"github.com/gorxe/gorxe/internal/sys/fdid"
)

// Pipe carries records of one size to the program, which reads them as it reads the
// kernel's event files. Because it is a pipe, read, poll and epoll need no help.
//
// libibverbs follows the pointer in each event. When it destroys an object it waits
// until the program has acknowledged as many of the object's events as were read. So
// the daemon counts what it sends for each object. Forget takes the unread events back: it
// reads the pipe empty, drops the object's events, and writes the rest again.
//
// The daemon keeps no reading end. So it sees when the program has closed its own
// (EPIPE, POLLERR). Forget opens one through /proc while it needs it.
//
// Send is called with a QP locked. Its write never waits for room, but it may wait for
// the pipe's lock. A reader holds that lock for ever if the memory that it reads into
// does not answer (userfaultfd). The engine's own accesses to that program's memory can
// block in the same way, and the threads that run the engine are prepared for it.
//
// One thread at a time makes system calls on a pipe (busy). Other threads do not wait
// for it: they leave their events in the backlog, and it sends them. quota.Budget limits
// how many threads are in system calls on all pipes of a user.
//
// A socket does not have such a lock. But a reading end of a socket cannot be opened
// again, so the daemon could not see that the program has closed its own.
type Pipe struct {
	size   int // of a record
	id     fdid.ID
	budget *quota.Budget
	done   chan struct{} // closed with the pipe

	mu      sync.Mutex // a leaf lock, not held in calls that may wait
	idle    *sync.Cond // busy became false, or closed became true
	busy    bool       // a thread makes system calls on w
	closed  bool
	w       int // writing end, non-blocking
	r       int // reading end, until the program has its own; -1: closed
	sent    map[any]sentEvents
	backlog backlog
	waiter  *os.File      // w again, on which a goroutine waits for room; nil: none
	buf     [pipeBuf]byte // of the thread that is busy
}

// Event is one record, and the object that it is about. Key may be nil.
type Event struct {
	Record [maxEventSize]byte
	Key    any
}

// handle returns the name that the program gave the object. Each record begins with it.
func (e *Event) handle() uint64 { return binary.NativeEndian.Uint64(e.Record[:]) }

// sentEvents counts the events of an object.
type sentEvents struct {
	n      uint32
	handle uint64
}

// NewPipe makes a pipe for records of size bytes.
func NewPipe(size int, budget *quota.Budget) (*Pipe, error) {
	r, w, id, err := openEnds(budget)
	if err != nil {
		return nil, err
	}
	// The kernel's event files block until told otherwise. The flag is the description's: w
	// keeps its own.
	if err := unix.SetNonblock(r, false); err != nil {
		closeEnds(r, w, budget)
		return nil, fmt.Errorf("event pipe: %w", err)
	}
	p := &Pipe{size: size, id: id, budget: budget, done: make(chan struct{}),
		r: r, w: w, sent: make(map[any]sentEvents)}
	p.idle = sync.NewCond(&p.mu)
	return p, nil
}

// FD returns the reading end, which the program will get; -1 after HandedOver.
func (p *Pipe) FD() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.r
}

// HandedOver closes the daemon's reading end, because the program has its own now. Like
// Forget it may block, so only the program's own requests call it.
func (p *Pipe) HandedOver() {
	if r := p.takeReader(); r >= 0 {
		_ = unix.Close(r) // nothing to be written back
	}
}

func (p *Pipe) takeReader() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := p.r
	p.r = -1
	return r
}

// closeInBackground closes the ends of the pipe. The caller holds p.mu.
func (p *Pipe) closeInBackground() {
	closeEnds(p.r, p.w, p.budget)
	p.r = -1
}

// ID returns what the program's descriptors refer to.
func (p *Pipe) ID() fdid.ID { return p.id }

// Poll returns the writing end, of which poll(2) reports POLLERR when the program has closed the
// last reading end.
func (p *Pipe) Poll() int { return p.w }

// ReaderGone reports whether the program has closed its last reading end.
func (p *Pipe) ReaderGone() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return true
	}
	fds := []unix.PollFd{{Fd: int32(p.w)}}
	n, err := unix.Poll(fds, 0)
	return n == 1 && err == nil && fds[0].Revents&unix.POLLERR != 0
}

// Close ends the pipe. The program reads what is in it, and then end of file. Close
// does not block.
func (p *Pipe) Close() {
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
		p.closeInBackground()
	}
	p.idle.Broadcast()
}

// enter and leave enclose system calls on w, which are made without p.mu. The last
// thread to leave a closed pipe closes its ends.
func (p *Pipe) enter() {
	p.busy = true
	p.mu.Unlock()
}

func (p *Pipe) leave() {
	p.mu.Lock()
	p.busy = false
	if p.closed {
		p.closeInBackground()
	}
	p.idle.Broadcast()
}
