package librxe

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/provider"
	"github.com/gorxe/gorxe/internal/quota"
	"github.com/gorxe/gorxe/internal/sys/memfd"
	"github.com/gorxe/gorxe/rxe"
)

// arena is the file behind the program's descriptor, from which the program maps its
// queues. It is a sparse memfd in which each queue has a place of its own. The arena takes
// windows from the context's offsets, and a place is used once.
//
// The program has all rights to this file. It is sealed against a change of size, because
// the program's ftruncate would end the daemon: an access beyond the end of a mapped file
// is SIGBUS. A page that the program punched out is zero at the next access. Under
// vm.overcommit_memory=2 the kernel may have no memory for it: that access is SIGBUS (mm/shmem.c:
// shmem_inode_acct_blocks), and the program loses the queue (piece.unlock).
//
// The daemon maps the file in windows, because the queues of all programs would be too
// many mappings for one process (vm.max_map_count).
//
// Giving memory back takes the file's lock. The program can hold that lock for ever, with
// a write from memory that does not answer. So memory is given back in the program's own
// requests, or by a thread of the budget, or not at all (end).
type arena struct {
	file      int
	budget    *quota.Budget
	offsets   *provider.Offsets
	ending    atomic.Bool
	made      atomic.Uint64 // pieces
	doorbells doorbellLog

	mu      sync.Mutex
	used    bool // a window was made
	current *window
	windows map[*window]struct{}
	pieces  map[*piece]struct{}
	held    quota.Cost // of the budget, for windows and pieces
	closed  bool
}

const pageSize = provider.PageSize

// window is a part of the file that the daemon has mapped. It is filled in order.
type window struct {
	off    int64
	mem    []byte
	filled int64
	pieces int
}

// piece is the memory of one queue, a part of a window. A thread that accesses mem does so
// between lock and unlock, for no longer than it takes to copy an element. So free never waits
// for long.
type piece struct {
	arena  *arena
	window *window
	off    int64
	size   int64

	mu   sync.Mutex // a leaf lock
	mem  []byte     // nil: freed, or lost
	lost bool       // an access failed
}

// RaiseLimits raises the limit of file sizes, if it is too low to open a device. To that
// limit an arena has the size arenaEnd, however little of it is used.
func RaiseLimits() error {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_FSIZE, &limit); err != nil || limit.Cur >= arenaEnd {
		return nil // Open reports the error
	}
	// the second needs CAP_SYS_RESOURCE
	for _, most := range []uint64{limit.Max, unix.RLIM_INFINITY} {
		err := unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: most, Max: most})
		if err == nil && most >= arenaEnd {
			return nil
		}
	}
	return fmt.Errorf("the limit of file sizes (RLIMIT_FSIZE) is %d: the memory files of devices are larger: "+
		"start gorxe under ulimit -f unlimited", limit.Max)
}

func newArena(b *quota.Budget, offsets *provider.Offsets) (*arena, error) {
	if err := b.Take(openCost); err != nil {
		return nil, err
	}
	fd, err := makeArenaFile()
	if err != nil {
		b.Give(openCost)
		return nil, err
	}
	return &arena{file: fd, budget: b, offsets: offsets, held: openCost,
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

// fd returns the daemon's descriptor of the file. It stays the arena's.
func (a *arena) fd() int { return a.file }

// alloc maps a zeroed piece of at least size bytes.
func (a *arena) alloc(size int) (*piece, error) {
	n := provider.WholePages(int64(size))
	a.budget.MakeRoom(quota.Cost{Memory: n + windowMemory}) // without the lock: it may wait
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
	// Allocate memory now: without it, an access would be SIGBUS.
	if err := a.fallocate(0, w.off+w.filled, n); err != nil {
		a.drop(w)
		a.refund(n)
		return nil, fmt.Errorf("queue memory: %d bytes: %w", n, err)
	}
	p := &piece{arena: a, window: w, off: w.off + w.filled, size: n, mem: w.mem[w.filled : w.filled+n : w.filled+n]}
	w.filled += n
	w.pieces++
	a.pieces[p] = struct{}{}
	a.made.Add(1)
	return p, nil
}

// windowFor returns a window with room for n bytes. A large queue has its own.
func (a *arena) windowFor(n int64) (*window, error) {
	if w := a.current; w != nil && n <= int64(len(w.mem))-w.filled {
		return w, nil
	}
	size := max(n, windowSize)
	if err := a.charge(windowMemory); err != nil {
		return nil, err
	}
	off, err := a.offsets.Take(size)
	if err != nil {
		a.refund(windowMemory)
		return nil, err
	}
	mem, err := unix.Mmap(a.file, off, int(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		a.refund(windowMemory)
		return nil, err
	}
	w := &window{off: off, mem: mem}
	a.used = true
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

// drop unmaps a window that holds no queue.
func (a *arena) drop(w *window) {
	if w.pieces > 0 || w == a.current {
		return
	}
	_ = unix.Munmap(w.mem) // fails only for what is not mapped
	delete(a.windows, w)
	a.refund(windowMemory)
}

func (a *arena) charge(n int64) error {
	err := a.budget.TakeNow(quota.Cost{Memory: n})
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

// punch gives memory back and reports whether that worked. If it fails (an old kernel),
// the memory is given back when the file is closed.
func (a *arena) punch(off, n int64) bool {
	return a.fallocate(unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, off, n) == nil
}

// free gives the memory of the piece back. A mapping that the program still has reads as
// zeros.
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

// detach takes the memory from the users of the piece. It returns false if it was freed.
func (p *piece) detach() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	mapped := p.mem != nil || p.lost
	p.mem, p.lost = nil, false
	return mapped
}

// end says that close follows. Queues that are freed now leave their memory to close.
func (a *arena) end() { a.ending.Store(true) }

// close unmaps all windows and closes the file. The program may keep the file open. Its
// memory is taken back nevertheless, unless keep is set.
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
	clean := !keep && a.used
	if !clean && !a.doorbells.used.Load() {
		a.giveUp()
		return
	}
	a.budget.Background(func() {
		if clean {
			a.punch(0, provider.OffsetsEnd)
		}
		a.doorbells.end(a)
		a.giveUp()
	})
}

func (a *arena) giveUp() {
	_ = unix.Close(a.file) // there is nothing to write back
	a.budget.Give(a.held)
}

// queueError adds ENOMEM to an error that is neither EINVAL nor ENOMEM.
func queueError(err error) error {
	if errors.Is(err, unix.EINVAL) || errors.Is(err, rxe.ErrInvalid) || errors.Is(err, unix.ENOMEM) {
		return err
	}
	return fmt.Errorf("%w (%w)", unix.ENOMEM, err)
}
