package sanitize

import "time"

// Limits of a Session. A stack is at most StackBytes, see Memory for all.
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

	maxStrays = 16 // datagrams with a wrong Q_Key, of different senders, receivers or Q_Keys

	maxCrossed = 4 // queue pairs of a doorbell that a finding names

	// receivesAtOnce is how many new receives a thread of the engine looks at for a message, which
	// takes one. It hashes hashedBytes of them. Twice: a program that posts 1,000 for each message
	// takes twice as much of the time of other users. Half: it takes longer until all are seen.
	receivesAtOnce = 8

	maxPieces = 8 // of a gather or scatter list that are compared

	// If races are looked for:
	maxClaims    = 1024 // ranges
	leftClaims   = 768  // that are left, if there is no room for another one
	maxSlots     = 128  // queue pairs whose order is known
	maxNews      = 1024 // messages and completions that are under way
	maxPlaces    = 256  // words that atomics change
	maxProcesses = 256
	markBytes    = 16
	// flagBytes is how long a WRITE may be that its owner waits for by the processor: longer ones
	// come in any order of their bytes (IBA 10.8.3.3, o9-20). Twice: more races are missed. Half:
	// programs that wait for a 64-bit word are blamed.
	flagBytes = 8
	maxTold   = 256 // queue pairs whose RDMA CM messages are under way

	// hashedBytes is how much of a posted message is compared. A longer one is compared at its
	// beginning and at its end.
	hashedBytes = 64 << 10

	// comparedOf is how many messages there are to one that is compared, if they come too fast for
	// a stop at each. To compare costs 3 µs, of 1.3 for a message. Twice: a mistake in one of a
	// hundred messages of a stream may be missed for a second. Half: a stream of small messages is
	// a fifth slower.
	comparedOf = 8

	// keyVariantBits is how many bits of a key a window changes.
	keyVariantBits = 8
	// atomicBytes is what an atomic names of the peer's memory (IBA 9.4.5).
	atomicBytes = 8

	// keyRoom is enough for most keys of findings, whose numbers have this base.
	keyRoom = 128
	keyBase = 36

	// columns is how wide a drawing of memory is.
	columns = 60
	// precision is that of a length of time in a finding.
	precision = time.Microsecond
)

// memory is what a Session takes at most without races, in bytes. An object has three stacks: of
// its making, of its last change, and of its last post or its end. A work request has one, and a
// finding four.
const memory = (4*maxObjects+4*maxEnded+maxPosts+maxReceives+4*maxFindings)*StackBytes + maxMaps*MapsBytes

// raceMemory is what a Session takes to look for races: a stack for each claim, and a clock for
// each of the others. A region and a queue pair have one, too.
const raceMemory = maxClaims*StackBytes + (maxNews+maxPosts+maxPlaces+maxProcesses+maxObjects+maxReceives+maxTold)*maxSlots*markBytes

// qkeyMemory is what a Session takes to know where Q_Keys come from: a stack for each object, and
// two for each stray.
const qkeyMemory = (maxObjects + 2*maxStrays) * StackBytes

// Memory is what a Session with these checks takes at most, in bytes.
func (s Selection) Memory() int64 {
	n := int64(memory)
	if s[qkeyMismatch] {
		n += qkeyMemory
	}
	if s.races() {
		n += raceMemory
	}
	return n
}

// races reports whether a check of races is selected.
func (s Selection) races() bool { return s[raceWrite] || s[raceRead] || s[raceAtomic] }
