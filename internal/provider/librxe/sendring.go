package librxe

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/provider"
	"github.com/gorxe/gorxe/rxe"
)

// sendRing is a send queue in the program's memory, which the daemon consumes in two
// steps. A doorbell fetches work requests, which moves fetched. When they complete, done
// moves cons, which librxe sees: the room in the ring is the room in the engine's queue.
//
// A doorbell may block, because the engine reads the program's memory, which may not
// answer (userfaultfd). So no thread waits for a doorbell. A thread that finds another one
// at work leaves a mark, and the other one looks at the queue again. done, reset and free
// need only piece.mu, which is held while elements are copied. A doorbell that blocks costs
// the daemon one thread, until the program ends.
type sendRing struct {
	ring
	maxSGE    uint32
	maxInline uint32
	avs       avCache

	doorbells atomic.Int32 // doorbells not served yet; the first one serves all
	// noCredit is since when the next message has no receive work request at its peer. The thread that serves the
	// doorbells has it.
	noCredit time.Time

	// Guarded by piece.mu:
	fetched uint32 // next for a doorbell
	cons    uint32 // next to complete
	epoch   uint32 // counts resets
	stalled *stalledDoorbell
	again   bool // a thread is about to resume it
	refused bool // take was refused, when the producer's index was refusedAt
	// refusedAt is valid if refused is set.
	refusedAt uint32
}

// stalledDoorbell is a doorbell that ended because the engine's queue was full.
type stalledDoorbell struct {
	qp   *rxe.QP
	keys provider.Keys
}

// newSendRing makes a send queue for at least c.MaxSendWR requests. Lists and inline data
// share their space.
func newSendRing(a *arena, c rxe.QPCap) (*sendRing, error) {
	space := max(c.MaxSendSGE*sgeSize, c.MaxInlineData)
	if c.MaxSendSGE > maxQueueSGE || c.MaxInlineData > maxQueueSGE*sgeSize {
		return nil, fmt.Errorf("send queue with %d SGEs and %d bytes inline: %w",
			c.MaxSendSGE, c.MaxInlineData, unix.EINVAL)
	}
	space = (space + sgeSize - 1) &^ (sgeSize - 1)
	r, err := newRing(a, uint64(c.MaxSendWR), sendHeadSize+int(space))
	if err != nil {
		return nil, err
	}
	return &sendRing{ring: r, maxSGE: space / sgeSize, maxInline: space}, nil
}

// free unmaps the queue and destroys the address handles made for it.
func (r *sendRing) free() {
	r.ring.free()
	r.avs.close()
}

// doorbell hands the engine what the program put in the queue before it made the doorbell
// (librxe's post_send). EINVAL: the QP is not in a state that sends; the queue keeps what
// it has.
func (r *sendRing) doorbell(qp *rxe.QP, k provider.Keys) error {
	n := r.doorbells.Add(1)
	if n != 1 {
		return nil // the thread at work looks again
	}
	for {
		err := r.serve(qp, k)
		if r.doorbells.CompareAndSwap(n, 0) {
			return err
		}
		n = r.doorbells.Load()
	}
}

// serve posts what is in the queue, at most as much as the queue holds: the program can
// add to it meanwhile, and can write any index.
func (r *sendRing) serve(qp *rxe.QP, k provider.Keys) error {
	b := sendBatches.Get().(*sendBatch)
	defer sendBatches.Put(b)
	for left := r.mask; left > 0; {
		r.fetch(b, qp.Type(), k, left, noShare)
		if len(b.wrs) == 0 {
			return nil
		}
		n, err := b.post(qp, false)
		left -= uint32(max(n, 1)) // end, whatever the indices say
		if n == len(b.wrs) {
			continue
		}
		if again, err := r.unfetch(b, n, qp, k, err); !again {
			return err
		}
	}
	return nil
}

// waits reports whether the queue has work requests that the engine has neither taken nor
// refused for lack of room.
func (r *sendRing) waits() bool {
	defer r.piece.unlock(r.piece.lock())
	return r.piece.mem != nil && r.stalled == nil && r.distance(r.fetched, r.producer()) != 0
}

// creditWait is how long a message waits for a receive work request of its peer. Then the engine has it, and waits for the RNR
// time. A program that polls on the same processor has a turn meanwhile.
const creditWait = time.Millisecond

// take hands one batch to the engine: no more than share, if it is more than one work
// request. For credited see provider.QP.
func (r *sendRing) take(qp *rxe.QP, k provider.Keys, share int, credited bool) (t provider.Taken, err error) {
	n := r.doorbells.Add(1)
	if n != 1 {
		return provider.Taken{}, nil // the thread at work looks again
	}
	b := sendBatches.Get().(*sendBatch)
	defer sendBatches.Put(b)
	r.fetch(b, qp.Type(), k, sendBatchSize, share)
	credited = credited && (r.noCredit.IsZero() || time.Since(r.noCredit) < creditWait)
	taken, err := b.post(qp, credited)
	t = provider.Taken{Requests: taken, Worth: b.worthUntil(taken), NoCredit: errors.Is(err, rxe.ErrNoCredit)}
	switch {
	case !t.NoCredit || taken > 0:
		r.noCredit = time.Time{}
	case r.noCredit.IsZero():
		r.noCredit = time.Now()
	}
	if taken == len(b.wrs) {
		t.More, err = r.waits(), nil
	} else if t.More, err = r.unfetch(b, taken, qp, k, err); err != nil && !r.refusedAnew() {
		err = nil
	}
	if !r.doorbells.CompareAndSwap(n, 0) {
		r.doorbells.Store(0)
		t.More = true // another thread left its doorbell to this call
	}
	return t, err
}

// single reports whether one work request is posted, and the engine has none that is not complete.
func (r *sendRing) single() bool {
	defer r.piece.unlock(r.piece.lock())
	return r.piece.mem != nil && r.fetched == r.cons && r.distance(r.fetched, r.producer()) == 1
}

// refusedAnew notes that the engine takes nothing, and reports whether the program has posted
// something since that was noted last. Doorbells of other queue pairs call take, too.
func (r *sendRing) refusedAnew() bool {
	defer r.piece.unlock(r.piece.lock())
	if r.piece.mem == nil {
		return false
	}
	end := r.producer()
	anew := !r.refused || r.refusedAt != end
	r.refused, r.refusedAt = true, end
	return anew
}

// unfetch puts back what the engine did not take after the first n. It reports whether
// the caller should try again at once.
func (r *sendRing) unfetch(b *sendBatch, n int, qp *rxe.QP, k provider.Keys, why error) (again bool, err error) {
	defer r.piece.unlock(r.piece.lock())
	if r.epoch == b.epoch {
		r.fetched = (r.fetched - uint32(len(b.wrs)-n)) & r.mask
	}
	switch {
	case errors.Is(why, rxe.ErrNoCredit):
		return false, nil
	case !errors.Is(why, rxe.ErrFull):
		if errors.Is(why, rxe.ErrInvalid) {
			return false, errors.Join(unix.EINVAL, why)
		}
		return false, refuse("qp", "takes no work requests", "see whether it was destroyed")
	case r.fetched == r.cons:
		return true, nil // all has completed since, so no completion would resume it
	}
	r.stalled = &stalledDoorbell{qp, k}
	return false, nil
}

// done is rxe.QPInitAttr.OnSendDone: the n oldest work requests have completed.
func (r *sendRing) done(n uint32) {
	if stalled := r.complete(n); stalled != nil {
		// The QP is locked here, and the engine may block in the program's memory.
		r.piece.arena.budget.Background(func() { r.resume(stalled) })
	}
}

// complete makes room for n work requests. It returns a stalled doorbell that can go on now.
func (r *sendRing) complete(n uint32) (resume *stalledDoorbell) {
	defer r.piece.unlock(r.piece.lock())
	// Work requests that a reset forgot do not count.
	n = min(n, r.distance(r.cons, r.fetched))
	r.cons = (r.cons + n) & r.mask
	if !r.again {
		resume = r.stalled
	}
	r.again = r.again || resume != nil
	r.stalled = nil
	if r.piece.mem != nil {
		r.setConsumer(r.cons)
	}
	return resume
}

// resume continues a doorbell that had stalled.
func (r *sendRing) resume(d *stalledDoorbell) {
	r.piece.mu.Lock()
	r.again = false
	r.piece.mu.Unlock()
	_ = r.doorbell(d.qp, d.keys) // no caller waits for the error
}

// discard takes back what no doorbell has fetched, by moving the producer's index back. librxe's
// post_send, which is in its doorbell, then finds the room again. If another thread of the program
// posts to the same queue pair meanwhile, some of these work requests may stay.
func (r *sendRing) discard() {
	defer r.piece.unlock(r.piece.lock())
	if r.piece.mem != nil && r.stalled == nil { // a stalled doorbell's posts have succeeded
		r.setProducer(r.fetched)
	}
}

// reset forgets what is in the queue. The QP went to RESET.
func (r *sendRing) reset() {
	defer r.piece.unlock(r.piece.lock())
	r.epoch++
	r.stalled, r.refused = nil, false
	if r.piece.mem == nil {
		return
	}
	r.fetched = r.producer()
	r.cons = r.fetched
	r.setConsumer(r.cons)
}
