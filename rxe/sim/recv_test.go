package sim

import (
	"bytes"
	"time"

	"github.com/gorxe/gorxe/rxe"
	"github.com/gorxe/gorxe/wire"
)

const recvID = 1 << 63 // in the ID of every receive

func grhSpace(t rxe.QPType) int {
	if t == rxe.QPUD {
		return wire.GRHLen
	}
	return 0
}

// receiveQueue keeps a receive queue, of one QP or shared, filled; sometimes late.
type receiveQueue struct {
	h      *host
	q      *rxe.QP // or:
	srq    *rxe.SRQ
	size   int // of every buffer
	depth  int
	posted []*recvBuf // oldest first
	free   []*recvBuf
	nextID uint64
	waking bool
}

// recvBuf is a receive buffer in up to four pieces.
type recvBuf struct {
	id     uint64
	pieces []extent
}

func newReceiveQueue(h *host, size, depth int) *receiveQueue {
	r := &receiveQueue{h: h, size: size, depth: depth}
	for range depth {
		if b, ok := h.recvBuf(size); ok {
			r.free = append(r.free, b)
		}
	}
	if len(r.free) == 0 {
		failf("no room for receive buffers")
	}
	return r
}

func (h *host) recvBuf(size int) (*recvBuf, bool) {
	pieces, ok := h.pieces(size)
	return &recvBuf{pieces: pieces}, ok
}

// pieces allocates n bytes in one to four pieces, occasionally with an empty one.
func (h *host) pieces(n int) (p []extent, ok bool) {
	for k := 1 + h.w.rng.IntN(1+h.w.rng.IntN(4)); k > 0; k-- {
		part := n
		if k > 1 {
			part = h.w.rng.IntN(n + 1)
		}
		off, ok := h.alloc(part, 1)
		if !ok {
			return nil, false
		}
		p = append(p, extent{off, part})
		n -= part
	}
	return p, true
}

// sgl names the pieces by the keys of either region.
func (h *host) sgl(pieces []extent) []rxe.SGE {
	s := make([]rxe.SGE, len(pieces))
	for i, p := range pieces {
		r := &h.mrs[h.w.rng.IntN(len(h.mrs))]
		s[i] = rxe.SGE{Addr: r.iova + uint64(p.off), Length: uint32(p.n), LKey: r.mr.LKey()}
	}
	return s
}

// wake schedules a refill.
func (r *receiveQueue) wake() {
	if r.waking {
		return
	}
	r.waking = true
	w := r.h.w
	w.net.After(time.Duration(w.rng.Int64N(int64(w.p.recvDelay)+1)), func() {
		r.waking = false
		r.refill()
	})
}

func (r *receiveQueue) refill() {
	k := 1 + r.h.w.rng.IntN(max(len(r.free), 1))
	var wrs []rxe.RecvWR
	for ; k > 0 && len(r.free) > 0; k-- {
		last := len(r.free) - 1
		b := r.free[last]
		r.free = r.free[:last]
		r.nextID++
		b.id = recvID | r.nextID
		r.posted = append(r.posted, b)
		wrs = append(wrs, rxe.RecvWR{ID: b.id, SGL: r.h.sgl(b.pieces)})
		r.h.w.rec.receive(r.h, r.size, len(b.pieces))
	}
	var n int
	var err error
	if r.srq != nil {
		n, err = r.srq.PostRecv(wrs)
	} else {
		n, err = r.q.PostRecv(wrs)
	}
	must(err)
	if n != len(wrs) {
		failf("PostRecv took %d of %d", n, len(wrs))
	}
	r.h.w.poll()
	if len(r.free) > 0 && !r.failed() {
		r.wake()
	}
}

// failed reports whether the queue's QP is in ERR. It flushes at once what is posted to it, so
// another refill would follow at the same time, without end.
func (r *receiveQueue) failed() bool { return r.srq == nil && r.q.State() == rxe.QPErr }

// take finds the buffer that completed. A QP's own queue completes in order.
func (r *receiveQueue) take(id uint64) *recvBuf {
	for i, b := range r.posted {
		if b.id != id {
			if r.srq == nil {
				break
			}
			continue
		}
		r.posted = append(r.posted[:i:i], r.posted[i+1:]...)
		r.free = append(r.free, b)
		return b
	}
	failf("host %d: receive %#x completed out of order or twice", r.h.index, id)
	return nil
}

// checkFlushed is for a QP in ERR: receives that were not used must have been
// flushed.
func (r *receiveQueue) checkFlushed(e *endpoint) {
	if r.srq != nil {
		return // the buffers stay with the SRQ
	}
	if len(r.posted) > 0 {
		failf("host %d QP %#x: %d receives not flushed", e.h.index, e.q.Num(), len(r.posted))
	}
}

// concede accepts partial messages in the buffers that stay posted to an SRQ.
func (r *receiveQueue) concede() {
	if r.h.lax {
		for _, b := range append(r.posted, r.free...) {
			b.concede(r.h)
		}
	}
}

// concede accepts what the buffer holds.
func (b *recvBuf) concede(h *host) {
	for _, p := range b.pieces {
		h.concede(p.off, p.n)
	}
}

// recvDone checks one receive completion.
func (e *endpoint) recvDone(wc *rxe.WC) {
	r := e.taken(wc)
	b := r.take(wc.ID)
	if wc.Status != rxe.WCSuccess {
		if wc.Status != rxe.WCFlushErr {
			failf("host %d QP %#x: receive completed with status %v", e.h.index, wc.QPN, wc.Status)
		}
		e.flushed = append(e.flushed, b)
		return
	}
	if !e.failed {
		r.wake()
	}
	skip := grhSpace(e.typ)
	m := e.match(wc, e.gather(b, skip, int(wc.ByteLen)-skip))
	m.received = true
	e.w.stats.received++
	e.w.stats.bytes += len(m.data)
	e.deliver(b, skip, m)
	if m.inv != 0 {
		e.window.state = windowFree
	}
}

// gather is what lies in the first n bytes behind skip of the buffer.
func (e *endpoint) gather(b *recvBuf, skip, n int) []byte {
	var all []byte
	for _, p := range b.pieces {
		all = append(all, e.h.mem.Data[p.off:p.off+p.n]...)
	}
	if skip > len(all) || n < 0 {
		failf("host %d QP %#x: byte_len %d", e.h.index, e.q.Num(), n+skip)
	}
	return all[skip:min(skip+n, len(all))]
}

// deliver writes the message into the model of the buffer it was received in.
func (e *endpoint) deliver(b *recvBuf, skip int, m *message) {
	if e.typ != rxe.QPRC || e.h.lax {
		b.concede(e.h) // its contents were compared; earlier parts may lie behind
		return
	}
	data := m.data
	for _, p := range b.pieces {
		n := copy(e.h.model[p.off:p.off+p.n], data)
		data = data[n:]
	}
}

// match finds the message that a completion is for: on RC the next one, on UC a
// later one than the last, on UD any. Any message may match where the network
// duplicates.
func (e *endpoint) match(wc *rxe.WC, got []byte) *message {
	for i, m := range e.expect {
		if e.sameMessage(m, wc, got) {
			e.dropExpected(i)
			return m
		}
		if e.typ == rxe.QPRC {
			failf("host %d QP %#x: received %d bytes (%+v) that are not the next message, %d bytes %+v",
				e.h.index, wc.QPN, len(got), *wc, m.size, *m)
		}
	}
	failf("host %d QP %#x %v: received %d bytes that nobody sent, or twice or out of order: %+v",
		e.h.index, wc.QPN, e.typ, len(got), *wc)
	return nil
}

// dropExpected forgets the message, and those that it overtook if they cannot
// arrive any more.
func (e *endpoint) dropExpected(i int) {
	switch {
	case e.typ == rxe.QPUD && e.w.p.net.Duplicate > 0:
		// may come again
	case e.typ == rxe.QPUD && e.w.p.net.Reorder > 0:
		e.expect = append(e.expect[:i:i], e.expect[i+1:]...)
	default:
		e.expect = e.expect[i+1:]
	}
}

func (e *endpoint) sameMessage(m *message, wc *rxe.WC, got []byte) bool {
	opcode, flags := rxe.WCRecv, rxe.WCFlags(0)
	want := m.size + grhSpace(e.typ)
	if m.hasImm {
		flags |= rxe.WCWithImm
		if m.data == nil {
			opcode = rxe.WCRecvImm
		}
	}
	if m.inv != 0 {
		flags |= rxe.WCWithInv
	}
	switch {
	case wc.Opcode != opcode || wc.Flags&(rxe.WCWithImm|rxe.WCWithInv) != flags:
		return false
	case m.srq != wc.SRQN:
		return false
	case int(wc.ByteLen) != want || m.hasImm && wc.Imm != m.imm || m.inv != 0 && wc.InvRKey != m.inv:
		return false
	case e.typ == rxe.QPUD && (wc.SrcQP != e.peer.q.Num() || wc.Flags&rxe.WCGRH == 0):
		return false
	}
	return m.data == nil || bytes.Equal(got, m.data)
}
