package librxe

import (
	"encoding/binary"
	"fmt"
	"math"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/rxe"
	"github.com/gorxe/gorxe/wire"
)

// struct rxe_recv_wqe, with the gather list behind it.
const (
	recvWRID   = 0
	recvLength = 16 // dma.length
	recvNumSGE = 28 // dma.num_sge
	recvSGL    = 40

	sgeSize   = 16 // struct rxe_sge
	sgeAddr   = 0
	sgeLength = 8
	sgeLKey   = 12
)

// recvRing is a receive queue, or a shared one, in the program's memory. The daemon
// consumes.
type recvRing struct {
	ring
	maxSGE uint32
	cons   uint32
	popped atomic.Uint64                       // how many requests have left the queue, ever
	wqe    [recvSGL + maxQueueSGE*sgeSize]byte // the copy of a WQE
}

// newRecvRing makes a receive queue for at least maxWR requests.
func newRecvRing(a *arena, maxWR, maxSGE uint32) (*recvRing, error) {
	if maxSGE > maxQueueSGE {
		return nil, fmt.Errorf("receive queue with %d SGEs: %w", maxSGE, unix.EINVAL)
	}
	r, err := newRing(a, uint64(maxWR), recvSGL+int(maxSGE)*sgeSize)
	if err != nil {
		return nil, err
	}
	return &recvRing{ring: r, maxSGE: maxSGE}, nil
}

// Pop is rxe.RecvRing.
func (r *recvRing) Pop(w *rxe.RecvWQE) (ok, bad bool) {
	defer r.piece.unlock(r.piece.lock())
	if r.piece.mem == nil || r.producer() == r.cons {
		return false, false
	}
	// The head first, because it has the length of the list. Each byte is copied once.
	slot := r.slot(r.cons)
	copy(r.wqe[:recvSGL], slot)
	n := binary.NativeEndian.Uint32(r.wqe[recvNumSGE:])
	if n <= r.maxSGE {
		copy(r.wqe[recvSGL:], slot[recvSGL:recvSGL+n*sgeSize])
	}
	r.cons = (r.cons + 1) & r.mask
	r.setConsumer(r.cons)
	r.popped.Add(1)
	return true, !decodeRecv(w, &r.wqe, r.maxSGE)
}

// decodeRecv fills w from the copy of a WQE. It reports whether the list is valid: no
// longer than the queue allows, and less than 4 GiB in all.
func decodeRecv(w *rxe.RecvWQE, b *[recvSGL + maxQueueSGE*sgeSize]byte, maxSGE uint32) bool {
	w.ID = binary.NativeEndian.Uint64(b[recvWRID:])
	w.SGL = w.SGL[:0]
	n := binary.NativeEndian.Uint32(b[recvNumSGE:])
	if n > maxSGE {
		return false
	}
	var total uint64
	for i := range n {
		e := decodeSGE(b[recvSGL+i*sgeSize:])
		total += uint64(e.Length)
		w.SGL = append(w.SGL, e)
	}
	return total <= math.MaxUint32
}

func decodeSGE(b []byte) rxe.SGE {
	return rxe.SGE{
		Addr:   binary.NativeEndian.Uint64(b[sgeAddr:]),
		Length: binary.NativeEndian.Uint32(b[sgeLength:]),
		LKey:   wire.LKey(binary.NativeEndian.Uint32(b[sgeLKey:])),
	}
}

// Len returns how many work requests wait.
func (r *recvRing) Len() int {
	defer r.piece.unlock(r.piece.lock())
	if r.piece.mem == nil {
		return 0
	}
	return int(r.distance(r.cons, r.producer()))
}

// reset forgets what waits. The QP went to RESET.
func (r *recvRing) reset() {
	defer r.piece.unlock(r.piece.lock())
	if r.piece.mem == nil {
		return
	}
	to := r.producer()
	r.popped.Add(uint64(r.distance(r.cons, to)))
	r.cons = to
	r.setConsumer(r.cons)
}

// Popped implements rxe.WaitingRing.
func (r *recvRing) Popped() uint64 { return r.popped.Load() }

// Waits implements rxe.WaitingRing.
func (r *recvRing) Waits(from uint64, see func(index uint64, w *rxe.RecvWQE)) (next uint64) {
	defer r.piece.unlock(r.piece.lock())
	first := r.popped.Load()
	if r.piece.mem == nil {
		return first
	}
	var w rxe.RecvWQE
	var b [recvSGL + maxQueueSGE*sgeSize]byte
	next = first + uint64(r.distance(r.cons, r.producer()))
	from = max(from, first)
	next = min(next, from+shownRequests)
	for i := from; i < next; i++ {
		copy(b[:], r.slot(r.cons+uint32(i-first)))
		if decodeRecv(&w, &b, r.maxSGE) {
			see(i, &w)
		}
	}
	return next
}

// move fills a new ring, which only the caller knows, with the requests that wait in from.
// It leaves from as it is, and returns EINVAL if they do not fit. The engine takes nothing
// meanwhile (rxe.SRQ.ReplaceRing).
func (r *recvRing) move(from *recvRing) error {
	defer r.piece.unlock(r.piece.lock())
	defer from.piece.unlock(from.piece.lock())
	if from.piece.mem == nil || r.piece.mem == nil {
		return refuse("srq", "was destroyed during the call", "resize it before destroy_srq")
	}
	n := moveSlots(&r.ring, &from.ring, from.cons, from.producer())
	if n < 0 {
		return refuse("max_wr", "is less than the receives that wait", "ask for more")
	}
	r.setProducer(uint32(n))
	r.popped.Store(from.popped.Load())
	return nil
}
