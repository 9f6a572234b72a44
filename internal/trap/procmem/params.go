package procmem

import "time"

// All numbers of this package. They were chosen on a virtual machine with two processors, x86-64,
// Linux 6.18. What is said of twice and half of a number is reasoned, and measured where a
// benchmark is named.

// Accesses that block.
const (
	// maxBlocked bounds the blocked accesses of one address space. Twice: a program takes twice as
	// many spare threads. Half: two slow pages at a time refuse the work of all others.
	maxBlocked = 4
	// maxUserBlocked bounds those of a user. A watch that replaces blocked threads one by one
	// meets up to as many again before they count as blocked. The reserve of spare threads
	// (standby.MaxBlocked) is enough for five such users. Twice: for two. Half: three slow programs
	// refuse the work of the user's others.
	maxUserBlocked = 12
	// blockedAfter is how long an access takes before it counts as blocked: long enough for a busy
	// machine. Twice: more threads are taken until then. Half: a busy machine refuses work.
	blockedAfter = int64(200 * time.Millisecond)
	// lookEvery is how often the blocked accesses are counted. Twice: a count is 40 ms old. Half:
	// all places are read twice as often.
	lookEvery = int64(20 * time.Millisecond)
	// accessPlaces is how many accesses of a user have a place of their own. More use the counters
	// of the space. Twice: 4 KiB more for each user. Half: 32 threads with a place are enough for
	// 16 processors.
	accessPlaces = 64
	// placeRest fills a place to the 64 bytes of a cache line.
	placeRest = 48
	// wordLocks is how many locks the atomics of a space have. Twice: 128 bytes more. Half: two
	// threads meet at one lock twice as often.
	wordLocks = 16
)

// How long an exec waits for bursts. One that takes longer got hold of the old
// address space long ago (mm/process_vm_access.c: process_vm_rw_core) and is blocked
// in it: it cannot reach the new one.
const (
	// quiesceStep is the time between two looks. Twice: an exec takes up to 50 µs longer.
	quiesceStep = 50 * time.Microsecond
	// quiesceLimit is the longest wait. Twice: an exec beside blocked memory takes 0.2 s. Half: a
	// busy machine may not finish a burst in it.
	quiesceLimit = 100 * time.Millisecond
)

// How memory is accessed.
const (
	// NumberLife is how long a check of the process number serves. Another process gets the number
	// only when this one has ended and every other number was given out (kernel/pid.c: alloc_pid
	// goes round): 32,768 forks, by default. Twice: as safe with a thousand forks a millisecond.
	// Half: twice the checks.
	NumberLife = int64(time.Millisecond)
	// smallAccess is the size in bytes up to which one piece is faster through mem
	// (BenchmarkPieces). Twice and half: the pieces between are slower by a system call's fixed
	// part.
	smallAccess = 4096
	// vectorLen is how many pieces one call moves. A read may have a gap before each of them, and
	// the kernel takes 1024 in all (UIO_MAXIOV). Twice: too many with gaps. Half: more calls.
	vectorLen = 256
	// maxGap is how many bytes between two pieces a read takes along. The kernel looks up the page
	// of each remote piece, which takes as long as copying two or three KiB (BenchmarkPieces). A
	// gap is shorter than a page, so its bytes are in the pages of the two pieces. Another page may
	// not be mapped, or may block the thread that reads it. Twice: about as fast. Half: fewer
	// pieces are joined.
	maxGap = 1024
)
