package fallback

import "time"

// All numbers of this package. What is said of them, at twice and at half, is reasoned and not
// measured.
const (
	// probes is how many calls beside the last known one are tried: those that had been received
	// but not yet noted. Their numbers are consecutive. Twice: 64 more system calls at the daemon's
	// death. Half: if 33 threads had just received a call each, one waits for ever.
	probes = 64
	// orphansTimeout bounds the wait for orphans: a program can hold the lock of a file. Twice:
	// such a program's calls are answered a second later. Half: on a busy machine, work requests of
	// others complete late.
	orphansTimeout = time.Second
	// maxMappings bounds what is read of /proc/PID/maps: lines. A process has 65,530 mappings
	// unless vm.max_map_count allows more. Half: queues behind those are not found.
	maxMappings = 1 << 16
	// maxOffset is more than a memfd of ours has. With it, an offset and a length have a sum.
	maxOffset = 1 << 62
)

// Programs whose posts are not calls (Flush).
const (
	// Their queues are looked at again after pauses of flushPause, which double up to
	// longestFlushPause. Twice: a program that posts is told later. Half: twice the work for each
	// process that lives on.
	flushPause        = 10 * time.Millisecond
	longestFlushPause = 320 * time.Millisecond
)

// Pipes with doorbells that wait (jam).
const (
	// maxPipeBytes is the default of fs.pipe-max-size.
	maxPipeBytes = 1 << 20
	// A thread that waits for room in a pipe gets jamTime to find it: at once, and jamRounds times
	// later, each after a pause of jamPause. Twice: the program's last doorbells succeed for
	// longer. Half: on a busy machine a thread may have no turn, and waits for ever.
	jamTime   = 5 * time.Millisecond
	jamPause  = 10 * jamTime
	jamRounds = 8
	// jamChunk is how many bytes one call reads or writes: a page, as pipes are made of.
	jamChunk = 4096
)
