package doorbell

import (
	"github.com/gorxe/gorxe/internal/kernel"
	"github.com/gorxe/gorxe/internal/sys/clock"
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

// wanted reports whether the device is for others than the receiver of doorbells and its
// helpers now; w.mu is held.
func (d *Device) wanted() bool { return d.held() || d.calls > 0 }

// Replaced is called when a thread was replaced: no call waits for it any more, and other
// threads take the doorbells of its device.
func (w *Watch) Replaced() {
	w.mu.Lock()
	w.freed.Broadcast()
	rouse := false
	for _, d := range w.watches {
		rouse = w.enterMissed(d) || rouse
	}
	w.mu.Unlock()
	if rouse {
		w.Rouse()
	}
}

// enterMissed puts a device back on the list if doorbells came while it was in hand, or may have
// come because it is muted. It reports whether it did; w.mu is held.
func (w *Watch) enterMissed(d *Device) bool {
	if d.due != missed && d.events == reported || d.wanted() {
		return false
	}
	if d.due == missed {
		d.due = rests
	}
	w.enter(d)
	return true
}

// Serve takes the doorbells of a device that Take returned. A call on the device waits meanwhile.
func (w *Watch) Serve(d *Device, t Taker) kernel.Doorbells {
	took := d.file.TakeDoorbells(true)
	w.release(d, t, took)
	if now := clock.Now(); now-d.swept.Load() > int64(sweepEvery) {
		d.swept.Store(now)
		d.file.Sweep()
	}
	return took
}

// release ends what Take began. If there are more doorbells, or some came meanwhile, the device
// is put back on the list. The thread that has replaced t may have the device in hand.
func (w *Watch) release(d *Device, t Taker, took kernel.Doorbells) {
	w.mu.Lock()
	if d.taker != t {
		w.mu.Unlock()
		return
	}
	d.taker = nil
	w.pipe.found += took.Requests
	w.freed.Broadcast()
	here := !t.Replaced() // otherwise t goes on with this device alone
	if here && (took.More || took.NoCredit) {
		w.enter(d)
	}
	w.enterMissed(d)
	start := here && took.More && len(w.pending) > 1 && w.wantHelper()
	w.mu.Unlock()
	if start {
		w.owner.StartHelper()
	}
}

// TakeInOrder takes the doorbells of a device so that a call may follow, which t answers. It
// waits for another thread that has them in hand, and that thread's next turn comes after
// this one's.
func (d *Device) TakeInOrder(t Taker) (more bool) {
	w := d.watch
	w.mu.Lock()
	d.calls++
	for d.held() {
		w.freed.Wait()
	}
	d.calls--
	d.taker = t
	w.mu.Unlock()
	more = d.TakeDoorbells()
	w.mu.Lock()
	rouse := false
	if d.taker == t {
		d.taker = nil
		w.freed.Broadcast()
		rouse = w.enterMissed(d)
	}
	w.mu.Unlock()
	if rouse {
		w.Rouse()
	}
	return more
}
