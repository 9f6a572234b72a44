package sched

import "time"

// A Turn decides how long a thread that wants the real-time class is in it. It makes no system call
// and has no clock.
//
//	state   the thread               becomes
//	out     does not want the class  in, when it does
//	in      is in the class          out, when it does not want it
//	in                               barred for barring, if it took more than share of a window
//	in                               barred for commonTime, when a common break begins
//	barred  wants it, too soon       out, when that time is over
//	refused has no right to it       nothing: rights do not come later
//
// A thread has a common break if it shares its processor with another one of the class. Then it ran
// or was ready for more than share of a common period, and of that it was ready without running for
// more than readyShare.
//
// A window goes on while the thread is out. So a thread that leaves and joins again and again has
// one share.
type Turn struct {
	state    turnState
	until    time.Duration // barred
	measured bool          // a window has begun
	window   mark
	common   mark
	period   int64 // the common period that was judged, or in which the thread joined
}

type turnState uint8

const (
	out turnState = iota
	in
	barred
	refused
)

// mark is a time, and what the thread had taken until then.
type mark struct{ at, spent, waited time.Duration }

// usage is what a thread has taken so far. Each answer costs a system call.
type usage interface {
	spentUntil() time.Duration  // it has run
	waitedUntil() time.Duration // it was ready, and did not run
}

// Observe is called between two pieces of work. period is the number of the common period. It
// returns whether the thread should be in the class from now on. If it cannot be, bar or refuse
// says so.
func (t *Turn) Observe(at time.Duration, period int64, wants bool, u usage) bool {
	switch {
	case t.state == refused:
		return false
	case t.state == barred && at >= t.until:
		t.state = out
	}
	switch {
	case !wants && t.state == in:
		t.state = out
	case !wants, t.state == barred:
	case !t.measured:
		t.measure(at, u)
		t.join(at, period, u)
	case at-t.window.at >= window && !t.withinShare(at, u):
		t.bar(at, barring)
	case t.state == in && t.breaks(at, period, u):
		t.bar(at, commonTime)
	case t.state == out:
		t.join(at, period, u)
	}
	return t.state == in
}

// bar keeps the thread out for a while.
func (t *Turn) bar(at, while time.Duration) {
	t.state, t.until, t.measured = barred, at+while, false
}

// refuse keeps it out for good.
func (t *Turn) refuse() { t.state = refused }

// measure begins a window.
func (t *Turn) measure(at time.Duration, u usage) {
	t.measured, t.window = true, mark{at: at, spent: u.spentUntil()}
}

// withinShare ends the window and begins the next one. It reports whether the thread took no more
// than its share.
func (t *Turn) withinShare(at time.Duration, u usage) bool {
	before := t.window
	t.measure(at, u)
	return t.window.spent-before.spent <= time.Duration(share*float64(at-before.at))
}

// join puts the thread in the class, and begins to measure for common breaks.
func (t *Turn) join(at time.Duration, period int64, u usage) {
	t.state, t.period = in, period
	t.common = mark{at: at, spent: u.spentUntil(), waited: u.waitedUntil()}
}

// breaks reports whether a common break begins.
func (t *Turn) breaks(at time.Duration, period int64, u usage) bool {
	before := t.common
	if at-before.at < commonPeriod/2 || period == t.period {
		return false
	}
	t.join(at, period, u)
	span := float64(at - before.at)
	ran, waited := float64(t.common.spent-before.spent), float64(t.common.waited-before.waited)
	return ran+waited > share*span && waited > readyShare*span
}
