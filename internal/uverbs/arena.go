package uverbs

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// arena is the file that an open of the device is to the program, and that its
// queues are mapped from: a memfd, sparse, in which each queue has a place of
// its own. A place is never given out twice, so that a mapping that the program
// forgot to undo shows nothing of a later queue; there is room enough.
//
// The program holds this file too, with every right. It is sealed against a
// change of size, or the program's ftruncate would end the daemon: an access
// past the end of a mapped file is SIGBUS. Within the size there is none: a page
// that the program punched out is zero again at the next access, and its memory
// was accounted for when the queue was made.
//
// Giving memory back takes the file's lock, which the program can hold for ever
// with a write from memory that does not answer: as for creating a queue, that is
// done in its own requests, or not at all (end).
type arena struct {
	file   int
	ending atomic.Bool

	mu     sync.Mutex
	next   int64 // the first offset not given out
	pieces map[*piece]struct{}
	closed bool
}

// arenaSize is the room of one open: 2^33 queues of the smallest size.
const arenaSize = 1 << 46

const pageSize = 4096

// piece is a part of an arena that the daemon has mapped. Whoever touches mem
// holds mu, for no longer than it takes to copy an element: freeing a queue does
// not depend on what its user is doing.
type piece struct {
	arena *arena
	off   int64

	mu  sync.Mutex // a leaf lock
	mem []byte     // nil: freed
}

func newArena() (*arena, error) {
	fd, err := unix.MemfdCreate("gorxe-uverbs", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, fmt.Errorf("memfd for queues: %w", err)
	}
	if err := unix.Ftruncate(fd, arenaSize); err != nil {
		_ = unix.Close(fd)
		return nil, fmt.Errorf("memfd for queues: size (is RLIMIT_FSIZE unlimited?): %w", err)
	}
	const seals = unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_SEAL
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals); err != nil {
		_ = unix.Close(fd)
		return nil, fmt.Errorf("memfd for queues: seals: %w", err)
	}
	// Offset 0 stays unused: no queue is mistaken for "none".
	return &arena{file: fd, next: pageSize, pieces: make(map[*piece]struct{})}, nil
}

// fd is the daemon's descriptor of the file, which stays the arena's.
func (a *arena) fd() int { return a.file }

// alloc maps a zeroed piece of at least size bytes.
func (a *arena) alloc(size int) (*piece, error) {
	n := (int64(size) + pageSize - 1) &^ (pageSize - 1)
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.closed:
		return nil, fmt.Errorf("queue memory: %w", os.ErrClosed)
	case n <= 0 || n > arenaSize-a.next:
		return nil, fmt.Errorf("queue memory: %w", unix.ENOMEM)
	}
	// Memory now, and an error if there is none, instead of SIGBUS at an access.
	if err := unix.Fallocate(a.file, 0, a.next, n); err != nil {
		return nil, fmt.Errorf("queue memory: %d bytes: %w", n, err)
	}
	mem, err := unix.Mmap(a.file, a.next, int(n), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		a.punch(a.next, n)
		return nil, fmt.Errorf("queue memory: %d bytes: %w", n, err)
	}
	p := &piece{arena: a, off: a.next, mem: mem}
	a.next += n
	a.pieces[p] = struct{}{}
	return p, nil
}

// punch gives memory back. An error (a kernel without it) costs memory until
// the file is closed, and nothing else.
func (a *arena) punch(off, n int64) {
	_ = unix.Fallocate(a.file, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, off, n)
}

// free unmaps the piece and gives its memory back. The program's mapping, if it
// is still there, is of zeroes from then on.
func (p *piece) free() {
	a := p.arena
	a.mu.Lock()
	defer a.mu.Unlock()
	if n := p.unmap(); n > 0 && !a.closed && !a.ending.Load() {
		a.punch(p.off, n)
	}
	delete(a.pieces, p)
}

func (p *piece) unmap() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := len(p.mem)
	if n > 0 {
		_ = unix.Munmap(p.mem) // fails only for what is not mapped
		p.mem = nil
	}
	return int64(n)
}

// end says that the file is about to be closed: queues freed from now on leave
// their memory to that.
func (a *arena) end() { a.ending.Store(true) }

// close unmaps all that is left and gives the file up. What is still in the
// program's hands lives on there.
func (a *arena) close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return
	}
	a.closed = true
	for p := range a.pieces {
		p.unmap()
	}
	clear(a.pieces)
	_ = unix.Close(a.file) // nothing to be written back
}

// memoryErrno is the errno of a queue that could not be made.
func memoryErrno(err error) error {
	if errno := unix.Errno(0); errors.As(err, &errno) && errno == unix.EINVAL {
		return unix.EINVAL
	}
	return unix.ENOMEM
}
