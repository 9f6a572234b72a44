package mlx5

import (
	"encoding/binary"
	"math"
	"sync"
	"sync/atomic"

	"github.com/gorxe/gorxe/rxe"
	"github.com/gorxe/gorxe/wire"
)

// recvQueue is a receive queue in the program's memory. Its methods are called with the queue pair
// locked, except reset and close.
type recvQueue struct {
	dev    *rxe.Subdevice
	space  rxe.Memory
	buf    uint64
	record uint64
	mask   uint32
	shift  uint8 // of a request's bytes
	user   uint32
	kind   uint64 // idFrame, or 0
	prefix int    // bytes before the list of a request

	resets  atomic.Uint32
	waiting atomic.Int32 // as far as is known
	dead    atomic.Bool
	popped  atomic.Uint64 // how many requests have left the queue, ever

	mu     sync.Mutex // a leaf lock, for changes of these by Pop, and for Waits:
	seen   uint32     // of resets
	next   uint16     // the index of the first request that the engine does not have
	broken bool       // the record or the queue cannot be right; the bad request was returned

	ahead  int // requests from next on that were read
	first  int // where the first of them is in copies
	copies []byte
	head   [4]byte
	spans  []rxe.Span
}

// Pop implements rxe.RecvRing. It reads some requests ahead. A record that is nonsense is a bad
// request.
func (r *recvQueue) Pop(w *rxe.RecvWQE) (ok, bad bool) {
	if n := r.resets.Load(); n != r.seen {
		r.begin(n)
	}
	if r.dead.Load() || r.broken {
		return false, false
	}
	if r.ahead == 0 {
		posted, err := r.read()
		if err != nil || posted > int(r.mask)+1 {
			r.mu.Lock()
			r.broken = true
			r.mu.Unlock()
			r.dev.QueueScribbled()
			return true, true
		}
		r.waiting.Store(int32(posted))
		if posted == 0 {
			return false, false
		}
	}
	b := r.copies[r.first<<r.shift : (r.first+1)<<r.shift]
	ok = decodeList(w, b[r.prefix:])
	w.ID = newID(idReceive|r.kind, r.user, 0, r.next)
	r.mu.Lock()
	r.next++
	r.popped.Add(1)
	r.mu.Unlock()
	r.first++
	r.ahead--
	r.waiting.Add(-1)
	return true, !ok
}

// begin begins at 0 again. Those that were dropped have left the queue.
func (r *recvQueue) begin(resets uint32) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.next != 0 {
		r.popped.Add(math.MaxUint16)
	}
	r.seen, r.next, r.ahead, r.broken = resets, 0, 0, false
}

// oldest returns the index of the oldest request that waits, ever and in the queue.
func (r *recvQueue) oldest() (popped uint64, next uint16, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.popped.Load(), r.next, r.resets.Load() == r.seen && !r.dead.Load() && !r.broken
}

// Popped implements rxe.WaitingRing.
func (r *recvQueue) Popped() uint64 { return r.popped.Load() }

// Waits implements rxe.WaitingRing. It reads at most shownRequests.
func (r *recvQueue) Waits(from uint64, see func(index uint64, w *rxe.RecvWQE)) (next uint64) {
	first, index, ok := r.oldest()
	if from = max(from, first); !ok {
		return from
	}
	at := uint32(index) + uint32(from-first)
	n := min(shownRequests, r.mask+1-at&r.mask)
	copies := make([]byte, int(n)<<r.shift)
	var head [4]byte
	spans := []rxe.Span{{VA: r.record + qpRecordReceive, Buf: head[:]}, {VA: r.buf + uint64(at&r.mask)<<r.shift, Buf: copies}}
	if r.space.ReadV(spans) != nil {
		return from
	}
	posted := int(uint16(binary.BigEndian.Uint32(head[:])) - uint16(at))
	// The program may have used the places of those that have left the queue meanwhile.
	gone, _, ok := r.oldest()
	if posted > int(r.mask)+1 || !ok {
		return from
	}
	var w rxe.RecvWQE
	for i := range min(posted, int(n)) {
		if from >= gone && decodeList(&w, copies[i<<r.shift+r.prefix:(i+1)<<r.shift]) {
			w.ID = newID(idReceive, r.user, 0, uint16(at)+uint16(i))
			see(from, &w)
		}
		from++
	}
	return from
}

// read reads the record and some requests, and returns how many are posted.
func (r *recvQueue) read() (posted int, err error) {
	at := uint32(r.next) & r.mask
	n := min(recvAhead, r.mask+1-at)
	size := int(n) << r.shift
	if len(r.copies) < size {
		r.copies = make([]byte, recvAhead<<r.shift)
	}
	r.spans = append(r.spans[:0], rxe.Span{VA: r.record + qpRecordReceive, Buf: r.head[:]},
		rxe.Span{VA: r.buf + uint64(at)<<r.shift, Buf: r.copies[:size]})
	if err := r.space.ReadV(r.spans); err != nil {
		return 0, err
	}
	posted = int(uint16(binary.BigEndian.Uint32(r.head[:])) - r.next)
	r.first, r.ahead = 0, min(posted, int(n))
	return posted, nil
}

// decodeList makes the list of a receive request, of whose segments the last may say that there are
// no more.
func decodeList(w *rxe.RecvWQE, b []byte) bool {
	be := binary.BigEndian
	w.SGL = w.SGL[:0]
	var total uint64
	for ; len(b) >= dataSize; b = b[dataSize:] {
		n, key := be.Uint32(b), be.Uint32(b[dataKey:])
		if key == lastKey {
			break
		}
		if n == 0 {
			continue
		}
		total += uint64(n)
		w.SGL = append(w.SGL, rxe.SGE{Addr: be.Uint64(b[dataAddr:]), Length: n, LKey: wire.LKey(key)})
	}
	return total <= math.MaxUint32
}

func (r *recvQueue) entries() int { return int(r.mask) + 1 }

// reset forgets what is in the queue. libmlx5 begins at 0 again.
func (r *recvQueue) reset() {
	r.waiting.Store(0)
	r.resets.Add(1)
}

func (r *recvQueue) close() { r.dead.Store(true) }
