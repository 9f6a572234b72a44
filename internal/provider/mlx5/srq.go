package mlx5

import (
	"encoding/binary"
	"math/bits"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/kernel/uapi"
	"github.com/gorxe/gorxe/internal/provider"
	"github.com/gorxe/gorxe/rxe"
)

// sharedQueue is provider.SRQ.
type sharedQueue struct {
	c    *userContext
	srq  *rxe.SRQ
	attr rxe.SRQAttr
	num  uint32 // as the provider has it
	ring *sharedRing
}

// NewSRQ implements provider.Context (mlx5_ib_create_srq). libmlx5 asks for all requests that the
// memory has room for.
func (c *userContext) NewSRQ(u provider.UData, req provider.SRQRequest) (provider.SRQ, error) {
	if req.Type != uapi.SRQTypeBasic && req.Type != uapi.SRQTypeXRC {
		return nil, errNotOffered
	}
	if err := lacks(u, srqToFlags); err != nil {
		return nil, err
	}
	own := uapi.Load[CreateSRQReq](u.Request())
	if own.Flags != 0 {
		return nil, errNotOffered // signatures
	}
	if req.MaxSGE > (maxRecvBytes-nextSize)/dataSize || req.MaxWR > maxSRQWR {
		return nil, refuse("max_wr or max_sge", "is too large", "ask for less")
	}
	// A queue for no request has libmlx5 ask for 0.
	attr := rxe.SRQAttr{MaxWR: max(req.MaxWR, 1), MaxSGE: min(req.MaxSGE, c.dev.Attr().MaxSRQSGE)}
	if err := c.dev.CheckSRQ(attr.MaxWR, attr.MaxSGE); err != nil {
		return nil, err
	}
	space, err := u.Space()
	if err != nil {
		return nil, err
	}
	size := max(leastSRQSize, nextSize+req.MaxSGE*dataSize)
	id := uint64(idReceive | idShared)
	if req.Type == uapi.SRQTypeXRC {
		id = newID(idReceive, own.UIdx, 0, 0)
	}
	return &sharedQueue{c: c, attr: attr, num: req.Handle + 1, ring: &sharedRing{
		dev:   c.dev,
		space: space, buf: own.BufAddr, record: own.DBAddr, id: id,
		mask: 1<<bits.Len32(req.MaxWR) - 1, shift: uint8(bits.Len32(size - 1)),
	}}, nil
}

// Ring implements provider.SRQ.
func (q *sharedQueue) Ring() rxe.RecvRing { return q.ring }

// Attr implements provider.SRQ.
func (q *sharedQueue) Attr() rxe.SRQAttr { return q.attr }

// Entries implements provider.SRQ.
func (q *sharedQueue) Entries() int { return int(q.attr.MaxWR) }

// Waiting implements provider.SRQ.
func (q *sharedQueue) Waiting() int { return q.ring.Len() }

// Created implements provider.SRQ. Work requests name an SRQ of XRC by its number.
func (q *sharedQueue) Created(u provider.UData, srq *rxe.SRQ) error {
	q.srq = srq
	if n := srq.Num(); n != 0 {
		q.num = n
	}
	return respond(u, CreateSRQResp{SRQN: q.num})
}

// Modify implements provider.SRQ (mlx5_ib_modify_srq): the size stays.
func (q *sharedQueue) Modify(_ provider.UData, attr rxe.SRQAttr, mask rxe.SRQAttrMask) error {
	if mask&rxe.SRQAttrMaxWR != 0 {
		return unix.EINVAL
	}
	if mask&rxe.SRQAttrLimit != 0 {
		q.ring.watch(attr.Limit)
	}
	return q.srq.Modify(attr, mask)
}

// Free implements provider.SRQ.
func (q *sharedQueue) Free() { q.ring.close() }

// sharedRing is a shared receive queue in the program's memory.
type sharedRing struct {
	dev    *rxe.Subdevice
	space  rxe.Memory
	buf    uint64
	record uint64
	id     uint64 // of its requests, without the counter
	mask   uint32
	shift  uint8 // of a request's bytes

	// Those of the one thread in Fetch:
	copies []byte
	head   [4]byte
	spans  []rxe.Span

	popped atomic.Uint64 // how many requests have left the queue, ever

	mu     sync.Mutex               // a leaf lock, not held for accesses
	ahead  [recvAhead]sharedRequest // what was read, from first on
	first  int
	n      int
	at     uint16 // the index of the next request to read
	read   uint16 // requests that were read so far
	posted uint16 // as the record said last
	limit  uint32 // below which the program wants an event, and the record must be new
	broken bool
	dead   bool
}

// sharedRequest is a request that was read.
type sharedRequest struct {
	wqe rxe.RecvWQE
	bad bool
}

// Fetch implements rxe.FetchingRing.
func (r *sharedRing) Fetch() {
	r.mu.Lock()
	enough := r.n > 0 && uint32(r.left()) > r.limit
	at, room := uint32(r.at)&r.mask, recvAhead-r.n
	skip := r.dead || r.broken || enough
	r.mu.Unlock()
	if skip {
		return
	}
	count := min(room, int(r.mask+1-at))
	size := count << r.shift
	if len(r.copies) < size {
		r.copies = make([]byte, recvAhead<<r.shift)
	}
	r.spans = append(r.spans[:0], rxe.Span{VA: r.record, Buf: r.head[:]})
	if size > 0 {
		r.spans = append(r.spans, rxe.Span{VA: r.buf + uint64(at)<<r.shift, Buf: r.copies[:size]})
	}
	err := r.space.ReadV(r.spans)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.posted = uint16(binary.BigEndian.Uint32(r.head[:]))
	if err != nil || uint32(r.posted-r.read) > r.mask+1 {
		r.broken = true
		r.dev.QueueScribbled()
		return
	}
	r.walk(at, count)
}

// walk takes requests of the copies, which begin with the one at first, as long as each is followed
// by its neighbor. mu is held.
func (r *sharedRing) walk(first uint32, count int) {
	for i := 0; i < count && r.posted != r.read && r.n < recvAhead; i++ {
		if uint32(r.at)&r.mask != first+uint32(i) {
			return
		}
		b := r.copies[i<<r.shift : (i+1)<<r.shift]
		to := &r.ahead[(r.first+r.n)%recvAhead]
		to.bad = !decodeList(&to.wqe, b[nextSize:])
		to.wqe.ID = r.id | uint64(uint32(r.at)&r.mask)
		r.at = binary.BigEndian.Uint16(b[nextIndex:])
		r.read++
		r.n++
	}
}

// Pop implements rxe.RecvRing. It does not block.
func (r *sharedRing) Pop(w *rxe.RecvWQE) (ok, bad bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.n == 0 {
		return r.broken && !r.dead, r.broken
	}
	from := &r.ahead[r.first]
	w.ID, w.SGL = from.wqe.ID, append(w.SGL[:0], from.wqe.SGL...)
	r.first = (r.first + 1) % recvAhead
	r.n--
	r.popped.Add(1)
	return true, from.bad
}

// Popped implements rxe.WaitingRing.
func (r *sharedRing) Popped() uint64 { return r.popped.Load() }

// Waits implements rxe.WaitingRing. It reads at most shownRequests.
func (r *sharedRing) Waits(from uint64, see func(index uint64, w *rxe.RecvWQE)) (next uint64) {
	r.mu.Lock()
	next = r.popped.Load()
	for i := range r.n {
		if x := &r.ahead[(r.first+i)%recvAhead]; next >= from && !x.bad {
			see(next, &x.wqe)
		}
		next++
	}
	at, read := r.at, r.read
	r.mu.Unlock()
	var head [4]byte
	for end := next + shownRequests; next < end; {
		first := uint32(at) & r.mask
		copies := make([]byte, int(min(uint32(end-next), r.mask+1-first))<<r.shift)
		spans := []rxe.Span{{VA: r.record, Buf: head[:]}, {VA: r.buf + uint64(first)<<r.shift, Buf: copies}}
		if r.space.ReadV(spans) != nil || !r.still(read) {
			return next
		}
		posted := uint16(binary.BigEndian.Uint32(head[:])) - read - uint16(next-end+shownRequests)
		if posted == 0 || uint32(posted) > r.mask+1 {
			return next
		}
		at, next = r.show(copies, at, posted, next, func(index uint64, w *rxe.RecvWQE) {
			if index >= from {
				see(index, w)
			}
		})
	}
	return next
}

// still reports whether nobody has read on: then the program has not used those places again.
func (r *sharedRing) still(read uint16) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.read == read && !r.dead && !r.broken
}

// show shows requests of the copies, as long as each is followed by its neighbor, and returns where
// the next one is, and its index.
func (r *sharedRing) show(copies []byte, at, posted uint16, next uint64, see func(uint64, *rxe.RecvWQE)) (uint16, uint64) {
	var w rxe.RecvWQE
	for place := uint32(at) & r.mask; len(copies) > 0 && posted > 0 && uint32(at)&r.mask == place; place++ {
		if decodeList(&w, copies[nextSize:1<<r.shift]) {
			w.ID = r.id | uint64(place)
			see(next, &w)
		}
		at, copies = binary.BigEndian.Uint16(copies[nextIndex:]), copies[1<<r.shift:]
		next++
		posted--
	}
	return at, next
}

// Len returns how many requests wait, as far as is known.
func (r *sharedRing) Len() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.left()
}

// left is Len with mu held.
func (r *sharedRing) left() int {
	if r.broken || r.dead {
		return 0
	}
	return r.n + int(r.posted-r.read)
}

func (r *sharedRing) watch(limit uint32) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.limit = limit
}

func (r *sharedRing) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.dead = true
}
