package mlx5

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"
)

// doorbells says who rings at which register. A store to a register says that something is posted,
// and not where: the next store may overwrite it before anybody looks. So the doorbell records of
// all queue pairs of a register tell.
type doorbells struct {
	mu        sync.Mutex // a leaf lock, of those that change the lists
	registers []*register
	given     []*register        // those that the device gives to queue pairs
	cqs       []*completionQueue // those with a channel
	current   atomic.Pointer[ringing]
	rouse     func() // the poller, when that has changed; does not block
}

// register is where a program rings for some queue pairs. Of a page that the program asked for, all
// registers are one: the program does not say which of them a queue pair uses.
type register struct {
	words []word
	arm   []word       // where programs say that they have asked for events
	qps   []*queuePair // does not change: there is a new list
}

// ringing is what the poller needs of that. It does not change.
type ringing struct {
	words []word
	pages map[*page]bool // those of words
	qps   [][]*queuePair // for each word; nil: the word for arming
	cqs   []*completionQueue
	stops bool // each store shall wait, because somebody asks who rings
}

// wordsOf returns the words of registers of a page. A register has two halves, which programs use
// in turn.
func wordsOf(p *page, registers ...int) (words []word) {
	for _, i := range registers {
		at := registersAt + i*registerSize
		words = append(words, word{p, at}, word{p, at + registerSize/2})
	}
	return words
}

// give makes the registers that the device gives to queue pairs. Each of these lists of pages has
// them, because libmlx5 maps one of the lists.
func (b *doorbells) give(lists ...[]*page) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range uarPages * registersPerPage {
		r := new(register)
		for _, pages := range lists {
			r.words = append(r.words, wordsOf(pages[i/registersPerPage], i%registersPerPage)...)
			if i == 0 {
				r.arm = append(r.arm, word{pages[0], armAt})
			}
		}
		b.given = append(b.given, r)
	}
	b.registers = append(b.registers, b.given...)
	b.publish()
}

// addPage adds the registers of a page that the program asked for.
func (b *doorbells) addPage(p *page) *register {
	b.mu.Lock()
	defer b.mu.Unlock()
	r := &register{words: wordsOf(p, 0, 1), arm: []word{{p, armAt}}}
	b.registers = append(b.registers, r)
	b.publish()
	return r
}

// removePage ends looking at a page, as long as no queue pair uses it.
func (b *doorbells) removePage(r *register) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(r.qps) > 0 {
		return false
	}
	b.registers = without(b.registers, r)
	b.publish()
	return true
}

// addQP adds a queue pair to a register; nil: to the one of the device with the fewest. It returns
// the index of that one. The first one has no lock in libmlx5 and takes no copies of requests
// (mlx5.c: need_uuar_lock), so it is left out.
func (b *doorbells) addQP(q *queuePair, r *register) (index int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if r == nil {
		index = 1
		for i := 2; i < len(b.given); i++ {
			if len(b.given[i].qps) < len(b.given[index].qps) {
				index = i
			}
		}
		r = b.given[index]
	}
	q.register = r
	r.qps = append(slices.Clone(r.qps), q)
	b.publish()
	return index
}

func (b *doorbells) removeQP(q *queuePair) {
	b.mu.Lock()
	defer b.mu.Unlock()
	q.register.qps = without(q.register.qps, q)
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
	r := &ringing{cqs: b.cqs, pages: make(map[*page]bool)}
	for _, of := range b.registers {
		if len(of.qps) > 0 {
			r.add(of.words, of.qps)
			r.stops = r.stops || slices.ContainsFunc(of.qps, func(q *queuePair) bool { return q.rings != nil })
		}
		if len(b.cqs) > 0 {
			r.add(of.arm, nil)
		}
	}
	b.current.Store(r)
	b.rouse()
}

// stops reports whether each store shall wait.
func (b *doorbells) stops() bool {
	r := b.current.Load()
	return r != nil && r.stops
}

// pages returns those where the poller looks.
func (b *doorbells) pages() []*page {
	r := b.current.Load()
	if r == nil {
		return nil
	}
	return slices.Collect(maps.Keys(r.pages))
}

func (r *ringing) add(words []word, qps []*queuePair) {
	r.words = append(r.words, words...)
	for _, w := range words {
		r.qps, r.pages[w.page] = append(r.qps, qps), true
	}
}
