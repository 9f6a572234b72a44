package trap

import (
	"time"

	"github.com/gorxe/gorxe/internal/kernel"
	"github.com/gorxe/gorxe/internal/sched"
	"github.com/gorxe/gorxe/internal/sys/clock"
	"github.com/gorxe/gorxe/internal/trap/doorbell"
	"golang.org/x/sys/unix"
)

// timing is when and where a receiver of direct doorbells takes them. It suits programs that wait for
// each request, and programs that post many (doorbell.Pace).
type timing struct {
	pace       doorbell.Pace
	place      doorbell.Place
	contention doorbell.Contention
	thread     sched.Thread
	exact      bool // the thread's timers are

	since int64            // the look began, clock.Now
	look  kernel.Doorbells // what it has found
	found int64            // when a look last found a request, clock.Now
	quick int              // of requests that came within linger of the one before
	from  int              // the process whose requests they are, or noProcess, or severalProcesses
}

const (
	noProcess        = 0
	severalProcesses = -1
)

// begin begins a look at all devices that have rung.
func (t *timing) begin() {
	t.since, t.look, t.from = clock.Now(), kernel.Doorbells{}, noProcess
}

// note adds what was found on one device.
func (t *timing) note(d *doorbell.Device, took kernel.Doorbells) {
	t.look.Requests += took.Requests
	t.look.Awaited += took.Awaited
	t.look.More = t.look.More || took.More
	t.look.NoCredit = t.look.NoCredit || took.NoCredit
	if took.Requests == 0 {
		return
	}
	t.came()
	switch t.from {
	case d.Process():
	case noProcess:
		t.from = d.Process()
	default:
		t.from = severalProcesses
	}
}

// decide ends the look, and moves the thread if that is of use.
func (t *timing) decide() {
	t.pace.Note(t.look)
	streams := t.pace.Streams() && !t.contention.High()
	t.thread.Busy = streams && (t.look.More || t.look.NoCredit && t.thread.Busy)
	switch avoids := streams && !t.thread.Leads(); {
	case avoids && t.from == noProcess: // a look at a stream that found nothing
	case avoids && t.from > 0:
		t.place.Avoid(t.from)
	case !t.pace.Awaited():
		t.place.Leave()
	case t.from > 0:
		t.place.Follow(t.from, t.wantsAside())
	}
}

// wantsAside reports whether the thread would linger. It does not beside threads that wait for packets: it may
// join the real-time class with them, and must sleep there.
func (t *timing) wantsAside() bool { return t.quick >= quickGaps && !t.thread.Leads() }

// came notes that a look has found requests.
func (t *timing) came() {
	now := clock.Now()
	if now-t.found < linger {
		t.quick = min(t.quick+1, maxQuick)
	} else {
		t.quick = max(t.quick-lateGap, 0)
	}
	t.found = now
}

// mutes reports whether inotify should not report the doorbells of a device, because the thread looks at it
// again anyway: in a stream, or while it lingers.
func (t *timing) mutes(took kernel.Doorbells) bool {
	if t.place.Aside() && !t.thread.Leads() && (took.Requests > 0 || clock.Now()-t.found < linger) {
		return true
	}
	return (took.Requests > 0 || took.NoCredit) && t.pace.Pauses()
}

// pause waits as long as the thread should not look for doorbells.
func (t *timing) pause() {
	t.thread.Rest()
	left := t.left()
	if left <= 0 {
		return
	}
	if !t.exact {
		// Without it, the kernel lets 50 µs more pass.
		t.exact = unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0) == nil
	}
	sched.PauseBriefly(left)
}

// left returns how much of the pause is left.
func (t *timing) left() time.Duration {
	pause := t.pace.Pause()
	switch {
	case t.look.More:
		return 0
	case t.look.NoCredit:
		return creditPause
	case pause == 0:
		return 0
	}
	// A look at large messages takes longer than the pause. The difference counts as a part of the
	// pause.
	over := time.Duration(clock.Now()-t.since) - pause
	return pause - max(0, over)
}

// end gives the thread back as it was.
func (t *timing) end() {
	t.thread.End()
	t.place.Leave()
	if t.exact {
		_ = unix.Prctl(unix.PR_SET_TIMERSLACK, 0, 0, 0, 0) // 0: the default
	}
}
