package sched

import "time"

// All numbers of this package. Those that name a decision record were measured on a virtual machine
// with two processors, x86-64, Linux 6.18 (docs/performance.md). What is said of others, at twice
// and at half of them, is reasoned and not measured. A larger machine was not available.

// How long a thread waits.
const (
	// Briefly is the longest wait that Go's runtime does not know of. Twice: a garbage collection
	// may begin 10 ms late on a kernel that delays the signal. Half: an idle thread wakes up 400
	// times a second.
	Briefly = 5 * time.Millisecond
)

// What a thread of the real-time class may take (docs/design/0047).
const (
	// share is the part of a processor that a thread may take in each window, and barring is how
	// long it is out of the class if it took more. So a thread that works without end is in the
	// class for four fifths of the time. The rest is for programs: one that polls posts nothing
	// while it waits. Without a bound, rows move a fifth more, and other users' programs wait
	// without end. Half, and out for 16 ms: 64 KiB moves a third less.
	share = 0.75
	// window is how long a thread runs at most before its share is judged. Twice: a program that
	// polls stands still for up to 8 ms. Half: the clock is read twice as often, for the same
	// share.
	window = 4 * time.Millisecond
	// barring is a short turn of the scheduler. Four times: 64 KiB moves up to two fifths less.
	// Half: a program may not get a turn in it.
	barring = 1 * time.Millisecond
)

// Threads of the class that want more of a processor than there is leave the class for a while, all
// at the same time. Otherwise those of several daemons would have a processor together, although
// each takes no more than its share. So all look at the same times: a common period begins when the
// system's clock is a multiple of it.
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

// When to look.
const (
	// maxPause is the longest pause between two looks (docs/design/0063). Longer ones, which let
	// looks find 24 to 56 requests: WRITEs of 8 bytes lose 5 to 10 %. Half: SENDs lose up to a
	// half, because both of their programs poll, and looks end their turns.
	maxPause = 50 * time.Microsecond
	// pauseEach is the pause for each request that the last look found. A program posts a request
	// in 0.5 to 1.5 µs. Twice: the program waits for the thread. Half: looks find fewer than they
	// could.
	pauseEach = 2 * time.Microsecond
	// minPause is the shortest pause that is worth its system call and two switches. Twice: streams
	// of 3 to 6 requests per look have no pauses. Half: they have too many.
	minPause = 6 * time.Microsecond
	// tryPause is the pause that tries whether a program that posted one request would post more.
	// Twice: a program that does not loses more. Half: it finds no second request.
	tryPause = 10 * time.Microsecond
	// tryEvery is how many looks pass between two tries. Twice: a stream is known later. Half: a
	// program that posts one request at a time loses 0.6 µs for each.
	tryEvery = 32
	// sureScore is the score of a stream, and -sureScore that of a program that waits. Twice: eight
	// looks teach it. Half: two looks of chance do.
	sureScore = 4
	// maxScore bounds the score. Twice: a program that changes is noticed after 12 looks. Half: one
	// look of chance ends a stream.
	maxScore = 8
	// What the last look found counts for foundKept in foundOf in the next one. 1 in 2: one empty
	// look halves the pause. 7 in 8: a pause outlives its stream by 20 looks.
	foundKept, foundOf = 3, 4
)

// Whether the next request is due soon, and whether a receive is.
const (
	// linger is how long a thread goes on looking after it has found a request, if that takes no
	// processor from a program (docs/design/0063). Twice: twice the processor time after the last
	// request. Half: a program that computes for 30 µs between two requests has its thread woken
	// each time.
	linger = 50 * time.Microsecond
	// A thread lingers if quickGaps requests came within linger of the one before. They count up to
	// maxQuick, and a later one counts as lateGap against them. quickGaps twice: it begins 4
	// requests later; half: chance begins it. maxQuick twice: after a burst it lingers for 32 late
	// requests more.
	quickGaps = 4
	maxQuick  = 64
	lateGap   = 2
	// CreditPause is the pause after a look at messages that have no receive work request at their
	// peer (docs/design/0006). The peer's program may need this thread's processor to post some. It
	// posts one in 0.1 to 0.2 µs. Twice: a message waits longer than its receiver. Half: the
	// receiver posts a half.
	CreditPause = 30 * time.Microsecond
)

// Where to look.
const (
	// A look at the program's threads is repeated after placeOften at first, and down to every
	// placeSeldom while the answer stays the same. A look reads two files
	// for each thread. Twice: a program that was moved is followed later. Half: twice the reads.
	placeOften  = 2 * time.Millisecond
	placeSeldom = 32 * time.Millisecond
	// placeSpinning is how often at least it is repeated while the thread would spin. Twice: it
	// takes a processor from a program for 16 ms. Half: twice the looks.
	placeSpinning = 8 * time.Millisecond
	// spinDelay is the part of its time that a thread may wait for a processor while it spins:
	// an eighth. A sixteenth: Go's monitor thread sends it back. A quarter: it shares a processor
	// with a program half of the time.
	spinDelay = 8
	// PlaceThreads is how many threads a program may have to be looked at. Twice: a look takes
	// twice as long. Half: programs with a thread for each of several queues are not placed.
	PlaceThreads = 16
)

// Whether many threads want the processors.
const (
	// readyEach is how many threads for each processor may be ready. Two processors with two
	// programs that poll, and the thread that takes their doorbells, have three. Twice: daemons of
	// several users take the machine together. Half: two polling programs count as many.
	readyEach = 2
	// readyFor is how long an answer holds. A change is noticed that much later. Half:
	// /proc/loadavg is read twice as often.
	readyFor = 8 * time.Millisecond
)

// Threads of a session for direct doorbells, besides helpers (DoorbellThreads).
const (
	// fewThreads is for two processors. The processes of one gorxe run mostly open a device each.
	// Twice: a session takes eight instances of inotify. Half: two pairs under one run share
	// threads.
	fewThreads = 4
	// threadsEach is for each processor of a larger machine. Twice: more threads than can run.
	// Half: two programs for each processor share threads.
	threadsEach = 2
	// mostThreads bounds them: an inotify instance each (trap/doorbell: manyInstances).
	mostThreads = 16
)

// When a reader of packets has a thread.
const (
	// busyBatches batches within busyTime make a reader wait in a thread from then on. Twice: a
	// ping-pong of 32 round trips has no thread. Half: the CM's datagrams get one.
	busyBatches = 32
	busyTime    = time.Second
)

// mostRecorded bounds a recording, in looks: 2 MiB of text. Twice: twice that. Half: half a second
// of a stream.
const mostRecorded = 20_000

// Doorbells in memory, where only a look finds them (0074).
const (
	// polledSpin is how long a thread looks without a pause, after a doorbell. Twice: a program
	// that posts 10,000 times a second costs a processor. Half: each of its doorbells waits for a
	// pause.
	polledSpin = 100 * time.Microsecond
	// polledClass is how long a thread wants the real-time class after a doorbell. Twice: a program
	// that rings every 10 ms has a thread in the class all the time. Half: one that computes for
	// 3 ms between two doorbells waits for a turn.
	polledClass = 5 * time.Millisecond
	// polledFirst is the shortest pause. A thread that wakes up takes its turn from a program that
	// polls. Twice: a doorbell waits for twice as long. Half: a third of a processor is spent on
	// looks.
	polledFirst = 20 * time.Microsecond
	// polledPart is the part of the time without a doorbell that a pause takes. Twice: more looks.
	// Half: the first doorbell after a while waits for up to a quarter of that while.
	polledPart = 8
	// polledLast is the longest pause: 100 looks a second, of some microseconds each, are less than
	// a thousandth of a processor. Twice: the first doorbell after a second waits for up to 20 ms.
	// Half: an idle program costs more than that.
	polledLast = 10 * time.Millisecond
	// polledSafety is the longest pause of a program whose every doorbell ends it. It bounds what a
	// mistake here may cost. Twice: such a doorbell waits for two seconds. Half: an idle program
	// has two looks a second.
	polledSafety = time.Second
	// polledGuard is how long after a doorbell a guard takes the place of pauses, which are up to
	// an eighth of that. Twice: a doorbell 2 ms after the last one waits for up to 0.25 ms. Half: a
	// program that rings each millisecond is stopped each time.
	polledGuard = time.Millisecond
	// polledAsk is how long the answer holds whether a processor is to spare. It costs 5 µs. Twice:
	// the thread spins for 2 ms beside a program that has begun to poll. Half: half a percent of a
	// processor more.
	polledAsk = time.Millisecond
)

// How often a watched program is stopped at a post. A stop costs it 15 µs on a machine with two
// processors, and 50 with the sanitizer.
const (
	// StopEvery is how often a program is stopped that posts fast: 2 percent of its time. A slower
	// one is stopped at each post. Twice: a call site that is used for a millisecond is seen by
	// chance. Half: 5 percent.
	StopEvery = 2 * time.Millisecond
	// MostStops is how many posts in a row are stopped after half a second of rest, 10 ms in all:
	// those of most tests. Twice: a short measurement measures stops. Half: a test that fills a
	// queue of 128 twice is not seen whole.
	MostStops = 256
)
