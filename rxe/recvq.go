package rxe

// waitingIn returns how many work requests wait in a ring, if it has a method Len.
func waitingIn(ring RecvRing) (n int, known bool) {
	r, known := ring.(interface{ Len() int })
	if !known {
		return 0, false
	}
	return r.Len(), true
}

// recvRing is the in-memory receive queue. The gather lists of all its work
// requests lie in one block, so that posting and popping allocate nothing.
type recvRing struct {
	slots  []recvSlot
	sges   []SGE // maxSGE for each slot
	maxSGE int
	head   int // the oldest
	count  int
}

type recvSlot struct {
	id uint64
	n  int // SGEs in use
}

func newRecvRing(maxWR, maxSGE uint32) *recvRing {
	return &recvRing{
		slots:  make([]recvSlot, maxWR),
		sges:   make([]SGE, int(maxWR)*int(maxSGE)),
		maxSGE: int(maxSGE),
	}
}

// post copies wr in. ErrFull and ErrInvalid say what is wrong with it.
func (r *recvRing) post(wr *RecvWR) error {
	const op = "PostRecv"
	if len(wr.SGL) > r.maxSGE {
		return tooBig(op, "num_sge", uint64(len(wr.SGL)), "exceeds max_recv_sge", uint64(r.maxSGE))
	}
	if r.count == len(r.slots) {
		return opErr(op, "", ErrFull)
	}
	at := r.index(r.count)
	r.slots[at] = recvSlot{id: wr.ID, n: copy(r.sges[at*r.maxSGE:(at+1)*r.maxSGE], wr.SGL)}
	r.count++
	return nil
}

func (r *recvRing) index(i int) int {
	if i += r.head; i >= len(r.slots) {
		i -= len(r.slots)
	}
	return i
}

// Pop implements RecvRing. post has checked what it returns, so it is never bad.
func (r *recvRing) Pop(w *RecvWQE) (ok, bad bool) {
	if r.count == 0 {
		return false, false
	}
	s := &r.slots[r.head]
	from := r.head * r.maxSGE
	w.ID = s.id
	w.SGL = append(w.SGL[:0], r.sges[from:from+s.n]...)
	r.head = r.index(1)
	r.count--
	return true, false
}

// Len returns how many work requests wait.
func (r *recvRing) Len() int { return r.count }

// resized returns a ring of another size with the same contents, which must fit.
func (r *recvRing) resized(maxWR uint32) *recvRing {
	next := newRecvRing(maxWR, uint32(r.maxSGE))
	for i := range r.count {
		at := r.index(i)
		next.slots[i] = r.slots[at]
		copy(next.sges[i*r.maxSGE:(i+1)*r.maxSGE], r.sges[at*r.maxSGE:])
	}
	next.count = r.count
	return next
}

// clear forgets every work request.
func (r *recvRing) clear() { r.head, r.count = 0, 0 }

// PostRecv queues receive work requests (ibv_post_recv) and returns how many it
// queued. With an error, that is the position of the bad one. A QP in RESET takes
// none. A QP in ERR flushes them at once, in order.
func (q *QP) PostRecv(wrs []RecvWR) (n int, err error) {
	const op = "PostRecv"
	q.lock()
	defer q.unlock(nil)
	switch {
	case q.dead:
		return 0, opErr(op, "qp", ErrClosed)
	case q.srq != nil:
		return 0, invalid(op, "qp", "has a shared receive queue", "post to the SRQ")
	case q.rring == nil:
		return 0, opErr(op, "qp", ErrNotSupported)
	case q.attr.State == QPReset:
		return 0, invalid(op, "qp", "is in RESET", "take it to INIT first")
	}
	for n = range wrs {
		if err = q.rring.post(&wrs[n]); err != nil {
			break
		}
		if q.attr.State == QPErr {
			q.resp.flushRecv(q)
		}
	}
	if err == nil {
		n = len(wrs)
	}
	return n, err
}

// popRecv takes the next receive work request, from the SRQ if there is one. The
// caller has locked the QP. For bad see RecvRing.
func (q *QP) popRecv(w *RecvWQE) (ok, bad bool) {
	if q.observer != nil {
		q.observer.Receiving(q)
	}
	if q.srq != nil {
		return q.srq.pop(w)
	}
	return q.rq.Pop(w)
}
