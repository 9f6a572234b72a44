package eventfile

import (
	"encoding/binary"
	"fmt"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/fdid"
	"github.com/gorxe/gorxe/internal/quota"
)

// Pipe carries records of one size to the program, which reads them as it
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
type Pipe struct {
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

// Event is one record, and what it is about; key may be nil.
type Event struct {
	Record [maxEventSize]byte
	Key    any
}

// handle is the object as the program knows it, with which records begin.
func (e *Event) handle() uint64 { return binary.NativeEndian.Uint64(e.Record[:]) }

// sentEvents says how many events an object had.
type sentEvents struct {
	n      uint32
	handle uint64
}

// pipeMemory is an estimate, on the safe side: the kernel limits how much memory a
// user's pipes take (pipe-user-pages-soft).
const pipeMemory = 64 << 10

// PipeCost is what a pipe takes; one of the files waits for room in it.
var PipeCost = quota.Cost{Memory: pipeMemory, Files: 2}

// maxEventSize is the largest record: struct ib_uverbs_async_event_desc.
const maxEventSize = 16

// pipeBuf is how much a write to a pipe takes as a whole or not at all
// (PIPE_BUF), in whole records.
const pipeBuf = 4096

func NewPipe(size int, budget *quota.Budget) (*Pipe, error) {
	if err := budget.Take(PipeCost); err != nil {
		return nil, fmt.Errorf("event pipe: %w", err)
	}
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
		budget.Give(PipeCost)
		return nil, fmt.Errorf("event pipe: %w", err)
	}
	p := &Pipe{size: size, r: fds[0], w: fds[1], sent: make(map[any]sentEvents), budget: budget,
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
		p.Close()
		return nil, fmt.Errorf("event pipe: %w", err)
	}
	p.inode = fdid.FromStat(&st)
	return p, nil
}

// FD is the reading end, to be given to the program; -1 after HandedOver.
func (p *Pipe) FD() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.r
}

// HandedOver gives up the daemon's reading end: the program has its own. As
// forget it is for the program's own requests.
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

// closeAside gives the ends of the pipe up, which takes the pipe's lock as well
// (pipe_release). The caller holds the lock.
func (p *Pipe) closeAside() {
	r, w, budget := p.r, p.w, p.budget
	p.r = -1
	budget.Background(func() {
		if r >= 0 {
			_ = unix.Close(r) // nothing to be written back
		}
		_ = unix.Close(w)
		budget.Give(PipeCost)
	})
}

func (p *Pipe) ID() fdid.ID { return p.inode }

// ReaderGone says whether nobody has a reading end any more.
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

// Close ends the pipe: the program reads what is in it, and then its end. It
// waits for nobody.
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
		p.closeAside()
	}
	p.idle.Broadcast()
}

// enter and leave enclose system calls on w, which are made without the lock.
// The last to leave a closed pipe gives it up.
func (p *Pipe) enter() {
	p.busy = true
	p.mu.Unlock()
}

func (p *Pipe) leave() {
	p.mu.Lock()
	p.busy = false
	if p.closed {
		p.closeAside()
	}
	p.idle.Broadcast()
}
