package trap

import "sync"

// helpers are the watchdogs of the receivers that help with direct doorbells. They are started
// when they are needed, and stay until the session ends.
type helpers struct {
	mu      sync.Mutex
	dogs    []*watchdog
	stopped bool
}

// StartHelper implements doorbell.Owner.
func (g *ringer) StartHelper() {
	dog := new(watchdog)
	dog.init(g.s, func(r *receiver) { r.ringer = g; r.help() }, func(f func()) { go f() })
	dog.interval = g.dog.interval
	h := &g.helpers
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.stopped {
		return
	}
	h.dogs = append(h.dogs, dog)
	dog.start()
}

// stop ends them. No more are started.
func (h *helpers) stop() {
	h.mu.Lock()
	h.stopped = true
	dogs := h.dogs
	h.mu.Unlock()
	for _, dog := range dogs {
		dog.stop()
	}
}

// count returns how many were started.
func (h *helpers) count() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.dogs)
}
