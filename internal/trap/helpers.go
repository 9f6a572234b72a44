package trap

import "sync"

// helpers are the duties of the receivers that help with direct doorbells. They are started
// when they are needed, and stay until the session ends.
type helpers struct {
	mu      sync.Mutex
	duties  []*duty
	stopped bool
}

// StartHelper implements doorbell.Owner.
func (g *ringer) StartHelper() {
	d := new(duty)
	d.init(g.s, func(r *receiver) { r.ringer = g; r.help() }, func(f func()) { go f() })
	h := &g.helpers
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.stopped {
		return
	}
	h.duties = append(h.duties, d)
	d.startHelper()
}

// stop ends them. No more are started.
func (h *helpers) stop() {
	h.mu.Lock()
	h.stopped = true
	duties := h.duties
	h.mu.Unlock()
	for _, d := range duties {
		d.stop()
	}
}

// count returns how many were started.
func (h *helpers) count() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.duties)
}
