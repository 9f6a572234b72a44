package librxe

import (
	"fmt"
	"math"
	"math/bits"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/provider"
)

// struct rxe_queue_buf (rdma_user_rxe.h) begins every queue that is shared with
// librxe. The indices lie within the mask, in cache lines of their own. A queue is full
// when one slot is left: producer+1 == consumer (rxe_queue.h of the kernel and of librxe).
const (
	queueLog2ElemSize = 0
	queueIndexMask    = 4
	queueProducer     = 128
	queueConsumer     = 256
	queueData         = 384
)

// minElemSize is a cache line (rxe_queue.c: rxe_queue_init).
const minElemSize = 64

// ring is a queue shared with the program. Size and shift are the daemon's own; librxe
// reads those in the shared page. The daemon owns one of the two indices, and never reads
// it back. The other is the program's. It is masked, so that every value names a slot. The
// daemon writes it only if it cannot be right (cqRing.settle).
//
// The methods below are called with piece.mu held and mem not nil.
type ring struct {
	piece *piece
	mask  uint32
	shift uint8
	size  int // of an element as used; the slot may be larger
}

// maxRingBytes bounds one queue: the size in struct mminfo has 32 bits.
const maxRingBytes = math.MaxUint32 + 1 - pageSize

// newRing makes a queue with room for at least entries elements of size bytes.
func newRing(a *arena, entries uint64, size int) (ring, error) {
	elem := max(size, minElemSize)
	shift := uint8(bits.Len(uint(elem - 1)))
	if entries > math.MaxInt32 {
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

// info returns the offset in the file and the length, as struct mminfo has them.
func (r *ring) info() (offset uint64, size uint32) {
	n := queueData + (int64(r.mask)+1)<<r.shift
	return uint64(r.piece.off), uint32(provider.WholePages(n))
}

// entries returns how many elements fit.
func (r *ring) entries() int { return int(r.mask) }

// free gives the queue's memory back. A thread that uses the queue finds mem nil.
func (r *ring) free() { r.piece.free() }

func (r *ring) word(off int) *uint32 {
	return (*uint32)(unsafe.Pointer(&r.piece.mem[off]))
}

// producer returns where the program will put the next element. The load acquires: what
// the program put before is visible.
func (r *ring) producer() uint32 { return atomic.LoadUint32(r.word(queueProducer)) & r.mask }

// consumer returns what the program will take next.
func (r *ring) consumer() uint32 { return atomic.LoadUint32(r.word(queueConsumer)) & r.mask }

func (r *ring) setProducer(i uint32) { atomic.StoreUint32(r.word(queueProducer), i&r.mask) }
func (r *ring) setConsumer(i uint32) { atomic.StoreUint32(r.word(queueConsumer), i&r.mask) }

// slot returns the element at i. The program may change it at any moment, so callers copy
// each byte once, and look at the copy.
func (r *ring) slot(i uint32) []byte {
	at := queueData + int(i&r.mask)<<r.shift
	return r.piece.mem[at : at+1<<r.shift : at+1<<r.shift]
}

// distance returns how many elements there are from index from up to index to.
func (r *ring) distance(from, to uint32) uint32 { return (to - from) & r.mask }

// movable is a queue that can take over the elements of another one.
type movable[T any] interface {
	*T
	move(from *T) error
	free()
}

// replaceRing replaces the queue at current with ring, and frees the old one. After an
// error it frees ring, and nothing has changed. replace makes the engine change queues. It
// calls move while the engine neither puts anything in nor takes anything out.
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
