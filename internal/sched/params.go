package sched

import "time"

// All numbers of this package. Those that name a decision record were measured on a virtual machine with two
// processors, x86-64, Linux 6.18 (docs/performance.md). What is said of others, at twice and at half of them, is
// reasoned and not measured. A larger machine was not available.

// How long a thread waits.
const (
	// Briefly is the longest wait that Go's runtime does not know of. Twice: a garbage collection
	// may begin 10 ms late on a kernel that delays the signal. Half: an idle thread wakes up 400
	// times a second.
	Briefly = 5 * time.Millisecond
)

// What a thread of the real-time class may take (0049).
const (
	// share is the part of a processor that a thread may take in each window, and barring is how
	// long it is out of the class if it took more. So a thread that works without end is in the
	// class for four fifths of the time. The rest is for programs: one that polls posts nothing
	// while it waits. Without a bound, rows move a fifth
	// more, and other users' programs wait without end. Half, and out for 16 ms: 64 KiB moves a third
	// less.
	share = 0.75
	// window is how long a thread runs at most before its share is judged. Twice: a program that
	// polls stands still for up to 8 ms. Half: the clock is read twice as often, for the same share.
	window = 4 * time.Millisecond
	// barring is a short turn of the scheduler. Four times: 64 KiB moves up to two fifths less. Half:
	// a program may not get a turn in it.
	barring = 1 * time.Millisecond
)

// Threads of the class that want more of a processor than there is leave the class for a while, all at
// the same time. Otherwise those of several daemons would have a processor together, although each takes
// no more than its share. So all look at the same times: a common period begins when the system's clock
// is a multiple of it.
const (
	// commonPeriod is the time between two such breaks. Twice: other threads wait for up to 45 ms.
	// Half: a fifth more of the time is outside the class.
	commonPeriod = 25 * time.Millisecond
	// commonTime is the length of a break: five turns of the scheduler. Twice: two fifths of the
	// time are breaks. Half: some thread beside several daemons gets no turn.
	commonTime = 5 * time.Millisecond
	// readyShare is the part of the time that a thread was ready and did not run, above which it
	// shares its processor with another one of the class. Twice: two threads that take turns reach
	// it no longer. Half: a thread beside one interrupt source does.
	readyShare = 0.25
)
