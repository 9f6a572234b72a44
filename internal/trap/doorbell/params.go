package doorbell

import "time"

// All numbers of this package. Those that name a decision record were measured on a virtual machine with two
// processors, x86-64, Linux 6.18 (docs/performance.md). What is said of others, at twice and at half of them, is
// reasoned and not measured.

// When to look.
const (
	// maxPause is the longest pause between two looks (0048). Longer ones, which let looks find 24 to 56
	// requests: WRITEs of 8 bytes lose 5 to 10 %. Half: SENDs lose up to a half, because both of their
	// programs poll, and looks end their turns.
	maxPause = 50 * time.Microsecond
	// pauseEach is the pause for each request that the last look found. A program posts a request
	// in 0.5 to 1.5 µs. Twice: the program waits for the thread. Half: looks find fewer than they could.
	pauseEach = 2 * time.Microsecond
	// minPause is the shortest pause that is worth its system call and two
	// switches. Twice: streams of 3 to 6 requests per look have no pauses. Half: they have too many.
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

// Where to look.
const (
	// A look at the program's threads is repeated after placeOften at first, and down to every
	// placeSeldom while the answer stays the same. A look reads two files
	// for each thread. Twice: a program that was moved is followed later. Half: twice the reads.
	placeOften  = int64(2 * time.Millisecond)
	placeSeldom = int64(32 * time.Millisecond)
	// placeAside is how often at least it is repeated while the thread asks to be aside. Twice: it
	// takes a processor from a program for 16 ms. Half: twice the looks.
	placeAside = int64(8 * time.Millisecond)
	// asideDelay is the part of its time that a thread may wait for a processor while it is aside:
	// an eighth. A sixteenth: Go's monitor thread sends it back. A quarter: it shares a processor
	// with a program half of the time.
	asideDelay = 8
	// placeThreads is how many threads a program may have to be looked at. Twice: a
	// look takes twice as long. Half: programs with a thread for each of several queues are not placed.
	placeThreads = 16
)

// Whether many threads want the processors.
const (
	// readyEach is how many threads for each processor may be ready. Two processors with two
	// programs that poll, and the thread that takes their doorbells, have three. Twice: daemons of
	// several users take the machine together. Half: two polling programs count as many.
	readyEach = 2
	// readyFor is how long an answer holds. A change is noticed that much later. Half: /proc/loadavg
	// is read twice as often.
	readyFor = int64(8 * time.Millisecond)
)

// Threads, files and buffers.
const (
	// MaxExtra bounds the threads of a session that take doorbells beside the first one. Twice: a
	// program occupies 32. Half: a session with 16 busy devices has 8 threads for them.
	MaxExtra = 15
	// maxInstances bounds the instances of inotify. The daemon's user has 128 in all
	// (fs.inotify.max_user_instances), and maxInstances is half of them. Twice: none are left for
	// the user's other programs. Half: 32 sessions.
	maxInstances = 64
	// maxOwn is for the programs of one user, so that others have some, too.
	maxOwn = maxInstances / 4
	// While there are fewer than manyInstances, a session may have several. Twice: a few sessions take
	// half of all. Half: the third session with four devices has one instance.
	manyInstances = 16
	// sweepEvery is how often the traces of doorbells are removed: 32 bytes each. A stream leaves
	// 32 MiB a second. Twice: 16 MiB are left. Half: up to 8 system calls a second.
	sweepEvery = 250 * time.Millisecond
	// mostFound is how many work requests a muted device may have before the receiver empties the
	// pipe, which has room for 2,048 doorbells. A reader and a writer that meet in a pipe wait for
	// each other. Twice: the pipe may be full before the next look. Half: they meet twice as often.
	mostFound = 512
	// pipeRead is how many bytes readPipe reads at a time: a page, as pipes are made of. mostReads is how
	// often: twice what a pipe holds by default. If more is left, the pipe stays readable. Half: a
	// full pipe is not emptied by one look.
	pipeRead  = 4096
	mostReads = 32
	// eventsPerRead is how many events of inotify one read takes: 1 KiB. The kernel joins equal
	// events, so one per device is usual.
	eventsPerRead = 64
)
