package uverbs

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// Budget bounds what the opens of one user take of the daemon, so that others
// find something left: memory, descriptors, and threads, as the program's memory may
// not answer.
type Budget struct {
	mu      sync.Mutex // a leaf lock
	limit   Cost
	used    Cost
	chores  []func() // to be done aside
	workers int
	inline  atomic.Int32  // threads of the engine that write to a pipe
	pipes   chan struct{} // a place for each other one
}

// Cost is what something takes of the daemon.
type Cost struct {
	Memory int64 // bytes: of shared queues, and an estimate of the rest
	Files  int   // descriptors
}

// What things cost besides the queues' memory: estimates, on the safe side. A
// mapping and a pipe cost what they do because there can be only so many
// (vm.max_map_count, pipe-user-pages-soft).
const (
	openMemory   = 32 << 10
	objectMemory = 1 << 10
	qpMemory     = 16 << 10
	windowMemory = 64 << 10
	pipeMemory   = 64 << 10
)

var (
	openCost = Cost{openMemory, 1}
	pipeCost = Cost{pipeMemory, 2} // one to wait for room
)

// ErrSpent: the user has taken all that a user may.
var ErrSpent = errors.New("the user's share of the daemon is used up")

// NewBudget makes a budget that has its limits; 0 is no limit.
func NewBudget(limit Cost) *Budget {
	return &Budget{limit: limit, pipes: make(chan struct{}, maxPipes)}
}

// Used is what is taken now.
func (b *Budget) Used() Cost {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.used
}

// Take reserves c, or nothing: ErrSpent, with ENOMEM or EMFILE.
func (b *Budget) Take(c Cost) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.limit.Memory > 0 && c.Memory > b.limit.Memory-b.used.Memory:
		return fmt.Errorf("%w: %d bytes, with %d of %d in use: %w",
			ErrSpent, c.Memory, b.used.Memory, b.limit.Memory, unix.ENOMEM)
	case b.limit.Files > 0 && c.Files > b.limit.Files-b.used.Files:
		return fmt.Errorf("%w: %d of %d files in use: %w", ErrSpent, b.used.Files, b.limit.Files, unix.EMFILE)
	}
	b.used.Memory += c.Memory
	b.used.Files += c.Files
	return nil
}

// Give undoes a Take.
func (b *Budget) Give(c Cost) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.used.Memory -= c.Memory
	b.used.Files -= c.Files
}

// How many threads the programs of one user hold up if they do not answer: with
// chores, with events that those who run the engine bring, and with events brought
// by the pipes' own goroutines.
const (
	maxWorkers = 4
	maxInline  = 4
	maxPipes   = 16
)

// aside does something that a program can make take for ever, such as to close a
// pipe whose reader does not answer. What it gives back stays taken until then;
// there are only so many threads for it, after which a user waits for oneself.
func (b *Budget) aside(chore func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.chores = append(b.chores, chore)
	if b.workers < maxWorkers {
		b.workers++
		go b.work()
	}
}

func (b *Budget) work() {
	for {
		b.mu.Lock()
		if len(b.chores) == 0 {
			b.workers--
			b.chores = nil
			b.mu.Unlock()
			return
		}
		chore := b.chores[0]
		b.chores[0] = nil
		b.chores = b.chores[1:]
		b.mu.Unlock()
		chore()
	}
}

// enterPipe waits until few enough threads are in system calls on the user's
// pipes; false if done is closed before.
func (b *Budget) enterPipe(done <-chan struct{}) bool {
	select {
	case b.pipes <- struct{}{}:
		return true
	case <-done:
		return false
	}
}

func (b *Budget) leavePipe() {
	<-b.pipes
}

// costOf is what an object of a type costs without what is in it.
func costOf(typ objectType) int64 {
	if typ == objQP {
		return qpMemory
	}
	return objectMemory
}

// charge takes n bytes for an object, which are given back with it.
func (k *call) charge(o *object, n int64) error {
	if err := k.f.budget.Take(Cost{Memory: n}); err != nil {
		return err
	}
	o.cost += n
	return nil
}

// discharge gives back what the object cost.
func (f *File) discharge(o *object) {
	f.budget.Give(Cost{Memory: o.cost})
	o.cost = 0
}
