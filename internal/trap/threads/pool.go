package threads

import (
	"runtime"
	"sync"
)

// A Pool has threads for what may block. A thread does one thing at a time, and Go's other
// goroutines never run on it.
type Pool struct {
	mu      sync.Mutex
	users   int
	resting []chan func() // a thread waits at each
	busy    int
}

func (p *Pool) join() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.users++
}

func (p *Pool) leave() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.users--; p.users > 0 {
		return
	}
	for _, next := range p.resting {
		close(next)
	}
	p.resting = nil
}

// Go has a thread call f, and does not wait for it.
func (p *Pool) Go(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.busy++
	if last := len(p.resting) - 1; last >= 0 {
		p.resting[last] <- f // there is room for one
		p.resting = p.resting[:last]
		return
	}
	go p.work(f)
}

// Busy returns how many threads have something to do.
func (p *Pool) Busy() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.busy
}

// work is a thread. Go ends a thread when a goroutine that is locked to it ends
// (runtime.LockOSThread). An unlocked goroutine would leave it to Go, which keeps it for good.
func (p *Pool) work(f func()) {
	runtime.LockOSThread()
	next := make(chan func(), 1)
	for ok := true; ok; f, ok = <-next {
		f()
		if !p.rest(next) {
			return
		}
	}
}

// rest enters a thread that is done. It reports false if there are enough of these.
func (p *Pool) rest(next chan func()) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.busy--
	if p.users == 0 || len(p.resting) >= maxResting {
		return false
	}
	p.resting = append(p.resting, next)
	return true
}
