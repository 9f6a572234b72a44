package rxe

import "github.com/gorxe/gorxe/wire"

// Link carries packets away. Send is synchronous: the buffers belong to the
// caller again when it returns. It fills in the ICRC in the four bytes that
// each packet of a burst ends with. A packet that cannot be sent is lost, as
// on any network: the transport recovers. Send is called with a QP locked and
// must not call back into the device.
type Link interface {
	Send(bursts []wire.Burst)
	// Join and Leave add and remove a multicast GID as a receive address.
	Join(mgid wire.GID) error
	Leave(mgid wire.GID) error
}

// Time is a reading of a monotonic clock, in nanoseconds.
type Time int64

// Clock tells the time and is told when Device.Expire is due. Arm replaces the
// deadline given before; it may be called with a QP locked, and must not call
// back into the device.
type Clock interface {
	Now() Time
	Arm(deadline Time)
}

// Span is one piece of a scatter or gather operation: len(Buf) bytes at VA.
type Span struct {
	VA  uint64
	Buf []byte
}

// Memory is the address space that a memory region lies in. An error means
// that the address space is gone (ErrSpaceEnded) or the range is not mapped; the engine
// makes it a protection error, but says nothing to a peer of what is gone. The
// atomics are atomic against each other and act on naturally aligned 8-byte words
// in host byte order.
type Memory interface {
	ReadV(spans []Span) error  // memory -> spans' buffers
	WriteV(spans []Span) error // spans' buffers -> memory
	CompareSwap(va, compare, swap uint64) (old uint64, err error)
	FetchAdd(va, add uint64) (old uint64, err error)
	Store(va, value uint64) error
}
