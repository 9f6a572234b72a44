package sanitize

import "time"

// Limits of a Session. A stack is at most StackBytes, so all take 22 MiB (Memory).
const (
	// StackBytes is how much of a thread's stack is kept for each event. The frames of libibverbs
	// and librxe take about 1 KiB (rdma-core 44).
	StackBytes = 4 << 10
	// MapsBytes bounds the list of a process's mappings. UCX with Open MPI has 60 KiB.
	MapsBytes = 128 << 10

	// Callers is how many frames are kept of a stack whose lines are known at once.
	Callers = 16

	maxObjects  = 1024 // that have a history; further ones are not seen
	maxEnded    = 256  // regions that were deregistered
	maxPosts    = 1024 // work requests that are under way
	maxReceives = 1024 // that wait
	maxFindings = 64   // different ones
	maxMaps     = 16   // lists of mappings
	lastWrites  = 16   // of the device to a program's memory

	mapColumns = 6 // of a line of /proc/PID/maps that names a file (proc(5))

	// hashedBytes is how much of a posted message is compared. A longer one is compared at its
	// beginning and at its end.
	hashedBytes = 64 << 10

	// keyVariantBits is how many bits of a key a window changes.
	keyVariantBits = 8
	// atomicBytes is what an atomic names of the peer's memory (IBA 9.4.5).
	atomicBytes = 8

	// columns is how wide a drawing of memory is.
	columns = 60
	// precision is that of a length of time in a finding.
	precision = time.Microsecond
)

// Memory is what a Session takes at most, in bytes. An object has three stacks: of its making, of
// its last change, and of its last post or its end. A work request has one, and a finding four.
const Memory = (4*maxObjects+4*maxEnded+maxPosts+maxReceives+4*maxFindings)*StackBytes + maxMaps*MapsBytes
