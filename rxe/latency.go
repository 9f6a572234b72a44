package rxe

import (
	"math/bits"
	"sync/atomic"
	"time"
)

// Latency counts send work requests by how long they took: from when they got their PSNs until
// they completed with success. It has one in LatencySample of each QP.
type Latency struct {
	// Buckets[i] has those that took less than 2^i microseconds and no less than half of that. The
	// last one has all longer ones.
	Buckets [latencyBuckets]uint64
	Sum     uint64 // nanoseconds
}

// latency is Latency while it is counted.
type latency struct {
	buckets [latencyBuckets]atomic.Uint64
	sum     atomic.Uint64
}

// timed reports whether the request in a slot of a send queue is one that is timed.
func timed(slot uint32) bool { return slot%LatencySample == 0 }

func (l *latency) add(took Time) {
	took = max(took, 0)
	micros := uint64(time.Duration(took) / time.Microsecond)
	l.buckets[min(bits.Len64(micros), latencyBuckets-1)].Add(1)
	l.sum.Add(uint64(took))
}

// Latency returns how long work requests took.
func (d *Device) Latency() (l Latency) {
	for i := range l.Buckets {
		l.Buckets[i] = d.latency.buckets[i].Load()
	}
	l.Sum = d.latency.sum.Load()
	return l
}
