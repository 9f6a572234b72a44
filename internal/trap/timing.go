package trap

import (
	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/kernel"
	"github.com/gorxe/gorxe/internal/trap/doorbell"
	"github.com/gorxe/gorxe/internal/trap/mono"
)

// timing is when and where a receiver of direct doorbells takes them. It suits programs that wait for
// each request, and programs that post many (doorbell.Pace).
type timing struct {
	pace  doorbell.Pace
	place doorbell.Place
	exact bool // the thread's timers are

	since int64            // the look began, mono.Now
	look  kernel.Doorbells // what it has found
	from  int              // the process that it was for, 0 if there were several
	many  bool
}

// begin begins a look at all devices that have rung.
func (t *timing) begin() {
	t.since, t.look, t.from, t.many = mono.Now(), kernel.Doorbells{}, 0, false
}

// note adds what was found on one device.
func (t *timing) note(d *doorbell.Device, took kernel.Doorbells) {
	t.look.Requests += took.Requests
	t.look.Awaited += took.Awaited
	t.look.More = t.look.More || took.More
	if took.Requests > 0 {
		t.many = t.many || t.from != 0 && t.from != d.Process()
		t.from = d.Process()
	}
}

// decide ends the look, and moves the thread if that is of use.
func (t *timing) decide() {
	t.pace.Note(t.look)
	if t.pace.Awaited() && !t.many && t.from != 0 {
		t.place.Follow(t.from)
	} else if !t.pace.Awaited() {
		t.place.Leave()
	}
}

// pause waits as long as the thread should not look for doorbells.
func (t *timing) pause() {
	pause := t.pace.Pause()
	if pause == 0 || t.look.More {
		return
	}
	// What large messages took longer than small ones is a part of the pause.
	left := int64(pause) - max(0, mono.Now()-t.since-int64(pause))
	if left <= 0 {
		return
	}
	if !t.exact {
		// Without it, the kernel lets 50 µs more pass.
		t.exact = unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0) == nil
	}
	ts := unix.NsecToTimespec(left)
	_ = unix.Nanosleep(&ts, nil) // a signal ends it
}

// end gives the thread back as it was.
func (t *timing) end() {
	t.place.Leave()
	if t.exact {
		_ = unix.Prctl(unix.PR_SET_TIMERSLACK, 0, 0, 0, 0) // 0: the default
	}
}
