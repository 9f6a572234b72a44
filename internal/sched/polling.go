package sched

import (
	"sync"

	"golang.org/x/sys/unix"
)

// Polling knows on which processors programs poll, from the Takers of several sessions.
type Polling struct {
	tell func(unix.CPUSet)

	mu    sync.Mutex
	count map[int]int // Takers for each processor
}

// NewPolling calls tell with the processors whenever they change, one call at a time.
func NewPolling(tell func(unix.CPUSet)) *Polling {
	return &Polling{tell: tell, count: make(map[int]int)}
}

// move says that the program of a Taker leaves a processor and enters another one. Both are numbers
// plus one, and 0 is none.
func (p *Polling) move(from, to int) {
	if p == nil || from == to {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if to != 0 {
		p.count[to]++
	}
	if from != 0 {
		if p.count[from]--; p.count[from] == 0 {
			delete(p.count, from)
		}
	}
	var cpus unix.CPUSet
	for at := range p.count {
		cpus.Set(at - 1)
	}
	p.tell(cpus)
}
