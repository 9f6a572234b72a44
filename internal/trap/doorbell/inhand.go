package doorbell

import (
	"sync"
	"time"

	"github.com/gorxe/gorxe/internal/trap/mono"
)

// A Taker is a thread that takes direct doorbells.
type Taker interface {
	// Replaced reports whether another thread is in its place, because it is blocked in the
	// memory of a program.
	Replaced() bool
}

// inHand says which thread has a doorbell of a device in hand, so that a call on that device
// can wait for it.
type inHand struct {
	mu    sync.Mutex // a leaf lock
	freed sync.Cond
}

func (h *inHand) init() { h.freed.L = &h.mu }

// claim notes that t is about to take the doorbells of d.
func (h *inHand) claim(d *Device, t Taker) {
	h.mu.Lock()
	defer h.mu.Unlock()
	d.taker = t
}

// release ends what claim noted. The thread that has replaced t may have claimed d.
func (h *inHand) release(d *Device, t Taker) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if d.taker == t {
		d.taker = nil
		h.freed.Broadcast()
	}
}

// await waits until the receiver of doorbells has none of this device in hand, and reports
// whether it had one. It does not wait for one that was replaced.
func (h *inHand) await(d *Device) (waited bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for d.taker != nil && !d.taker.Replaced() {
		waited = true
		h.freed.Wait()
	}
	return waited
}

// Replaced is called when a thread was replaced: no call waits for it any more.
func (w *Watch) Replaced() {
	w.inHand.mu.Lock()
	defer w.inHand.mu.Unlock()
	w.inHand.freed.Broadcast()
}

// sweepEvery is how often the traces of doorbells are removed: 32 bytes each.
const sweepEvery = 250 * time.Millisecond

// TakeFor takes the doorbells of a device for t, and reports whether there are more. A call
// on the device waits meanwhile.
func (w *Watch) TakeFor(d *Device, t Taker) (more bool) {
	w.inHand.claim(d, t)
	more = d.file.TakeDoorbells()
	w.inHand.release(d, t)
	if now := mono.Now(); now-d.swept.Load() > int64(sweepEvery) {
		d.swept.Store(now)
		d.file.Sweep()
	}
	return more
}

// TakeInOrder takes the doorbells of a device so that a call may follow. The receiver of
// doorbells may have one of them in hand: this thread then has nothing to take, and waits for
// that receiver.
func (w *Watch) TakeInOrder(d *Device) (more bool) {
	w.inHand.await(d)
	more = d.file.TakeDoorbells()
	if w.inHand.await(d) { // that one came meanwhile, and may have left something
		more = d.file.TakeDoorbells()
	}
	return more
}
