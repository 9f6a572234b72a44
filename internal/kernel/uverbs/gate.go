package uverbs

import "sync"

// gate counts the calls in progress of a file: teardown waits for the last one. It is a leaf lock,
// and not held during a call.
type gate struct {
	mu      sync.Mutex
	calls   int
	pending bool          // teardown must run when there are no calls
	running bool          // teardown runs
	closed  bool          // Close was called
	done    bool          // everything is given back
	settled chan struct{} // closed when teardown has run for the first time
}

// enter begins a call. It returns false while the file ends.
func (g *gate) enter() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed || g.pending || g.running {
		return false
	}
	g.calls++
	return true
}

// leave ends a call. It reports whether teardown must run now.
func (g *gate) leave() (teardown bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.calls--
	return g.mayTearDown()
}

// end requests teardown. closing says that Close was called. It reports whether teardown must run
// now.
func (g *gate) end(closing bool) (teardown bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = g.closed || closing
	g.pending = g.pending || !g.done
	return g.mayTearDown()
}

// begin begins teardown, if that must run now. closing reports whether Close was called.
func (g *gate) begin() (closing, ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.mayTearDown() {
		return false, false
	}
	g.running, g.pending = true, false
	return g.closed, true
}

// finish ends teardown, after which everything is given back if closing is set.
func (g *gate) finish(closing bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.running, g.done = false, closing
	select {
	case <-g.settled:
	default:
		close(g.settled)
	}
}

// mayTearDown reports whether teardown is requested, and nothing is in its way; g.mu is held.
func (g *gate) mayTearDown() bool { return g.calls == 0 && g.pending && !g.running }
