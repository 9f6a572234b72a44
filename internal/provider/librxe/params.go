package librxe

import (
	"time"

	"github.com/gorxe/gorxe/internal/quota"
)

// All numbers of this package, except those of librxe's ABI. What is said of them, at twice and at
// half, is reasoned and not measured.

// The file with the queues, in bytes.
const (
	// arenaEnd is the size of the file. Behind the queues is room for direct doorbells
	// (doorbelllog.go): 32 bytes each, a million a second for nine years. Twice: Linux allows 2^63.
	// Half: four years.
	arenaEnd = 1 << 53
	// windowSize is the size of a window, unless a queue needs more. Twice: a program with one
	// small queue has 8 MiB mapped, of which it uses pages. Half: twice the mappings, of which a
	// process has 65,530 (vm.max_map_count).
	windowSize = 4 << 20
	// openMemory and windowMemory are what an open and a window cost besides the memory of the
	// queues: estimates, on the safe side. Twice: a user's budget bears half as many. Half: the
	// daemon may hold more than the budget says.
	openMemory   = 32 << 10
	windowMemory = 64 << 10
)

var openCost = quota.Cost{Memory: openMemory, Files: 1}

// Work requests.
const (
	// maxQueueSGE bounds the list of a work request, whatever the limits of the device are.
	// rdma_rxe allows 32. Twice: each queue and each batch has copies of twice the size. Half:
	// rdma_rxe's limit, with nothing to spare.
	maxQueueSGE = 64
	// sendBatchSize is how many work requests one call of the engine gets. Twice: a batch has 70
	// KiB more. Half: a stream has twice the calls.
	sendBatchSize = 32
	// shownRequests is how many receives an observer sees at once. Twice: a message costs the copy
	// of twice as many. Half: it takes twice as long until all were seen.
	shownRequests = 64
	// creditWait is how long a message waits for a receive work request of its peer. Then the
	// engine has it, and waits for the RNR time. A program that polls on the same processor has a
	// turn meanwhile. Twice: a message that its peer never expects fails later. Half: a busy
	// processor may not run the peer in time.
	creditWait = time.Millisecond
	// avCacheSize bounds the address handles that one send queue keeps for a librxe that puts the
	// address itself into each work request. Twice: a look at 64 entries. Half: a program that
	// sends to 17 addresses in turn makes a handle for each.
	avCacheSize = 32
	// Three counts share one word (queuePair.awaits): each has the bits from its shift on. Closer:
	// two changes cancel each other out sooner, and a program that waits is not seen.
	polledShift = 16
	bytesShift  = 32
)

// The largest values that FlushOrphan accepts of a program, which may write anything.
const (
	// maxOrphanPages are searched for queues: 1 GiB. Twice: a program with so many holds the end up
	// for twice as long. Half: some programs poll for ever.
	maxOrphanPages = 1 << 18
	// maxOrphanShift is the logarithm of an element's size. Elements of our queues have
	// 2 KiB at most.
	maxOrphanShift = 16
	// maxOrphanWork is how many work requests are completed: as many as one queue has at most
	// (rxe.DefaultLimits). Twice and half: as with maxOrphanPages.
	maxOrphanWork = 1 << 20
)
