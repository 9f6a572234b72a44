package sched

import (
	"sync"
	"time"
)

// Stops is how many posts of a watched program may be stopped now.
type Stops struct {
	mu    sync.Mutex // a leaf lock
	spent int
	at    time.Duration // Now of the last that came back
}

// Take spends a stop, and reports whether there is another one.
func (s *Stops) Take(now time.Duration) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	back := (now - s.at) / StopEvery
	s.spent = max(0, s.spent-int(min(back, MostStops)))
	s.at += back * StopEvery
	s.spent = min(s.spent+1, MostStops)
	return s.spent < MostStops
}

// Allow gives back some stops.
func (s *Stops) Allow(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.spent = min(s.spent, MostStops-n)
}
