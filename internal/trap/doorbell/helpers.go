package doorbell

import "sync/atomic"

// Helpers are threads that take doorbells beside the receiver of doorbells. Programs that poll
// never give up their processors, so the scheduler gives one thread a share that is the
// smaller, the more of them there are. So a watch may have as many threads with work as it
// has programs with work. A helper that has nothing to do keeps no thread.

// Extra counts these threads. The watches of a session share it. The zero value is ready.
type Extra struct{ count atomic.Int32 }

// Take counts one more, and reports whether there may be one.
func (e *Extra) Take() bool {
	if e.count.Add(1) <= maxExtra {
		return true
	}
	e.Give()
	return false
}

// Give counts one less.
func (e *Extra) Give() { e.count.Add(-1) }

// helpers are a watch's.
type helpers struct {
	extra  *Extra
	count  int
	idle   int // of them wait in Join
	wanted int // of the idle ones were told to work
}

// wantHelper is called when a device has used up its share while others wait; w.mu is held. It
// makes an idle helper work, or reports that one should be started.
func (w *Watch) wantHelper() (start bool) {
	h := &w.helpers
	switch {
	case w.stopped:
		return false
	case h.wanted < h.idle:
		h.wanted++
		w.work.Signal()
		return false
	case h.count < len(w.watches)-1 && h.extra.Take():
		h.count++
		return true
	default:
		return false
	}
}

// Join waits until a helper is needed. It returns false when the watch has stopped. A new
// helper is needed from its start on, and does not call Join first.
func (w *Watch) Join() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	h := &w.helpers
	h.idle++
	for !w.stopped && h.wanted == 0 {
		w.work.Wait()
	}
	h.idle--
	h.wanted = max(h.wanted-1, 0)
	return !w.stopped
}

// EnterAll puts all devices on the list. A helper looks at them once more before it rests,
// because the receiver of doorbells may be waiting for a processor.
func (w *Watch) EnterAll() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, d := range w.watches {
		if !d.wanted() {
			w.enter(d)
		}
	}
}
