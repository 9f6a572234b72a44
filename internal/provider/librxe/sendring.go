package librxe

import (
	"errors"
	"fmt"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/provider"
	"github.com/gorxe/gorxe/rxe"
)

// sendRing is a send queue in the program's memory. The daemon consumes it in two steps. A
// doorbell takes work requests from it, which moves fetched. When they complete, done moves
// cons, which librxe sees. So the room in the ring is the room in the engine's send queue.
//
// A doorbell may block: the engine reads the program's memory, which may not answer
// (userfaultfd). So no thread waits for a doorbell. A thread that rings while another one
// works leaves a mark, and the other thread looks again. done, reset and free need piece.mu
// only, which is held while elements are copied. A blocked doorbell costs the daemon one
// thread until the program ends.
type sendRing struct {
	ring
	maxSGE    uint32
	maxInline uint32
	avs       avCache

	doorbells atomic.Int32 // doorbells rung and not answered; the first answers all

	// Guarded by piece.mu:
	fetched uint32 // next for a doorbell
	cons    uint32 // next to complete
	epoch   uint32 // counts resets
	stalled *stalledDoorbell
	again   bool // somebody is on the way to ring for it
}

// stalledDoorbell is a doorbell that ended because the engine's queue was full.
type stalledDoorbell struct {
	qp   *rxe.QP
	keys provider.Keys
}

// newSendRing makes a send queue for at least c.MaxSendWR requests with c's
// lists and inline data, which share their space.
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

// doorbell hands to the engine what the program put in the queue (post_send of
// librxe rings after having done so). EINVAL: the QP is in no state that sends;
// what is in the queue stays there.
func (r *sendRing) doorbell(qp *rxe.QP, k provider.Keys) error {
	n := r.doorbells.Add(1)
	if n != 1 {
		return nil // the thread at work looks again
	}
	for {
		err := r.answer(qp, k)
		if r.doorbells.CompareAndSwap(n, 0) {
			return err
		}
		n = r.doorbells.Load()
	}
}

// answer posts what is in the queue, and no more than one queue full: the
// program adds to it meanwhile, and may say anything.
func (r *sendRing) answer(qp *rxe.QP, k provider.Keys) error {
	b := sendBatches.Get().(*sendBatch)
	defer sendBatches.Put(b)
	for left := r.mask; left > 0; {
		r.fetch(b, qp.Type(), k, left, noShare)
		if len(b.wrs) == 0 {
			return nil
		}
		n, err := b.post(qp)
		left -= uint32(max(n, 1)) // nor for ever, whatever the indices say
		if n == len(b.wrs) {
			continue
		}
		if again, err := r.unfetch(b, n, qp, k, err); !again {
			return err
		}
	}
	return nil
}

// waits tells whether there is something in the queue that the engine has not had
// and has not been too full for.
func (r *sendRing) waits() bool {
	r.piece.mu.Lock()
	defer r.piece.mu.Unlock()
	return r.piece.mem != nil && r.stalled == nil && r.distance(r.fetched, r.producer()) != 0
}

// look hands one batch to the engine, of no more than share if it is more than one
// work request, and returns what that was worth (provider.Share). more says that there is
// reason to look again at once.
func (r *sendRing) look(qp *rxe.QP, k provider.Keys, share int) (worth int, more bool) {
	n := r.doorbells.Add(1)
	if n != 1 {
		return 0, false // the thread at work looks again
	}
	b := sendBatches.Get().(*sendBatch)
	defer sendBatches.Put(b)
	r.fetch(b, qp.Type(), k, sendBatchSize, share)
	taken, err := b.post(qp)
	if taken == len(b.wrs) {
		more = r.waits()
	} else {
		more, _ = r.unfetch(b, taken, qp, k, err)
	}
	if !r.doorbells.CompareAndSwap(n, 0) {
		r.doorbells.Store(0)
		more = true // somebody rang, and left it to this call
	}
	return b.worth, more
}

// unfetch puts back what the engine did not take after the first n, and says
// whether to try that again at once.
func (r *sendRing) unfetch(b *sendBatch, n int, qp *rxe.QP, k provider.Keys, why error) (again bool, err error) {
	r.piece.mu.Lock()
	defer r.piece.mu.Unlock()
	if r.epoch == b.epoch {
		r.fetched = (r.fetched - uint32(len(b.wrs)-n)) & r.mask
	}
	switch {
	case !errors.Is(why, rxe.ErrFull):
		return false, unix.EINVAL
	case r.fetched == r.cons:
		return true, nil // all has completed since: nothing is left to ring for it
	}
	r.stalled = &stalledDoorbell{qp, k}
	return false, nil
}

// done is rxe.QPInitAttr.OnSendDone: the n oldest work requests are over.
func (r *sendRing) done(n uint32) {
	r.piece.mu.Lock()
	// Work requests that were on their way to the engine during a reset are
	// not in this queue any more.
	n = min(n, r.distance(r.cons, r.fetched))
	r.cons = (r.cons + n) & r.mask
	if r.piece.mem != nil {
		r.setConsumer(r.cons)
	}
	stalled := r.stalled
	r.stalled = nil
	ring := stalled != nil && !r.again
	r.again = r.again || ring
	r.piece.mu.Unlock()
	if ring {
		// The QP is locked here. The program's memory may block the engine.
		r.piece.arena.budget.Background(func() { r.ringAgain(stalled) })
	}
}

// ringAgain continues a doorbell that had stalled.
func (r *sendRing) ringAgain(stalled *stalledDoorbell) {
	r.piece.mu.Lock()
	r.again = false
	r.piece.mu.Unlock()
	_ = r.doorbell(stalled.qp, stalled.keys) // there is no caller to tell
}

// reset forgets what is in the queue: the QP went to RESET.
func (r *sendRing) reset() {
	r.piece.mu.Lock()
	defer r.piece.mu.Unlock()
	r.epoch++
	r.stalled = nil
	if r.piece.mem == nil {
		return
	}
	r.fetched = r.producer()
	r.cons = r.fetched
	r.setConsumer(r.cons)
}
