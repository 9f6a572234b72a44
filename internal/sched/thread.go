package sched

import (
	"bytes"
	"os"
	"strconv"
	"time"

	"github.com/gorxe/gorxe/internal/sys/clock"
	"golang.org/x/sys/unix"
)

// A Thread is the calling thread, which is locked to its goroutine. The zero value is ready. Only
// that goroutine uses it. It does what a Turn decides.
type Thread struct {
	Class *Class // may be nil
	// Packets says that it waits for packets. Threads that take doorbells may want the class while
	// such threads do.
	Packets bool

	turn   Turn
	begun  bool
	before *unix.SchedAttr // what it was; nil: it is not in the class
}

// UpdateClass is called between two pieces of work. It puts the thread in its class if it wants
// that and has a turn, and takes it out if not.
func (t *Thread) UpdateClass(wants bool) {
	if t.Class == nil {
		return
	}
	if !t.begun {
		t.begun = true
		t.count(1)
	}
	if !wants && t.before == nil {
		return
	}
	now := time.Now()
	at := time.Duration(clock.At(now))
	switch should := t.turn.Observe(at, period(now), wants, t.Class); {
	case should && t.before == nil:
		t.join(at)
	case !should:
		t.leave()
	}
}

// InClass reports whether the thread is in its class.
func (t *Thread) InClass() bool { return t.before != nil }

// WithPackets reports whether threads of the class wait for packets.
func (t *Thread) WithPackets() bool { return t.Class != nil && t.Class.packets.Load() > 0 }

// End gives the thread back as it was.
func (t *Thread) End() {
	if !t.begun {
		return
	}
	t.begun = false
	t.count(-1)
	t.leave()
	if t.turn.state == in {
		t.turn.state = out
	}
	t.turn.measured = false
}

func (t *Thread) count(n int32) {
	if t.Packets {
		t.Class.packets.Add(n)
	}
}

func (t *Thread) join(at time.Duration) {
	if !t.Class.take() {
		t.turn.bar(at, barring)
		return
	}
	before, err := t.Class.join()
	if err != nil {
		t.Class.give()
		t.turn.refuse()
		return
	}
	t.before = before
}

func (t *Thread) leave() {
	if t.before != nil {
		t.Class.leave(t.before)
		t.Class.give()
		t.before = nil
	}
}

// Now is the time of Look and Arrivals.
func Now() time.Duration { return time.Duration(clock.Now()) }

// period returns the number of the common period. It is the same in all daemons of a machine.
func period(t time.Time) int64 { return t.UnixNano() / int64(commonPeriod) }

// processorTime returns how long the calling thread has run so far.
func processorTime() time.Duration {
	var ts unix.Timespec
	if unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ts) != nil {
		return 0
	}
	return time.Duration(ts.Nano())
}

// Delay returns how long the calling thread was ready so far, and did not run
// (Documentation/scheduler/sched-stats.rst: /proc/PID/schedstat). The caller is locked to its
// thread.
func Delay() (ns int64, ok bool) {
	text, err := os.ReadFile("/proc/thread-self/schedstat")
	fields := bytes.Fields(text)
	if err != nil || len(fields) < 2 {
		return 0, false
	}
	ns, err = strconv.ParseInt(string(fields[1]), 10, 64)
	return ns, err == nil
}
