package rxe

import (
	"net/netip"
	"time"

	"github.com/gorxe/gorxe/wire"
)

// Link carries packets away. Send is synchronous: the buffers belong to the caller
// again when it returns. It fills in the ICRC, for which each packet of a burst
// ends with four bytes. A packet that cannot be sent is lost, as on any network,
// and the transport recovers. Send is called with a QP locked and must not call
// back into the device, except for Device.Loopback.
type Link interface {
	Send(bursts []wire.Burst)
	// Join and Leave add and remove a multicast GID as a receive address.
	Join(mgid wire.GID) error
	Leave(mgid wire.GID) error
}

// LimitedLink is a Link that says how long its packets may be.
type LimitedLink interface {
	Link
	// TooLong returns the MTU of the network interface, and how many packets were lost because
	// they were longer than what the path carries. It is called with a QP locked.
	TooLong() (mtu int, lost uint64)
}

// WorkFaults decides which work requests of a queue pair fail or complete late on purpose. It is
// called with the QP locked and must not call back into the device.
type WorkFaults interface {
	// Work is asked once about each send work request, when it is posted. A QP in SQE or ERR does
	// not ask. Work is also asked about each message that would complete a receive work request.
	Work(q *QP, op WCOpcode) WorkFault
	// NoReceive is asked about each message that needs a receive work request, each time it
	// arrives. True: the message is answered as if none were posted.
	NoReceive(q *QP) bool
}

// WorkFault says what happens to a work request. The zero value is nothing.
type WorkFault struct {
	// Status, if not WCSuccess, is what the work request completes with, in its order and
	// without being executed. A receive at fault is answered with a NAK: the one that belongs to
	// Event, or "remote operational error", as after an error that only this side knows.
	Status    WCStatus
	VendorErr uint32
	Event     EventType // of the QP, raised with Status; 0: none
	// Breaks is what breaks instead of the QP's Event; a receive at fault is then not answered.
	// The QP fails with EventQPFatal. Status is set too.
	Breaks Breakage
	// Ends says that the program loses the QP: a receive at fault is not answered, as when the
	// program has ended. Status is set too.
	Ends bool
	// ReachLimit makes the SRQ of a receive work request raise EventSRQLimitReached.
	ReachLimit bool
	// Delay is how much later a send work request completes with success.
	Delay time.Duration
}

// Time is a reading of a monotonic clock, in nanoseconds.
type Time int64

// Clock tells the time and learns when Device.Expire is due. Arm replaces the
// deadline given before. It may be called with a QP locked, and must not call back
// into the device.
type Clock interface {
	Now() Time
	Arm(deadline Time)
}

// Span is one piece of a scatter or gather operation: len(Buf) bytes at VA.
type Span struct {
	VA  uint64
	Buf []byte
}

// Memory is the address space that a memory region lies in. An error means that the
// address space has ended (ErrSpaceEnded) or that the range is not mapped. The
// second is a protection error; of the first a peer is told nothing, as if the host
// had failed. The atomics are atomic against each other and act on naturally
// aligned 8-byte words in host byte order.
type Memory interface {
	ReadV(spans []Span) error  // memory -> spans' buffers
	WriteV(spans []Span) error // spans' buffers -> memory
	CompareSwap(va, compare, swap uint64) (old uint64, err error)
	FetchAdd(va, add uint64) (old uint64, err error)
	Store(va, value uint64) error
}

// Filter learns which packets the device can use, so that the port can drop others before
// they take room in a queue. It is called with a QP or the table of QPs locked.
type Filter interface {
	// SetMark tells the mark that the numbers of all queue pairs have from now on, and
	// have had so far.
	SetMark(m wire.QPNMark)
	// AddPeer and RemovePeer count the connected queue pairs whose peer has that address.
	// Packets of others to connected queue pairs are of no use.
	AddPeer(addr netip.Addr)
	RemovePeer(addr netip.Addr)
}
