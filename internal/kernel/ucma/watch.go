package ucma

import "github.com/gorxe/gorxe/internal/kernel"

// Watcher sees the ids that a program has.
type Watcher interface {
	// Made sees a new id, while the program's thread waits for its answer. It may not succeed, and
	// then Ended follows.
	Made(id any, c kernel.Caller)
	// Ended sees that an id is destroyed.
	Ended(id any)
	// Left sees an id that the program had when it closed the event channel.
	Left(id any)
}

// SetWatcher sets the Watcher of the file. It must be called before the first call.
func (f *File) SetWatcher(w Watcher) { f.watcher = w }

// watched tells the Watcher of an id that a call gives to the program.
func (k *call) watched(c *cmID) {
	if k.f.watcher == nil {
		return
	}
	k.f.watcher.Made(c, k.Caller)
	k.dev.mu.Lock()
	c.watcher = k.f.watcher
	k.dev.mu.Unlock()
}

// unwatched tells the Watcher that the program does not have an id any more.
func (d *Device) unwatched(c *cmID, left bool) {
	d.mu.Lock()
	w := c.watcher
	c.watcher = nil
	left = left && !c.removed
	d.mu.Unlock()
	switch {
	case w == nil:
	case left:
		w.Left(c)
	default:
		w.Ended(c)
	}
}
