package doorbell

import (
	"time"

	"github.com/gorxe/gorxe/internal/trap/mono"
)

// A Taker is a thread that takes direct doorbells.
type Taker interface {
	// Replaced reports whether another thread is in its place, because it is blocked in the
	// memory of a program.
	Replaced() bool
}

// held reports whether a thread has the doorbells of the device in hand; w.mu is held. A
// thread that was replaced does not count: it may be blocked for ever.
func (d *Device) held() bool { return d.taker != nil && !d.taker.Replaced() }

// await waits until no thread has the doorbells of this device in hand, and reports
// whether one had.
func (w *Watch) await(d *Device) (waited bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for d.held() {
		waited = true
		w.freed.Wait()
	}
	return waited
}

// Replaced is called when a thread was replaced: no call waits for it any more, and other
// threads take the doorbells of its device.
func (w *Watch) Replaced() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.freed.Broadcast()
	for _, d := range w.watches {
		if d.missed && !d.held() {
			d.missed = false
			w.enter(d)
		}
	}
}

// sweepEvery is how often the traces of doorbells are removed: 32 bytes each.
const sweepEvery = 250 * time.Millisecond

// Serve takes the doorbells of a device that Take returned, and reports whether there are
// more. A call on the device waits meanwhile.
func (w *Watch) Serve(d *Device, t Taker) (more bool) {
	more = d.file.TakeDoorbells()
	w.release(d, t, more)
	if now := mono.Now(); now-d.swept.Load() > int64(sweepEvery) {
		d.swept.Store(now)
		d.file.Sweep()
	}
	return more
}

// release ends what Take began. If there are more doorbells, or some came meanwhile, the device
// is put back on the list. The thread that has replaced t may have the device in hand.
func (w *Watch) release(d *Device, t Taker, more bool) {
	w.mu.Lock()
	if d.taker != t {
		w.mu.Unlock()
		return
	}
	d.taker = nil
	w.freed.Broadcast()
	more = more && !t.Replaced() // then t goes on with this device alone
	again := more || d.missed
	d.missed = false
	if again {
		w.enter(d)
	}
	start := more && len(w.pending) > 1 && w.wantHelper()
	w.mu.Unlock()
	if start {
		w.startHelper()
	}
}

// TakeInOrder takes the doorbells of a device so that a call may follow. Another thread
// may have one of them in hand: this thread then has nothing to take, and waits for
// that one.
func (w *Watch) TakeInOrder(d *Device) (more bool) {
	w.await(d)
	more = d.file.TakeDoorbells()
	if w.await(d) { // that one came meanwhile, and may have left something
		more = d.file.TakeDoorbells()
	}
	return more
}
