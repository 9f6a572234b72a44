package sched

import (
	"bytes"
	"os"
	"strconv"
	"time"
)

// Threads of the class that want more of a processor than there is leave the class for a while, all at the
// same time. Otherwise those of several daemons would have a processor together, although each takes no
// more than its share. So all look at the same times: a common period begins when the system's clock is a multiple of it.
// commonBreak decides whether a thread of the class leaves it. A thread does if it ran or was ready to run for
// more than share of the time, and was ready without running for more than readyShare.
type commonBreak struct {
	period int64         // that was judged, or in which it joined
	since  time.Duration // what follows is of then, on the clock of now
	spent  time.Duration
	waited time.Duration
}

// begin begins to measure.
func (b *commonBreak) begin(c *Class, at time.Duration) {
	*b = commonBreak{period: period(), since: at, spent: c.spentUntil(), waited: c.waitedUntil()}
}

// due reports whether a break begins. It is called between two pieces of work.
func (b *commonBreak) due(c *Class, at time.Duration) bool {
	span := at - b.since
	if span < commonPeriod/2 || period() == b.period {
		return false
	}
	before := *b
	b.begin(c, at)
	ran, waited := float64(b.spent-before.spent), float64(b.waited-before.waited)
	return ran+waited > share*float64(span) && waited > readyShare*float64(span)
}

// period returns the number of the common period. It is the same in all daemons of a machine.
func period() int64 { return time.Now().UnixNano() / int64(commonPeriod) }

// Delay returns how long the calling thread was ready so far, and did not run
// (Documentation/scheduler/sched-stats.rst: /proc/PID/schedstat). The caller is locked to its thread.
func Delay() (ns int64, ok bool) {
	text, err := os.ReadFile("/proc/thread-self/schedstat")
	fields := bytes.Fields(text)
	if err != nil || len(fields) < 2 {
		return 0, false
	}
	ns, err = strconv.ParseInt(string(fields[1]), 10, 64)
	return ns, err == nil
}
