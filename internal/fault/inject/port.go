package inject

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/gorxe/gorxe/internal/engine"
	"github.com/gorxe/gorxe/internal/fault"
)

// portFaults makes the port of a device appear as the rules for it say. The state at each time when
// a rule begins or ends is applied, in order, however late the goroutine is.
type portFaults struct {
	eng  *engine.Engine
	name string
	down atomic.Bool

	mu   sync.Mutex // below
	sets []*fault.Set
	at   time.Time     // up to which the rules are applied
	stop chan struct{} // closed to end the goroutine; nil: there is none
	done chan struct{} // closed by it
	poke chan struct{}
}

// update replaces the sets with rules for the port. Those that begin now are in force when it
// returns.
func (p *portFaults) update(sets []*fault.Set) {
	p.mu.Lock()
	if len(sets) == 0 && p.stop == nil {
		p.mu.Unlock()
		return
	}
	p.sets = sets
	if p.stop == nil {
		p.stop, p.done, p.poke = make(chan struct{}), make(chan struct{}), make(chan struct{}, 1)
		p.at = time.Now()
		go p.run(p.stop, p.done, p.poke)
	}
	p.advance(time.Now())
	poke := p.poke
	p.mu.Unlock()
	if len(sets) == 0 {
		p.close()
		return
	}
	select {
	case poke <- struct{}{}:
	default:
	}
}

// close ends the goroutine.
func (p *portFaults) close() {
	p.mu.Lock()
	stop, done := p.stop, p.done
	p.stop = nil
	p.mu.Unlock()
	if stop != nil {
		close(stop)
		<-done
	}
}

func (p *portFaults) run(stop, done, poke chan struct{}) {
	defer close(done)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-stop:
			return
		case <-poke:
		case <-timer.C:
		}
		p.mu.Lock()
		next := p.advance(time.Now())
		p.mu.Unlock()
		timer.Reset(time.Until(next))
	}
}

// advance applies what the rules say of the times up to now, and returns the next one at which it
// has to be called. p.mu is locked.
func (p *portFaults) advance(now time.Time) (next time.Time) {
	for {
		var all engine.PortChange
		next = time.Time{}
		for _, set := range p.sets {
			s, change := set.Port(p.name, p.at)
			all.Down = all.Down || s.Down
			all.GIDs = append(all.GIDs, s.GIDs...)
			all.Moved = append(all.Moved, s.Moved...)
			if s.Mbps != 0 {
				all.Mbps = s.Mbps
			}
			if !change.IsZero() && (next.IsZero() || change.Before(next)) {
				next = change
			}
		}
		p.down.Store(all.Down)
		p.eng.AlterPort(&all)
		if next.IsZero() {
			p.at = now
			return now.Add(time.Hour)
		}
		if next.After(now) {
			p.at = now
			return next
		}
		p.at = next
	}
}
