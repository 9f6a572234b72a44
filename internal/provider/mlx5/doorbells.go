package mlx5

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/gorxe/gorxe/internal/provider"
)

// doorbells says who rings at which register. A store to a register says that something is posted,
// and not where: the next store may overwrite it before anybody looks. So the doorbell records of
// all queue pairs of a register tell.
type doorbells struct {
	mu        sync.Mutex // a leaf lock, of those that change the lists
	registers [registers][]*queuePair
	cqs       []*completionQueue // those with a channel
	current   atomic.Pointer[ringing]
}

const registers = uarPages * registersPerPage

// ringing is what the poller needs of that. It does not change.
type ringing struct {
	words []int          // where the registers' words are in the pages
	qps   [][]*queuePair // for each word; nil: the word for arming
	cqs   []*completionQueue
}

// addQP gives a queue pair a register: one with the fewest. The first one has no lock in libmlx5
// and takes no copies of requests (mlx5.c: need_uuar_lock), so it is left out.
func (b *doorbells) addQP(q *queuePair) (register int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	register = 1
	for i := 2; i < registers; i++ {
		if len(b.registers[i]) < len(b.registers[register]) {
			register = i
		}
	}
	b.registers[register] = append(slices.Clone(b.registers[register]), q)
	b.publish()
	return register
}

func (b *doorbells) removeQP(q *queuePair) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.registers[q.register] = without(b.registers[q.register], q)
	b.publish()
}

func (b *doorbells) addCQ(q *completionQueue) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.cqs = append(slices.Clone(b.cqs), q)
	b.publish()
}

func (b *doorbells) removeCQ(q *completionQueue) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.cqs = without(b.cqs, q)
	b.publish()
}

func without[T comparable](list []T, one T) []T {
	return slices.DeleteFunc(slices.Clone(list), func(x T) bool { return x == one })
}

// publish tells the poller. mu is held.
func (b *doorbells) publish() {
	r := &ringing{cqs: b.cqs}
	if len(b.cqs) > 0 {
		r.words, r.qps = append(r.words, armAt), append(r.qps, nil)
	}
	for i, qps := range b.registers {
		if len(qps) == 0 {
			continue
		}
		at := i/registersPerPage*provider.PageSize + registersAt + i%registersPerPage*registerSize
		r.words = append(r.words, at, at+registerSize/2)
		r.qps = append(r.qps, qps, qps)
	}
	b.current.Store(r)
}
