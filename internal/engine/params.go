package engine

import "time"

// All numbers of this package. They are chosen, not measured. standby.CallLimit and
// standby.MaxBlocked bound the work at a deadline, which may block.
const (
	// clockCloseTimeout is how long close waits for a blocked worker of the clock. Twice: a daemon
	// ends later if a program's memory does not answer. Half: a busy machine may leave one behind.
	clockCloseTimeout = time.Second
	// deviceCloseTimeout is how long Close waits for the device, in which a million objects take
	// less. Twice: as above. Half: too short for them.
	deviceCloseTimeout = 5 * time.Second
	// markBits is how many bits of a queue pair number name the kind of queue pair. They leave
	// 65,536 numbers for connected queue pairs, and as many for UD. Of random numbers, one in 128
	// is one of these. One more bit halves both.
	markBits = 8
)
