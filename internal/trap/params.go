package trap

import (
	"time"

	"github.com/gorxe/gorxe/internal/quota"
	"github.com/gorxe/gorxe/internal/sched/standby"
)

// All numbers of this package. Those that name a decision record were measured on a virtual machine
// with two processors, x86-64, Linux 6.18 (docs/performance.md). What is said of others, at twice
// and at half of them, is reasoned and not measured.

// When a thread is blocked, and how many may be.
const (
	// A session that may have no thread more looks so often whether it may. Twice: its calls wait
	// for 20 ms. Half: it wakes up twice as often.
	watchInterval = standby.CallLimit / 2
	// If the receiver had nothing to do in so many consecutive looks of the watch, it ends: after a
	// second. Twice: an idle program keeps a thread for two. Half: a program that rings every
	// second has a new thread each time.
	idleLooks = 100
	// maxBlocked bounds the threads that a program can occupy by memory that never answers. Beyond
	// that it gets EIO from its devices. Twice: two programs occupy all threads of a role
	// (standby.MaxBlocked). Half: a program with 17 such pages gets EIO.
	maxBlocked = 32
	// A busy machine may delay so many receivers; the log mentions them quietly.
	fewBlocked = 4
	// maxUserBlocked bounds the threads that a user's sessions occupy together.
	maxUserBlocked = standby.MaxBlocked
	// A session that stops looks at a busy receiver every stopInterval, and waits for stopLooks
	// looks. Twice: a program with blocked memory ends 0.2 s late. Half: a busy machine leaves
	// threads behind.
	stopInterval = time.Millisecond
	stopLooks    = 100
	// closeLimit bounds the wait for files that are closed. What they wait for may be the program,
	// and the session may have to end before it. Twice: gorxe run ends 10 s late then. Half: a busy
	// machine with a million objects may need more.
	closeLimit = 5 * time.Second
	// A session whose listener has hung up waits for its processes to be zombies, so that their
	// ends are reported. Twice: a process that the kernel takes long to end delays the session by
	// 4 s. Half: a busy machine loses a report of an end.
	endLimit = 2 * time.Second
)

// Calls that wait.
const (
	// A call is looked at every lookShort at first, and then less and less often, down to lookLong:
	// so long may it take until a signal interrupts it. Twice: a person notices. Half: twice the
	// processor time.
	lookShort = 20 * time.Millisecond
	lookLong  = 100 * time.Millisecond
	// The interval is the time since the call began, divided by lookSlow.
	lookSlow = 64
	// lookCost is the interval for each of many calls. Together
	// they take a tenth of a processor. Twice: a twentieth, and signals are noticed twice as late.
	lookCost = 300 * time.Microsecond
	// maxRunning bounds the calls that are being made again at a time. Each has a goroutine, which
	// the program's memory may block. Twice: a program blocks 16. Half: four files that block stop
	// all calls that wait.
	maxRunning = 8
)

// What is remembered of descriptors, threads and mappings.
const (
	// hotEntries is how many descriptors a receiver remembers, in a table of 3 KiB. Twice: 6 KiB
	// for each thread. Half: a program with 40 threads on one device finds one in two gone.
	hotEntries = 64
	// hotSpread spreads the descriptors of one thread. It is odd, so all entries are used.
	hotSpread = 7
	// hotLife ends what no trapped call ends, as a descriptor's move by io_uring. Twice: such a
	// move is noticed after two seconds. Half: a program that calls once a second looks up each
	// time.
	hotLife = int64(time.Second)
	// fewThreads are not worth a sweep. Twice: 100 KiB. Half: a program with 600 threads has
	// sweeps.
	fewThreads = 1024
	// maxMapping bounds doorbellPipe.mapping. A thread that is told to map, and then makes no call,
	// stays in it. Twice: 64 more entries. Half: a program with 40 such threads has no pipe.
	maxMapping = 64
	// ownRoom is the room of a session's own Contents. They are for tests.
	ownRoom = 16
)

// Reads, in bytes unless they say otherwise.
const (
	// pathChunk is the first read of a path. Most paths are shorter, and a read across a page may
	// fail.
	pathChunk = 256
	// maxNetlinkRequest bounds what a program sends in one call. Requests have under 100 bytes.
	maxNetlinkRequest = 64 << 10
	// eventsPerRead is how many events of inotify one read takes. drainReads bounds the reads of
	// drain, because a program can make events without end. The kernel keeps 16,384 events by
	// default (fs.inotify.max_queued_events): both together.
	eventsPerRead = 64
	drainReads    = 256
)

// leastStack is how little of a thread's stack is worth reading, in bytes: the frames of a system
// call's wrapper and of its caller.
const leastStack = 256

// Numbers of pace.go. Those of sched.Stops stand in package sched.
const (
	// stopsOfCall are allowed after any other call on the device, which often precedes another kind
	// of posts. Such a call is as expensive. Twice: programs that ask for an event for each batch
	// are slower. Half: the first posts of a new queue pair are not seen whole.
	stopsOfCall = 16
	// changeLimit bounds the wait for a change of the number, which takes 2 µs, and changeLook is
	// its step.
	changeLimit = 10 * time.Millisecond
	changeLook  = 100 * time.Microsecond
)

// A session remembers so many places that write doorbells: librxe has two, and each thread of a
// program has them in one or two forms of libc's write. The address to which that returns is in
// the first 64 bytes of its stack; it is none below 4 GiB, and none within 16 MiB of the stack.
const (
	stackPlaces  = 8
	backBytes    = 64
	wordBytes    = 8
	leastAddress = 1 << 32
	mostStack    = 16 << 20
)

// What the user's budget bears.
var (
	// objectCost is what an object costs besides what a device does: directories have lists, and
	// inotify has only so many watches. keptCost comes on top of it without a watch.
	objectCost = quota.Cost{Memory: 16 << 10}
	keptCost   = quota.Cost{Files: 1}
	// processCost is what a process costs: its pidfd, its memory's descriptor.
	processCost = quota.Cost{Memory: 4 << 10, Files: 2}
	// pipeCost is what a pipe costs: two descriptors of its end, and one of the file.
	pipeCost = quota.Cost{Files: 3}
	// threadCost is what a receiver costs that leaves when it has nothing to do, and a thread that
	// has a program lend its faults.
	threadCost = quota.Cost{Threads: 1}
)
