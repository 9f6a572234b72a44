package librxe

import (
	"fmt"
	"math/bits"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// struct rxe_queue_buf (rdma_user_rxe.h) begins every queue that is shared with
// librxe. The indices lie within the mask, in cache lines of their own, and a
// queue is full when one slot is left: producer+1 == consumer (rxe_queue.h of
// either side).
const (
	queueLog2ElemSize = 0
	queueIndexMask    = 4
	queueProducer     = 128
	queueConsumer     = 256
	queueData         = 384
)

// minElemSize is a cache line, as in rxe_queue_init.
const minElemSize = 64

// ring is a queue shared with the program. The daemon has its own size and shift; those in the
// shared page are for librxe. The daemon owns one of the two indices, and never reads it back.
// The program owns the other one. The daemon masks it, so it always names a slot of the queue,
// and writes it only when it cannot be right (cqRing.settle).
//
// The methods below are called with piece.mu held and mem not nil.
type ring struct {
	piece *piece
	mask  uint32
	shift uint8
	size  int // of an element as used; the slot may be larger
}

// maxRingBytes bounds one queue: mminfo.size has 32 bits.
const maxRingBytes = 1<<32 - pageSize

// newRing makes a queue with room for at least entries elements of size bytes.
func newRing(a *arena, entries uint64, size int) (ring, error) {
	elem := max(size, minElemSize)
	shift := uint8(bits.Len(uint(elem - 1)))
	if entries >= 1<<31 {
		return ring{}, fmt.Errorf("queue of %d entries: %w", entries, unix.EINVAL)
	}
	slots := uint64(1) << bits.Len64(entries) // at least entries+1
	total := queueData + slots<<shift
	if total > maxRingBytes {
		return ring{}, fmt.Errorf("queue of %d entries: %w", entries, unix.ENOMEM)
	}
	p, err := a.alloc(int(total))
	if err != nil {
		return ring{}, err
	}
	r := ring{piece: p, mask: uint32(slots - 1), shift: shift, size: size}
	atomic.StoreUint32(r.word(queueLog2ElemSize), uint32(shift))
	atomic.StoreUint32(r.word(queueIndexMask), r.mask)
	return r, nil
}

// place returns where the program finds the queue.
func (r *ring) place() MMInfo {
	off, size := r.info()
	return MMInfo{Offset: off, Size: size}
}

// info is the queue's struct mminfo: where in the file, and how long.
func (r *ring) info() (offset uint64, size uint32) {
	n := queueData + (uint64(r.mask)+1)<<r.shift
	return uint64(r.piece.off), uint32((n + pageSize - 1) &^ (pageSize - 1))
}

// entries is how many elements fit.
func (r *ring) entries() int { return int(r.mask) }

// free unmaps the queue. Its user may be at work: he finds it gone.
func (r *ring) free() { r.piece.free() }

func (r *ring) word(off int) *uint32 {
	return (*uint32)(unsafe.Pointer(&r.piece.mem[off]))
}

// Producer is where the program will put the next element. What it put before
// is visible once the index is: the load acquires.
func (r *ring) producer() uint32 { return atomic.LoadUint32(r.word(queueProducer)) & r.mask }

// Consumer is what the program will take next.
func (r *ring) consumer() uint32 { return atomic.LoadUint32(r.word(queueConsumer)) & r.mask }

func (r *ring) setProducer(i uint32) { atomic.StoreUint32(r.word(queueProducer), i&r.mask) }
func (r *ring) setConsumer(i uint32) { atomic.StoreUint32(r.word(queueConsumer), i&r.mask) }

// slot is the element at i. The program may change it at any moment: it is
// copied, once, and never looked at in place.
func (r *ring) slot(i uint32) []byte {
	at := queueData + int(i&r.mask)<<r.shift
	return r.piece.mem[at : at+1<<r.shift : at+1<<r.shift]
}

// distance is how many elements lie from index from up to index to.
func (r *ring) distance(from, to uint32) uint32 { return (to - from) & r.mask }

// movable is a queue that can take over what is in another.
type movable[T any] interface {
	*T
	move(from *T) error
	free()
}

// replaceRing puts ring in the place of the queue at current, and frees that one;
// after an error it frees ring, and everything is as it was. replace has the engine
// change queues, and calls move while nothing is put in or taken out.
func replaceRing[T any, R movable[T]](current *atomic.Pointer[T], ring R, replace func(move func() error) error) error {
	var old R
	err := replace(func() error {
		old = current.Load()
		if err := ring.move(old); err != nil {
			return err
		}
		current.Store(ring)
		return nil
	})
	if err != nil {
		ring.free()
		return err
	}
	old.free()
	return nil
}
