package sched

import (
	"math"
	"time"

	"golang.org/x/sys/unix"
)

// A Thread is the calling thread, which is locked to its goroutine. The zero value is ready. Only that
// goroutine uses it.
type Thread struct {
	Class *Class // may be nil
	// Follows makes it join the class only while a thread that does not follow has begun and not
	// ended, or while it is Busy.
	Follows bool
	// Busy says that the thread has work left after each piece. Programs that poll would take most of its
	// processor.
	Busy bool

	begun    bool
	before   *unix.SchedAttr // what it was; nil: it is not in the class
	later    time.Duration   // it does not join the class until then, on the clock of now
	measured bool            // a window has begun
	since    time.Duration   // when it did
	spent    time.Duration   // of a processor until then

	common commonBreak
}

// Rest is called between two pieces of work. It puts the thread in its class when that is possible. It
// takes the thread out if that took more than its share, if there is nobody to follow, or for a common break.
func (t *Thread) Rest() {
	if t.Class == nil {
		return
	}
	if !t.begun {
		t.begun = true
		t.count(1)
	}
	if t.Follows && !t.Busy && !t.Leads() {
		t.leave()
		return
	}
	at := now()
	if at < t.later {
		return
	}
	switch {
	case !t.measured:
		t.measure(at)
	case at-t.since >= window && !t.withinShare(at):
		t.leave()
		t.bar(at, barring)
		return
	case t.before != nil && t.common.due(t.Class, at):
		t.leave()
		t.bar(at, commonTime)
		return
	}
	if t.before == nil {
		t.join(at)
	}
}

// InClass reports whether the thread is in its class.
func (t *Thread) InClass() bool { return t.before != nil }

// Leads reports whether threads of the class lead, which this one may follow.
func (t *Thread) Leads() bool { return t.Class != nil && t.Class.lead.Load() > 0 }

// measure begins a window. The window goes on while the thread is out of the class. So a thread that leaves and
// joins again and again has one share all the same.
func (t *Thread) measure(at time.Duration) {
	t.measured, t.since, t.spent = true, at, t.Class.spentUntil()
}

// withinShare ends the window and begins the next one. It reports whether the thread took no more than its share.
func (t *Thread) withinShare(at time.Duration) bool {
	most := time.Duration(share * float64(at-t.since))
	before := t.spent
	t.measure(at)
	return t.spent-before <= most
}

// bar keeps the thread out for a while.
func (t *Thread) bar(at, while time.Duration) { t.measured, t.later = false, at+while }

// End gives the thread back as it was.
func (t *Thread) End() {
	if t.begun {
		t.begun, t.measured = false, false
		t.count(-1)
		t.leave()
	}
}

func (t *Thread) count(n int32) {
	if !t.Follows {
		t.Class.lead.Add(n)
	}
}

func (t *Thread) join(at time.Duration) {
	if !t.Class.take() {
		t.bar(at, barring)
		return
	}
	before, err := t.Class.join()
	if err != nil {
		t.Class.give()
		t.later = math.MaxInt64 // rights do not come later
		return
	}
	t.before = before
	t.common.begin(t.Class, at)
}

func (t *Thread) leave() {
	if t.before != nil {
		t.Class.leave(t.before)
		t.Class.give()
		t.before = nil
	}
}

var start = time.Now()

func now() time.Duration { return time.Since(start) }

// processorTime returns how long the calling thread has run so far.
func processorTime() time.Duration {
	var ts unix.Timespec
	if unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ts) != nil {
		return 0
	}
	return time.Duration(ts.Nano())
}
