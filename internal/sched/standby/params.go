package standby

import "time"

// The numbers of all that replaces blocked threads. They are chosen, not measured: a call that
// does not block takes well under a millisecond, also on a busy machine.
const (
	// CallLimit is how long one call may take before it may count as blocked. Packets, deadlines
	// and doorbells wait for as long. Twice: a peer retransmits once more. Half: a busy machine
	// looks like one with blocked memory.
	CallLimit = 20 * time.Millisecond
	// MaxBlocked bounds the workers of a role. The programs of several users may block some each. A
	// worker has a thread and up to 1 MiB. Twice: 256 MiB. Half: one user with 16 blocked
	// programs leaves 48 workers.
	MaxBlocked = 128

	// A call is too long when so many looks beyond the first one find it again: it has then taken
	// two whole ticks. More: finer limits, and more wake-ups. Fewer: a call may be replaced at
	// once.
	tooManyLooks = 2
	// UnconfirmedFactor is how many times longer a call may take while no thread is seen to wait
	// for memory. The cause of a block may be one that threads do not show. Twice: such a block
	// takes 0.4 s. Half: a machine under heavy load replaces workers that only wait for a
	// processor.
	UnconfirmedFactor = 10
	unconfirmedLooks  = UnconfirmedFactor*(tooManyLooks+1) - 1
	// quietTicks is how many ticks without a call pass before the watch sleeps: 160 ms. Twice: a
	// timer runs longer after each call. Half: a program that calls every 100 ms wakes it up each
	// time.
	quietTicks = 16
)
