package librxe

import (
	"errors"
	"fmt"
	"sync/atomic"

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
	avs       provider.AddressCache
	keys      provider.Keys
	qp        *rxe.QP // from queuePair.Created on

	doorbells atomic.Int32 // doorbells not served yet; the first one serves all

	// Guarded by piece.mu:
	fetched uint32 // next for a doorbell
	cons    uint32 // next to complete
	epoch   uint32 // counts resets
	state   sendState
	since   rxe.Time // in sendNoCredit: when it began
	refused uint32   // in sendRefused: the producer's index when the engine refused
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
	return &sendRing{ring: r, maxSGE: space / sgeSize, maxInline: space, avs: provider.AddressCache{Most: avCacheSize}}, nil
}

// free unmaps the queue and destroys the address handles made for it.
func (r *sendRing) free() {
	r.ring.free()
	r.avs.Close()
}

// doorbell hands the engine what the program put in the queue before it made the doorbell
// (librxe's post_send). EINVAL: the QP is not in a state that sends; the queue keeps what
// it has.
func (r *sendRing) doorbell() error {
	n := r.doorbells.Add(1)
	if n != 1 {
		return nil // the thread at work looks again
	}
	for {
		err := r.serve()
		if r.doorbells.CompareAndSwap(n, 0) {
			return err
		}
		n = r.doorbells.Load()
	}
}

// serve posts what is in the queue, at most as much as the queue holds: the program can
// add to it meanwhile, and can write any index.
func (r *sendRing) serve() error {
	b := sendBatches.Get().(*sendBatch)
	defer sendBatches.Put(b)
	for left := r.mask; left > 0; {
		r.fetch(b, left, noShare)
		if len(b.wrs) == 0 {
			return nil
		}
		n, err := b.post(r.qp, false)
		left -= uint32(max(n, 1)) // end, whatever the indices say
		if more, err := r.conclude(b, n, err); !more {
			return err
		}
	}
	return nil
}

// waits reports whether the queue has work requests that no completion will hand to the engine.
func (r *sendRing) waits() bool {
	defer r.piece.unlock(r.piece.lock())
	return r.left()
}

// left is waits, with piece.mu held.
func (r *sendRing) left() bool {
	return r.piece.mem != nil && r.state != sendFull && r.distance(r.fetched, r.producer()) != 0
}

// take hands one batch to the engine: no more than share, if it is more than one work
// request. For credited see provider.QP.
func (r *sendRing) take(share int, credited bool) (t provider.Taken, err error) {
	n := r.doorbells.Add(1)
	if n != 1 {
		return provider.Taken{}, nil // the thread at work looks again
	}
	b := sendBatches.Get().(*sendBatch)
	defer sendBatches.Put(b)
	r.fetch(b, sendBatchSize, share)
	taken, err := b.post(r.qp, credited && !b.overdue)
	t = provider.Taken{Requests: taken, Worth: b.worthUntil(taken), NoCredit: errors.Is(err, rxe.ErrNoCredit)}
	t.More, err = r.conclude(b, taken, err)
	if b.told { // doorbells of other queue pairs call take, too
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

// conclude puts back what the engine did not take of a batch after the first n, because of why, and
// brings the queue into its next state. It reports whether the caller should fetch again.
func (r *sendRing) conclude(b *sendBatch, n int, why error) (more bool, err error) {
	defer r.piece.unlock(r.piece.lock())
	if r.epoch == b.epoch {
		r.fetched = (r.fetched - uint32(len(b.wrs)-n)) & r.mask
	}
	switch {
	case r.piece.mem == nil:
		return false, nil
	case n == len(b.wrs):
		r.on(sendTook)
		return r.left(), nil
	case errors.Is(why, rxe.ErrNoCredit) && n > 0:
		r.on(sendTook) // the message that is now the first waits from the next call on
		return false, nil
	case errors.Is(why, rxe.ErrNoCredit):
		if r.on(sendWantsCredit) {
			r.since = r.qp.Now()
		}
		return false, nil
	case !errors.Is(why, rxe.ErrFull):
		r.on(sendRefusal)
		r.refused = b.end
		if errors.Is(why, rxe.ErrInvalid) {
			return false, errors.Join(unix.EINVAL, why)
		}
		return false, refuse("qp", "takes no work requests", "see whether it was destroyed")
	case r.fetched == r.cons:
		return true, nil // all has completed since, so no completion would resume it
	}
	r.on(sendNoRoom)
	return false, nil
}

// done is rxe.QPInitAttr.OnSendDone: the n oldest work requests have completed.
func (r *sendRing) done(n uint32) {
	if r.complete(n) {
		// The QP is locked here, and the engine may block in the program's memory.
		r.piece.arena.budget.Background(r.resume)
	}
}

// complete makes room for n work requests. It reports whether resume must be called.
func (r *sendRing) complete(n uint32) (resume bool) {
	defer r.piece.unlock(r.piece.lock())
	// Work requests that a reset forgot do not count.
	n = min(n, r.distance(r.cons, r.fetched))
	r.cons = (r.cons + n) & r.mask
	if r.piece.mem != nil {
		r.setConsumer(r.cons)
	}
	return r.on(sendCompletion)
}

// resume hands the engine what it had no room for.
func (r *sendRing) resume() {
	r.piece.mu.Lock()
	r.on(sendResume)
	r.piece.mu.Unlock()
	_ = r.doorbell() // no caller waits for the error
}

// discard takes back what no doorbell has fetched, by moving the producer's index back. librxe's
// post_send, which is in its doorbell, then finds the room again. If another thread of the program
// posts to the same queue pair meanwhile, some of these work requests may stay.
func (r *sendRing) discard() {
	defer r.piece.unlock(r.piece.lock())
	// In the two states below, the queue has work requests whose post has succeeded.
	if r.piece.mem != nil && r.state != sendFull && r.state != sendResuming {
		r.setProducer(r.fetched)
	}
}

// reset forgets what is in the queue. The QP went to RESET.
func (r *sendRing) reset() {
	defer r.piece.unlock(r.piece.lock())
	r.epoch++
	r.on(sendReset)
	if r.piece.mem == nil {
		return
	}
	r.fetched = r.producer()
	r.cons = r.fetched
	r.setConsumer(r.cons)
}
