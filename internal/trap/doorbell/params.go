package doorbell

import "time"

// All numbers of this package. Those that name a decision record were measured on a virtual machine
// with two processors, x86-64, Linux 6.18 (docs/performance.md). What is said of others, at twice
// and at half of them, is reasoned and not measured.

// Threads, files and buffers.
const (
	// maxExtra bounds the threads of a session that take doorbells beside the first one. Twice: a
	// program occupies 32. Half: a session with 16 busy devices has 8 threads for them.
	maxExtra = 15
	// maxInstances bounds the instances of inotify. The daemon's user has 128 in all
	// (fs.inotify.max_user_instances), and maxInstances is half of them. Twice: none are left for
	// the user's other programs. Half: 32 sessions.
	maxInstances = 64
	// freeInstances are for the first user who asks: enough for 16 pairs of programs. Twice: others
	// have none. Half: the clients of 16 pairs have trapped doorbells, and a twentieth of the rate.
	freeInstances = maxInstances / 2
	// maxOwn is for the programs of one user once those are taken. Twice: two users have all.
	// Half: a user who comes later has four pairs.
	maxOwn = maxInstances / 4
	// While there are fewer than manyInstances, a session may have several. Twice: a few sessions
	// take half of all. Half: the third session with four devices has one instance.
	manyInstances = 16
	// sweepEvery is how often the traces of doorbells are removed: 32 bytes each. A stream leaves
	// 32 MiB a second. Twice: 16 MiB are left. Half: up to 8 system calls a second.
	sweepEvery = 250 * time.Millisecond
	// mostFound is how many work requests a muted device may have before the receiver empties the
	// pipe, which has room for 2,048 doorbells. A reader and a writer that meet in a pipe wait for
	// each other. Twice: the pipe may be full before the next look. Half: they meet twice as often.
	mostFound = 512
	// pipeRead is how many bytes readPipe reads at a time: a page, as pipes are made of. mostReads
	// is how often: twice what a pipe holds by default. If more is left, the pipe stays readable.
	// Half: a full pipe is not emptied by one look.
	pipeRead  = 4096
	mostReads = 32
	// eventsPerRead is how many events of inotify one read takes: 1 KiB. The kernel joins equal
	// events, so one per device is usual.
	eventsPerRead = 64
)
