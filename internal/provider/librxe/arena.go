package librxe

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/memfd"
	"github.com/gorxe/gorxe/internal/quota"
)

// arena is the program's file of one open of the device, and has its queues. It is a sparse
// memfd in which each queue has its own place. A place is never used twice, because there is
// enough room. So a mapping that the program forgot to undo shows nothing of a later queue.
//
// The program holds this file too, with every right. It is sealed against a
// change of size, or the program's ftruncate would end the daemon: an access
// past the end of a mapped file is SIGBUS. Within the size there is no
// SIGBUS. A page that the program punched out is zero at the next access, and its memory was
// accounted for when the queue was made.
//
// The daemon maps it in windows, as a process has only so many mappings
// (vm.max_map_count) for the queues of all programs.
//
// Giving memory back takes the file's lock. The program can hold that lock for ever with a
// write from memory that does not answer. So only the program's own requests, or a background
// thread, give memory back; end does not.
type arena struct {
	file      int
	budget    *quota.Budget
	ending    atomic.Bool
	doorbells doorbellLog

	mu      sync.Mutex
	next    int64 // the first offset that no window has
	current *window
	windows map[*window]struct{}
	pieces  map[*piece]struct{}
	held    quota.Cost // of the budget, for windows and pieces
	closed  bool
}

// arenaSize is the room for queues of one open: 2^24 windows.
const arenaSize = 1 << 46

// arenaEnd is the size of the file. Behind the queues is room for direct doorbells
// (doorbelllog.go) of 32 bytes each: nine years at a million a second.
const arenaEnd = 1 << 53

// windowSize is how much of the file is mapped at once, if a queue does not need
// more.
const windowSize = 4 << 20

const pageSize = 4096

// window is a part of the file that the daemon has mapped. Its places are given
// out in order.
type window struct {
	off    int64
	mem    []byte
	filled int64
	pieces int
}

// piece is a part of a window. A thread that accesses mem holds mu, but only while it copies
// an element. So freeing a queue does not depend on the threads that use it.
type piece struct {
	arena  *arena
	window *window
	off    int64
	size   int64

	mu  sync.Mutex // a leaf lock
	mem []byte     // nil: freed
}

// What an open and a window cost besides the queues' memory: estimates, on the safe
// side. There can be only so many mappings (vm.max_map_count).
const (
	openMemory   = 32 << 10
	windowMemory = 64 << 10
)

var openCost = quota.Cost{Memory: openMemory, Files: 1}

// RaiseLimits lifts what may keep a device from being opened: an arena is a file of
// arenaEnd to the limit of file sizes, however little of it is used.
func RaiseLimits() error {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_FSIZE, &limit); err != nil || limit.Cur >= arenaEnd {
		return nil // what is wrong shows when a device is opened
	}
	for _, most := range []uint64{limit.Max, unix.RLIM_INFINITY} { // the second takes CAP_SYS_RESOURCE
		err := unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: most, Max: most})
		if err == nil && most >= arenaEnd {
			return nil
		}
	}
	return fmt.Errorf("the limit of file sizes (RLIMIT_FSIZE) is %d: the memory files of devices are larger: "+
		"start gorxe under ulimit -f unlimited", limit.Max)
}

func newArena(b *quota.Budget) (*arena, error) {
	if err := b.Take(openCost); err != nil {
		return nil, err
	}
	fd, err := makeArenaFile()
	if err != nil {
		b.Give(openCost)
		return nil, err
	}
	// Offset 0 stays unused: no queue is mistaken for "none".
	return &arena{file: fd, budget: b, next: pageSize, held: openCost,
		windows: make(map[*window]struct{}), pieces: make(map[*piece]struct{})}, nil
}

func makeArenaFile() (int, error) {
	fd, err := memfd.Create("gorxe-uverbs")
	if err != nil {
		return -1, fmt.Errorf("memfd for queues: %w", err)
	}
	if err := unix.Ftruncate(fd, arenaEnd); err != nil {
		_ = unix.Close(fd)
		return -1, fmt.Errorf("memfd for queues: size: %w", err)
	}
	const seals = unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_SEAL
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals); err != nil {
		_ = unix.Close(fd)
		return -1, fmt.Errorf("memfd for queues: seals: %w", err)
	}
	return fd, nil
}

// FD is the daemon's descriptor of the file, which stays the arena's.
func (a *arena) fd() int { return a.file }

// alloc maps a zeroed piece of at least size bytes.
func (a *arena) alloc(size int) (*piece, error) {
	n := (int64(size) + pageSize - 1) &^ (pageSize - 1)
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return nil, fmt.Errorf("queue memory: %w", os.ErrClosed)
	}
	if err := a.charge(n); err != nil {
		return nil, fmt.Errorf("queue memory: %w", err)
	}
	w, err := a.windowFor(n)
	if err != nil {
		a.refund(n)
		return nil, fmt.Errorf("queue memory: %d bytes: %w", n, err)
	}
	// Memory now, and an error if there is none, instead of SIGBUS at an access.
	if err := a.fallocate(0, w.off+w.filled, n); err != nil {
		a.drop(w)
		a.refund(n)
		return nil, fmt.Errorf("queue memory: %d bytes: %w", n, err)
	}
	p := &piece{arena: a, window: w, off: w.off + w.filled, size: n, mem: w.mem[w.filled : w.filled+n : w.filled+n]}
	w.filled += n
	w.pieces++
	a.pieces[p] = struct{}{}
	return p, nil
}

// windowFor is one with room for n bytes. A large queue has one of its own.
func (a *arena) windowFor(n int64) (*window, error) {
	if w := a.current; w != nil && n <= int64(len(w.mem))-w.filled {
		return w, nil
	}
	size := max(n, windowSize)
	if size > arenaSize-a.next {
		return nil, unix.ENOMEM
	}
	if err := a.charge(windowMemory); err != nil {
		return nil, err
	}
	mem, err := unix.Mmap(a.file, a.next, int(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		a.refund(windowMemory)
		return nil, err
	}
	w := &window{off: a.next, mem: mem}
	a.next += size
	a.windows[w] = struct{}{}
	if size == windowSize {
		old := a.current
		a.current = w
		if old != nil {
			a.drop(old)
		}
	}
	return w, nil
}

// drop unmaps a window that nobody needs.
func (a *arena) drop(w *window) {
	if w.pieces > 0 || w == a.current {
		return
	}
	_ = unix.Munmap(w.mem) // fails only for what is not mapped
	delete(a.windows, w)
	a.refund(windowMemory)
}

func (a *arena) charge(n int64) error {
	err := a.budget.Take(quota.Cost{Memory: n})
	if err == nil {
		a.held.Memory += n
	}
	return err
}

func (a *arena) refund(n int64) {
	a.budget.Give(quota.Cost{Memory: n})
	a.held.Memory -= n
}

func (a *arena) fallocate(mode uint32, off, n int64) error {
	for {
		if err := unix.Fallocate(a.file, mode, off, n); err != unix.EINTR {
			return err
		}
	}
}

// punch gives memory back, and says whether that worked. An error (a kernel
// without it) costs memory until the file is closed, and nothing else.
func (a *arena) punch(off, n int64) bool {
	return a.fallocate(unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, off, n) == nil
}

// free unmaps the piece and gives its memory back. The program's mapping, if it
// is still there, is of zeroes from then on.
func (p *piece) free() {
	a := p.arena
	a.mu.Lock()
	defer a.mu.Unlock()
	if !p.detach() || a.closed {
		return
	}
	delete(a.pieces, p)
	if !a.ending.Load() && a.punch(p.off, p.size) {
		a.refund(p.size)
	}
	p.window.pieces--
	a.drop(p.window)
}

// detach takes the memory from the piece's users; false if it is freed already.
func (p *piece) detach() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	mapped := p.mem != nil
	p.mem = nil
	return mapped
}

// end says that the file is about to be closed: queues freed from now on leave
// their memory to that.
func (a *arena) end() { a.ending.Store(true) }

// Close unmaps all that is left and gives the file up. The program may hold the
// file for longer: unless keep is set, its memory is taken back even so, and the
// budget has it until then.
func (a *arena) close(keep bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return
	}
	a.closed = true
	for p := range a.pieces {
		p.detach()
	}
	clear(a.pieces)
	a.current = nil
	for w := range a.windows {
		_ = unix.Munmap(w.mem) // fails only for what is not mapped
	}
	clear(a.windows)
	clean := !keep && a.next != pageSize
	if !clean && !a.doorbells.used.Load() {
		a.giveUp()
		return
	}
	a.budget.Background(func() {
		if clean {
			a.punch(pageSize, a.next-pageSize)
		}
		a.doorbells.end(a)
		a.giveUp()
	})
}

func (a *arena) giveUp() {
	_ = unix.Close(a.file) // nothing to be written back
	a.budget.Give(a.held)
}

// queueError is why a queue could not be made, for errnoOf: what is wrong with the
// request, or no memory.
func queueError(err error) error {
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOMEM) {
		return err
	}
	return fmt.Errorf("%w (%w)", unix.ENOMEM, err)
}
