package mlx5

import (
	"time"

	"github.com/gorxe/gorxe/internal/quota"
)

// All numbers of this package, except those of libmlx5's ABI. What is said of them, at twice and at
// half, is reasoned and not measured.

// What the device tells libmlx5 of its queues (struct mlx5_ib_alloc_ucontext_resp). These are a
// ConnectX-6's.
const (
	// maxWQEBB bounds a send queue, in blocks of 64 bytes, and maxRecvWR a receive queue. The index
	// of a block has 16 bits, so a queue cannot have more than twice as many.
	maxWQEBB  = 1 << 15
	maxRecvWR = 1 << 15
	maxSRQWR  = 1<<15 - 1
	// maxSendBytes and maxRecvBytes are the longest work requests.
	maxSendBytes = 1024
	maxRecvBytes = 512
	qpTableSize  = 1 << 18
	cacheLine    = 64
)

// The pages of registers.
const (
	// uarPages is how many pages libmlx5 maps for each open, of two registers each. More queue
	// pairs share a register. Twice: a look reads twice as many words. Half: a doorbell costs a
	// look at twice as many queue pairs.
	uarPages = 8
	// mostUARs is how many pages a program may ask for. A thread domain has half a page of its
	// own. Twice: a look at 4,096 words for a program that uses all. Half: one with 513 thread
	// domains gets ENOMEM.
	mostUARs = 512
	// fileEnd is the size of the file. librxe's has direct doorbells behind provider.OffsetsEnd,
	// and this one nothing. Half: those of a program that writes like librxe fail with EFBIG.
	fileEnd = 1 << 47
	// openMemory is what an open costs besides the pages: an estimate, on the safe side. Twice: a
	// user's budget bears half as many. Half: the daemon may hold more than the budget says.
	openMemory = 96 << 10
)

// A poller has a thread, and so may two that replace it.
var (
	openCost   = quota.Cost{Memory: openMemory, Files: 1}
	pollerCost = quota.Cost{Threads: 1}
)

// leftThreads is how many threads opens leave of a user's share, for calls. Twice: a user with a
// share of 10 has no device. Half: more calls wait until a receiver leaves, after a second.
const leftThreads = 4

// Work requests.
const (
	// firstBlocks are read together with the doorbell record: most programs post no more at once.
	// Twice: each doorbell copies 256 bytes more. Half: a request with a list needs a second read.
	firstBlocks = 4
	// batchBlocks is how much of a send queue is read at most before the engine gets it. It has
	// room for the longest request. Twice: a batch has 4 KiB more. Half: a stream has twice the
	// calls.
	batchBlocks = 64
	// finishTries is how often the end of a queue pair looks whether another thread still reads its
	// send queue, each finishPause: a second together. Twice: a program whose memory does not
	// answer waits two. Half: on a busy machine, what was posted last may be lost.
	finishTries = 10_000
	finishPause = 100 * time.Microsecond
	// recvAhead is how many receive requests one access reads. Twice: a message costs the copy of
	// requests that it may not need. Half: twice the accesses.
	recvAhead = 16
	// shownRequests is how many receive requests an observer sees at a message. Twice: a message
	// costs the copy of twice as much. Half: it takes twice as long until all were seen.
	shownRequests = 64
	// recordsAtOnce is how many doorbell records one access reads. Twice: a vector of twice the
	// length, beyond which the kernel allocates (UIO_FASTIOV is 8). Half: twice the accesses for
	// many queue pairs.
	recordsAtOnce = 64
	// engineSGE and engineInline are what a send queue takes at least, whatever the program asked
	// for: programs that write their own requests use up to four blocks. Twice: a budget is charged
	// twice the memory. Half: such requests fail.
	engineSGE    = 16
	engineInline = 256
	// addresses bounds the address handles that a send queue keeps. Twice: a look at 64 entries.
	// Half: a program that sends to 17 addresses in turn makes a handle for each.
	addresses = 32
)

// The poller.
const (
	// pollers is how many threads of an open may be blocked by the memory of programs, and one.
	// Twice: a hostile program holds six threads. Half: the first blocked one stops all doorbells.
	pollers = 3
	// longPause is the pause from which on a completion ends it. Twice: a program that waits for a
	// message rings in vain for as long. Half: more system calls with completions.
	longPause = 200 * time.Microsecond
	// mostPlaces is in how many places a program may have mapped the pages that its guard covers:
	// each page in two. Twice: a program that maps pages for nothing has the guard make twice the
	// calls. Half: one that uses all pages, and maps one again, has no guard.
	mostPlaces = 2 * (mostUARs + uarPages)
	// stackBytes is how much of the stack of a thread at its doorbell is read, and leastStack how
	// much at least. They are those of a thread in a system call (sanitize.StackBytes). Half:
	// frames of the program are missing.
	stackBytes = 4 << 10
	leastStack = 256
	// landingTries and landingPause are how long a poller that has each store wait gives one to
	// land, 0.2 ms together. Twice: a program that was stopped there delays others' doorbells by as
	// much. Half: on a busy machine, a store waits twice.
	landingTries = 100
	// stoppedPause is how long such a poller waits for a store, which ends the pause. Twice: the
	// device's clock is 20 ms behind. Half: an idle program costs twice the looks.
	stoppedPause = 10 * time.Millisecond
	// landedPause is how long it waits after it has let a store go on. Then it looks for one of
	// another thread. Twice: that one waits 0.2 ms. Half: on a busy machine, it looks too early.
	landedPause  = 100 * time.Microsecond
	landingPause = 2 * time.Microsecond
	// crossingPause is how long a thread waits at a register that several queue pairs have, for
	// another one that must not come. Twice: such programs are slower. Half: on a busy machine,
	// fewer mistakes are found.
	crossingPause = 100 * time.Microsecond
	// stopTimeout is how long the end of an open waits for its poller. Twice: a program whose
	// poller is blocked ends 0.1 s later. Half: a busy machine may not run it in time, and its
	// thread ends a little later.
	stopTimeout = 100 * time.Millisecond
)

// Labels of queues, for the keeper.
const (
	// mostLabels bounds the queues of an open that the keeper knows. Twice: 2 MiB more of address
	// space. Half: if the daemon dies, programs are not told of requests in queues beyond those.
	mostLabels = 1 << 15
	// labelMagic is the kind of the first sort of label: a word that is rare in files.
	labelMagic = 0x67726371
	// mostFlushed bounds what the keeper completes in one pass. Half: a program with many requests
	// waits for a second pass.
	mostFlushed = 1 << 20
)

// cqesAtOnce is how many completions one access writes. Twice: a queue has 4 KiB more. Half: twice
// the accesses of a stream.
const cqesAtOnce = 64

// pciDomain is the PCI domain of the adapters. Any other number does as well, if no host has it:
// firmware counts domains from 0.
const pciDomain = 0xfe00

// What an adapter has beside its queues.
const (
	// maxDMSize is how much device memory a program gets. Twice: the adapter says so of more than
	// it has. Half: a test that asks for max_dm_size gets less.
	maxDMSize = 128 << 10

	// maxTSO is the longest payload of a frame that is cut: what rxe.MaxFrame has room for.
	maxTSO = 64 << 10
	// maxCQCount and maxCQPeriod are MLX5_MAX_CQ_COUNT and MLX5_MAX_CQ_PERIOD.
	maxCQCount  = 1<<16 - 1
	maxCQPeriod = 1<<12 - 1
	// cqPeriod is the unit of that.
	cqPeriod = time.Microsecond
	// clockCompared is how often the clock is compared with the host's. Twice: host times of
	// completions are off by up to 1 ms while the host's clock is adjusted. Half: half that.
	clockCompared = time.Second
	// A tick of the adapter's clock is a nanosecond. Other rates need more bits of the conversion.
	clockKHz = 1_000_000
)

// Striding receive queues (enum in mlx5_ib.h: MLX5_MIN_SINGLE_STRIDE_LOG_NUM_BYTES and its kin).
const (
	leastStrideLog = 6
	mostStrideLog  = 13
	// leastStridesLog is that of an adapter with ext_stride_num_range. mostStridesLog is one less
	// than an adapter's, because completions have 15 bits for the strides of a filler. Half: a
	// program that wants 32,768 strides is refused.
	leastStridesLog = 3
	mostStridesLog  = 15
	twoByteShift    = 2
	// longestFrame is what a completion has room for.
	longestFrame = 1<<16 - 1
)

// What the device says of compressed completions (cqe_compression_max_num). It compresses none:
// an adapter does so when several wait, and no program may count on it. Without it, DPDK's receive
// queues do not start.
const mostCompressed = 64

// Flow rules and RSS.
const (
	// mostFlowCounters bounds the values of a counters object, and their indexes. Twice: a read
	// makes an array of 512 KiB. Half: a program that attaches 32,768 points is refused.
	mostFlowCounters = 1 << 15
	// logMostTable bounds an indirection table, as a ConnectX-6's (log_max_rqt_size). Twice: a
	// request may name 4,096 work queues. Half: a program that asks for
	// max_rwq_indirection_table_size gets less.
	logMostTable = 11
	// mostTables is how many of them the device says it has. A user's budget bounds them.
	mostTables = 1 << 16
)
