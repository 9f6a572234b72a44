package inject

import "time"

// All numbers of this package. They are chosen, not measured.
const (
	// hitsPerPacket is for how many rules that hit one packet there is room without an allocation.
	// Half: two allocations for a packet that three rules hit.
	hitsPerPacket = 4
	// maxCopies is how often a packet arrives again at most, whatever many rules say. Twice: rules
	// that repeat all packets may fill the peer's queue.
	maxCopies = 16
	// defaultHold is how long a packet waits for those that overtake it, if its rule does not say.
	// Those may never come. Twice: closer to the shortest timeouts of programs.
	defaultHold = 20 * time.Millisecond
	// maxHeld bounds the packets of a flow that are held at a time. Each packet that passes them is
	// compared with all. Twice: so many comparisons more.
	maxHeld = 1024

	// laterBytes bounds the memory of the delayed packets of a device, and laterShare that of those
	// whose rules one payer pays for. Half: 25 Gbit/s can be delayed by 43 ms, and not 86.
	laterBytes = 256 << 20
	laterShare = 64 << 20
	// laterClose bounds the wait for a packet that is being delivered, which may block on a
	// program's memory (package standby).
	laterClose = time.Second
	// lateBytes and heldBytes are what a packet takes besides its bytes: late, its route, and its
	// places in the heap and in the owner's set; the place in held.
	lateBytes = 768
	heldBytes = 512
	// The heap of delayed packets gives memory back when it is larger than heapKept entries, and
	// one in heapSparse is in use. Twice: it keeps twice as much. Half: it is copied more often.
	heapKept   = 64
	heapSparse = 4

	// Bit 0 of a rule is the highest bit of the packet's first byte.
	octetBits = 8
	highBit   = 1 << (octetBits - 1)
)
