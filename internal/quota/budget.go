// Package quota limits how much of the daemon the programs of one user may take: memory,
// descriptors, and threads that wait for a program's memory or pipes. So something is left for
// other users.
//
// It knows no kind of object. The code that makes an object states its cost.
package quota

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// Cost is what something takes of the daemon.
type Cost struct {
	Memory  int64 // bytes: of shared queues, and an estimate of the rest
	Files   int   // descriptors
	Threads int   // at most, at a time
}

// add adds times c.
func (u *Cost) add(c Cost, times int) {
	u.Memory += int64(times) * c.Memory
	u.Files += times * c.Files
	u.Threads += times * c.Threads
}

// Budget is what one user may take, and has taken. Its methods may be called by
// several threads at once.
type Budget struct {
	total *Budget // which every cost is taken of, too; nil: none
	spent error   // what Take reports

	mu      sync.Mutex // only that of total is taken under it
	limit   Cost
	used    Cost
	work    []func() // waits for a worker
	workers int

	giving   int           // what is about to be given back
	hangs    int           // of that, what made no progress when somebody waited for it
	progress chan struct{} // closed when one of them is given back; nil: nobody waits
	hooks    hooks

	inline  atomic.Int32  // threads of the engine in system calls on the user's pipes
	writers chan struct{} // a place for each of the pipes' own threads in such calls
}

// ErrSpent reports that the user has taken all that one user may take.
var ErrSpent = errors.New("the user's share of the daemon is used up")

// ErrTotalSpent reports that all users together have taken all that they may take.
var ErrTotalSpent = errors.New("what the daemon has for all users is used up")

// New makes a budget with limits; 0 is no limit.
func New(limit Cost) *Budget {
	return &Budget{limit: limit, spent: ErrSpent, writers: make(chan struct{}, MaxWriters)}
}

// NewTotal makes a budget for all users. Callers use Share and Used only.
func NewTotal(limit Cost) *Budget { return &Budget{limit: limit, spent: ErrTotalSpent} }

// Share makes a budget like New's, for a user. What it takes is taken of b as well.
func (b *Budget) Share(limit Cost) *Budget {
	s := New(limit)
	s.total = b
	return s
}

// Used returns what is taken now.
func (b *Budget) Used() Cost {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.used
}

// Take reserves c. If c is more than is left, owners look for what they no longer need
// (BeforeRefusal). If it still is, Take reserves nothing, and returns ErrSpent or ErrTotalSpent
// with ENOMEM, EMFILE or, for threads, EAGAIN.
//
// It may wait then. So a thread that serves several programs calls TakeNow, and so does one with a
// lock that is needed to give something back.
func (b *Budget) Take(c Cost) error {
	err := b.TakeNow(c)
	if err == nil {
		return nil
	}
	b.reclaim(errors.Is(err, ErrTotalSpent))
	return b.TakeNow(c)
}

// MakeRoom does what Take does before it refuses c, if it would. A caller that takes with a lock
// held calls it before, and then TakeNow.
func (b *Budget) MakeRoom(c Cost) {
	if b.Take(c) == nil {
		b.Give(c)
	}
}

// TakeNow is Take without the look for what is no longer needed.
func (b *Budget) TakeNow(c Cost) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.limit.Memory > 0 && c.Memory > b.limit.Memory-b.used.Memory:
		return fmt.Errorf("%w: %d bytes, with %d of %d in use: %w",
			b.spent, c.Memory, b.used.Memory, b.limit.Memory, unix.ENOMEM)
	case b.limit.Files > 0 && c.Files > b.limit.Files-b.used.Files:
		return fmt.Errorf("%w: %d of %d files in use: %w", b.spent, b.used.Files, b.limit.Files, unix.EMFILE)
	case b.limit.Threads > 0 && c.Threads > b.limit.Threads-b.used.Threads:
		return fmt.Errorf("%w: %d of %d threads in use: %w", b.spent, b.used.Threads, b.limit.Threads, unix.EAGAIN)
	}
	if b.total != nil {
		if err := b.total.TakeNow(c); err != nil {
			return err
		}
	}
	b.used.add(c, 1)
	return nil
}

// Charge takes c even if it is more than is left: it is for what the daemon bounds by other
// means. What goes beyond the limit is missing from later calls of Take.
func (b *Budget) Charge(c Cost) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.total != nil {
		b.total.Charge(c)
	}
	b.used.add(c, 1)
}

// Give undoes a Take or a Charge.
func (b *Budget) Give(c Cost) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.total != nil {
		b.total.Give(c)
	}
	b.used.add(c, -1)
}
