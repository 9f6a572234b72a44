package eventfile

import (
	"fmt"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/quota"
	"github.com/gorxe/gorxe/internal/sys/fdid"
)

// Level is the descriptor of a file whose records the program reads with other calls than
// read(2). It is a pipe that gets one byte for each record, so that poll(2) finds it
// readable while there are records, and epoll with EPOLLET reports each new one.
//
// To take a byte back costs three system calls. So the bytes of records that were taken stay
// until there is no record, or no room for the next one.
//
// Add says how many records there are. It may be called with locks held. Sync then brings
// the pipe to what fits that number. One thread at a time does so: a program can block it in
// the pipe (see Pipe).
type Level struct {
	budget *quota.Budget
	id     fdid.ID

	mu     sync.Mutex // a leaf lock, not held in system calls
	idle   *sync.Cond // of mu: no thread makes system calls on w
	want   int        // records
	fresh  int        // records that have no byte yet
	have   int        // bytes in the pipe, also of records that were taken
	busy   bool       // a thread makes system calls on w
	failed bool       // the pipe refuses: the program has written to it, or closed it
	closed bool
	w      int // the writing end, non-blocking
	r      int // the reading end, until the program has its own; -1: closed
}

// maxLevel is how many bytes the pipe gets. It is what the smallest pipe holds.
const maxLevel = pipeBuf

// Access is what poll(2) says of a file without records.
type Access int

const (
	// ReadOnly files can never be written to.
	ReadOnly Access = iota
	// ReadWrite files can always be written to. The program's end is open for both, so poll
	// does not report that this process has ended.
	ReadWrite
)

// NewLevel makes the descriptor of a file without records.
func NewLevel(budget *quota.Budget, access Access) (*Level, error) {
	r, w, id, err := openEnds(budget)
	if err != nil {
		return nil, err
	}
	l := &Level{budget: budget, id: id, r: r, w: w}
	l.idle = sync.NewCond(&l.mu)
	if access == ReadWrite {
		if err := l.openBoth(); err != nil {
			l.Close()
			return nil, fmt.Errorf("event pipe: %w", err)
		}
	}
	return l, nil
}

// openBoth replaces the reading end by one that can be written to.
func (l *Level) openBoth() error {
	both, err := unix.Open("/proc/self/fd/"+strconv.Itoa(l.r), unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	_ = unix.Close(l.r) // nothing to be written back
	l.r = both
	return nil
}

// FD returns the reading end, which becomes the program's; -1 after HandedOver.
func (l *Level) FD() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.r
}

// ID returns what the program's descriptors refer to.
func (l *Level) ID() fdid.ID { return l.id }

// Poll returns the writing end. poll(2) reports POLLERR on it when the program has closed
// the last of its descriptors. It stays the Level's, and open until Close.
func (l *Level) Poll() int { return l.w }

// HandedOver closes the daemon's reading end, because the program has its own.
func (l *Level) HandedOver() {
	l.mu.Lock()
	r := l.r
	l.r = -1
	l.mu.Unlock()
	if r >= 0 {
		_ = unix.Close(r) // nothing to be written back
	}
}

// Add changes the number of records by n. A call of Sync has to follow.
func (l *Level) Add(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.want += n
	l.fresh += max(n, 0)
}

// step returns how many bytes to write, or to take back if it is negative. It is 0 when the
// pipe is as it shall be. mu is held.
func (l *Level) step() int {
	if l.want <= 0 {
		l.fresh = 0
		return -l.have
	}
	l.fresh = min(l.fresh, l.want)
	room := maxLevel - l.have
	if stale := min(l.have-(l.want-l.fresh), l.have-1); l.fresh > room && stale > 0 {
		return -stale // one stays, because there are records
	}
	n := min(l.fresh, room)
	l.fresh = 0
	return n
}

// Sync makes the pipe readable if there are records, and empty if there are none. When it
// returns, that is so, even if another thread was at it: a program that has its last record
// must not find the pipe readable. Only the program's own requests may call Sync, because the
// program can block it.
func (l *Level) Sync() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.busy {
		l.idle.Wait()
	}
	l.sync()
}

// sync is Sync, but leaves the work to the thread that is at it. mu is held.
func (l *Level) sync() {
	for !l.busy && !l.closed && !l.failed {
		step := l.step()
		if step == 0 {
			return
		}
		l.busy = true
		l.mu.Unlock()
		n := l.change(step)
		l.mu.Lock()
		l.busy = false
		l.idle.Broadcast()
		l.have += n
		l.failed = n == 0
		if l.closed {
			l.closeInBackground()
		}
	}
}

// SyncAside is Sync in one of the user's threads, for a caller that serves other programs too. No
// two threads wait for the pipe.
func (l *Level) SyncAside() {
	l.budget.Background(func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.sync()
	})
}

// change writes n bytes or, if n is negative, takes back as many. It returns by how much
// the content has changed.
func (l *Level) change(n int) int {
	var buf [maxLevel]byte
	if n > 0 {
		return max(retry(func() (int, error) { return unix.Write(l.w, buf[:n]) }), 0)
	}
	r, err := reopen(l.w)
	if err != nil {
		return 0
	}
	defer func() { _ = unix.Close(r) }() // nothing to be written back
	return -max(retry(func() (int, error) { return unix.Read(r, buf[:-n]) }), 0)
}

// retry makes a call until no signal interrupts it.
func retry(call func() (int, error)) int {
	for {
		if n, err := call(); err != unix.EINTR {
			return n
		}
	}
}

// Close ends the pipe. It does not wait.
func (l *Level) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return
	}
	l.closed = true
	if !l.busy {
		l.closeInBackground()
	}
}

// closeInBackground closes the ends of the pipe. The caller holds l.mu.
func (l *Level) closeInBackground() {
	closeEnds(l.r, l.w, l.budget)
	l.r = -1
}
