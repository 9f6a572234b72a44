package mlx5

import (
	"encoding/binary"
	"sync"

	"github.com/gorxe/gorxe/rxe"
)

// cqRing is a completion queue in the program's memory.
type cqRing struct {
	space  rxe.Memory
	user   func(rxe.WC) uint32
	record uint64
	notify func() // nil: the program has no channel
	events moderation
	wake   func() // the poller: the program may ring soon
	tick   func() // sets the clock; nil: the program does not want the time of completions
	loose  bool   // the program does not say what it has polled

	label ringLabel // from completionQueue.Created on

	// writing is held by the thread that writes completions. It may block, and the program's
	// resize_cq then waits with it.
	writing sync.Mutex
	cqes    [cqesAtOnce][cqeSize]byte
	spans   []rxe.Span
	head    [recordSize]byte

	mu    sync.Mutex // a leaf lock, not held for accesses
	buf   uint64
	shift uint8
	mask  uint32
	prod  uint32
	cons  uint32 // as it was when the record was read
	cqEvents
	dead bool
}

// cqEvents is what decides about the events of a completion queue; cqRing.mu guards it.
type cqEvents struct {
	solicited uint32 // the index behind the last solicited completion
	asked     bool   // a solicited completion was ever written
	fired     uint32 // the sequence number of the last event, as it stands in the record
	told      uint32 // the index behind the last completion at that event
}

// Push implements rxe.CQRing. The engine calls PushAll.
func (r *cqRing) Push(wc *rxe.WC) bool { return r.PushAll([]rxe.WC{*wc}) == 1 }

// PushAll implements rxe.BlockingCQRing.
func (r *cqRing) PushAll(wcs []rxe.WC) (n int) {
	r.writing.Lock()
	defer r.writing.Unlock()
	for len(wcs) > 0 {
		room := min(r.room(len(wcs)), cqesAtOnce)
		if room == 0 || !r.write(wcs[:room]) {
			return n
		}
		n, wcs = n+room, wcs[room:]
		if r.notify != nil {
			r.lookAtArm()
		}
		r.wake()
	}
	return n
}

// room returns for how many completions there is room, of those that are wanted. It reads what the
// program has polled if that matters.
func (r *cqRing) room(want int) int {
	if free := r.free(); free >= want || r.loose {
		return want
	}
	if r.readRecord() != nil {
		return 0
	}
	return min(r.free(), want)
}

// free returns for how many completions there is room, as far as is known. All places are used: the
// program tells an empty queue from a full one by the owner bit. A consumer that has passed the
// producer leaves no room.
func (r *cqRing) free() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.dead {
		return 0
	}
	return max(int(r.mask)+1-int(r.waiting()), 0)
}

// waiting is Waiting with mu held.
func (r *cqRing) waiting() uint32 { return (r.prod - r.cons) & consumerMask }

// readRecord reads what the program has polled. writing is held.
func (r *cqRing) readRecord() error {
	if err := r.space.ReadV([]rxe.Span{{VA: r.record, Buf: r.head[:]}}); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cons = binary.BigEndian.Uint32(r.head[cqRecordConsumer:]) & consumerMask
	return nil
}

// write puts completions in, for which there is room. The owner's byte of each is written after the
// others, because a copy may be out of order.
func (r *cqRing) write(wcs []rxe.WC) bool {
	r.mu.Lock()
	buf, shift, mask, prod := r.buf, r.shift, r.mask, r.prod
	r.mu.Unlock()
	r.spans = r.spans[:0]
	last := -1
	for i := range wcs {
		at := prod + uint32(i)
		b := &r.cqes[i]
		encodeCQE(b, &wcs[i], r.user(wcs[i]), ownerOf(at, mask))
		r.spans = appendCQE(r.spans, buf, shift, at&mask, b)
		if wcs[i].Solicited {
			last = i
		}
	}
	if r.tick != nil {
		r.tick() // the program may read the clock when it has seen a completion
	}
	if r.space.WriteV(r.spans) != nil {
		return false
	}
	r.label.written(wcs, prod+uint32(len(wcs)))
	r.mu.Lock()
	defer r.mu.Unlock()
	r.prod += uint32(len(wcs))
	if last >= 0 {
		r.solicited, r.asked = prod+uint32(last)+1, true
	}
	return !r.dead
}

// ownerOf is the owner bit of the completion at an index, which changes with each round.
func ownerOf(at, mask uint32) uint8 {
	if at&(mask+1) != 0 {
		return 1
	}
	return 0
}

// appendCQE adds the two pieces of a completion.
func appendCQE(spans []rxe.Span, buf uint64, shift uint8, slot uint32, b *[cqeSize]byte) []rxe.Span {
	va := buf + uint64(slot+1)<<shift - cqeSize
	return append(spans, rxe.Span{VA: va, Buf: b[:cqeOwner]}, rxe.Span{VA: va + cqeOwner, Buf: b[cqeOwner:]})
}

// Waiting implements rxe.CQRing: how many completions the program had not polled when its record
// was read last. It does not block, so it may be too many.
func (r *cqRing) Waiting() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.loose || r.waiting() > r.mask+1 {
		return 0
	}
	return int(r.waiting())
}

// behind implements provider.LateCQ. It counts as polled what is polled by the time of the look, so
// there may be less than it says, and never more.
func (r *cqRing) behind() (look func() int) {
	r.mu.Lock()
	prod, entries := r.prod, r.mask+1
	r.mu.Unlock()
	return func() int {
		var b [recordSize]byte
		if r.loose || r.space.ReadV([]rxe.Span{{VA: r.record, Buf: b[:]}}) != nil {
			return 0
		}
		n := (prod - binary.BigEndian.Uint32(b[cqRecordConsumer:])) & consumerMask
		if n > entries { // the program has polled more
			return 0
		}
		return int(n)
	}
}

func (r *cqRing) entries() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return int(r.mask)
}

func (r *cqRing) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.dead = true
	r.events.stop()
}

// disarm says in the record that no event is asked for. libmlx5 has put 0 there, which is also its
// first request.
func (r *cqRing) disarm() error {
	b := binary.BigEndian.AppendUint32(nil, notArmed)
	return r.space.WriteV([]rxe.Span{{VA: r.record + cqRecordArm, Buf: b}})
}

// lookAtArm gives the program an event if it has asked for one, and there is a completion that it
// may not have seen when it asked.
//
// The thread that writes completions looks when it has written them, so it finds each request that
// came before. Of one that comes later the program's store to a register tells, and the poller
// looks.
func (r *cqRing) lookAtArm() {
	var b [recordSize]byte
	if r.space.ReadV([]rxe.Span{{VA: r.record, Buf: b[:]}}) != nil {
		return // the next completion finds out
	}
	if r.fires(binary.BigEndian.Uint32(b[cqRecordConsumer:]), binary.BigEndian.Uint32(b[cqRecordArm:])) {
		r.notify()
	}
}

// fires decides that. A request has a sequence number, which libmlx5 changes after each event. A
// completion has one event: programs ask for the next one before they poll (docs/design/0045).
func (r *cqRing) fires(consumer, arm uint32) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cons = consumer & consumerMask
	seq := arm&armSequence | 1
	if r.dead || arm&notArmed != 0 || seq == r.fired {
		return false
	}
	behind := r.prod
	if arm&armSolicited != 0 {
		if !r.asked {
			return false
		}
		behind = r.solicited
	}
	if n := (behind - arm) & consumerMask; n == 0 || n > consumerMask/2 {
		return false
	}
	if int32(behind-r.told) <= 0 || r.events.waits(r.prod-r.told, r.overdue) {
		return false
	}
	r.fired, r.told = seq, r.prod
	return true
}

// resize moves to another place in memory. libmlx5 copies what waits, up to a completion that marks
// the end, and to places behind the consumer's by one: so the mark has an index, too
// (mlx5_cq_resize_copy_cqes).
func (r *cqRing) resize(buf uint64, mask uint32) error {
	r.writing.Lock()
	defer r.writing.Unlock()
	if err := r.readRecord(); err != nil {
		return err
	}
	r.mu.Lock()
	at, from, shift, before := r.prod, r.buf, r.shift, r.mask
	waiting := r.waiting()
	r.mu.Unlock()
	if waiting > min(mask, before) {
		return refuse("cqe", "is less than the completions that wait", "poll completions first")
	}
	var mark [cqeSize]byte
	mark[cqeOwner] = opOwner(cqeResize, ownerOf(at, before))
	if err := r.space.WriteV(appendCQE(nil, from, shift, at&before, &mark)); err != nil {
		return err
	}
	r.mu.Lock()
	r.buf, r.mask, r.prod = buf, mask, at+1
	r.mu.Unlock()
	r.label.moved(buf, mask, at+1)
	return nil
}
