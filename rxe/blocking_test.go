package rxe

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/gorxe/gorxe/internal/test/must"
)

// blockable is memory that answers when it is told to. An access checks that the thread holds none
// of the locks that others wait for: it would hang otherwise.
type blockable struct {
	locks   []sync.Locker
	entered chan struct{}
	answer  chan struct{}
}

func newBlockable(locks ...sync.Locker) *blockable {
	return &blockable{locks: locks, entered: make(chan struct{}, 100), answer: make(chan struct{})}
}

func (b *blockable) access() {
	for _, l := range b.locks {
		l.Lock()
		l.Unlock() //nolint:staticcheck // it was free
	}
	b.entered <- struct{}{}
	<-b.answer
}

// blockingRing is a completion queue in such memory.
type blockingRing struct {
	*blockable
	t    *testing.T
	room int

	mu  sync.Mutex
	got []WC
}

func (r *blockingRing) Push(*WC) bool {
	r.t.Error("Push was called, which must not block")
	return false
}

func (r *blockingRing) PushAll(wcs []WC) int {
	r.access()
	r.mu.Lock()
	defer r.mu.Unlock()
	n := min(len(wcs), r.room-len(r.got))
	r.got = append(r.got, wcs[:n]...)
	return n
}

func (r *blockingRing) Waiting() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.got)
}

// blockingCQ is a completion queue of a device, and queue pairs that complete their sends there.
type blockingCQ struct {
	*pairEnd
	t        *testing.T
	ring     *blockingRing
	slow     *CQ
	notified atomic.Int64
	early    atomic.Int64 // notifications without a completion
	broken   atomic.Int64
	done     sync.WaitGroup
}

func newBlockingCQ(t *testing.T, entries, room int) *blockingCQ {
	t.Helper()
	b := &blockingCQ{t: t, pairEnd: newPairEnd(t, &armRecorder{now: 1}, "10.0.0.1", 4096)}
	b.dev.cfg.OnEvent = func(ev Event) {
		if ev.Type == EventCQErr && ev.CQ == b.slow {
			b.broken.Add(1)
		}
	}
	b.ring = &blockingRing{t: t, room: room}
	var err error
	b.slow, err = b.dev.CreateCQ(CQInit{Entries: entries, Ring: b.ring, OnCompletion: func(*CQ) {
		b.notified.Add(1)
		if b.ring.Waiting() == 0 {
			b.early.Add(1)
		}
	}})
	must.OK(t, err)
	b.ring.blockable = newBlockable(&b.slow.mu, &b.dev.mu)
	return b
}

// pair is a QP whose sends complete in cq, connected with another one.
func (b *blockingCQ) pair(cq *CQ) *QP {
	b.t.Helper()
	var ends [2]*QP
	for i, sends := range []*CQ{cq, b.cq} {
		var err error
		ends[i], err = b.pd.CreateQP(QPInitAttr{Type: QPRC, SendCQ: sends, RecvCQ: b.cq, SignalAll: true,
			Cap: QPCap{MaxSendWR: 8, MaxRecvWR: 8}})
		must.OK(b.t, err)
	}
	connect(b.t, ends[0], ends[1], b.gid, 1024)
	connect(b.t, ends[1], ends[0], b.gid, 1024)
	return ends[0]
}

func (b *blockingCQ) write(q *QP, ids ...uint64) {
	for _, id := range ids {
		if _, err := q.PostSend([]SendWR{{ID: id, Op: WRWrite}}); err != nil {
			b.t.Errorf("WRITE %d: %v", id, err)
		}
	}
}

// blocks posts in a goroutine, whose access blocks.
func (b *blockingCQ) blocks(q *QP, id uint64) {
	b.done.Go(func() { b.write(q, id) })
	<-b.ring.entered
}

// answer lets the memory answer from now on.
func (b *blockingCQ) answer() {
	close(b.ring.answer)
	b.done.Wait()
}

func (b *blockingCQ) wantIDs(ids ...uint64) {
	b.t.Helper()
	var got []uint64
	for i := range b.ring.got {
		got = append(got, b.ring.got[i].ID)
		if b.ring.got[i].Status != WCSuccess {
			b.t.Errorf("completion %d: %v", b.ring.got[i].ID, b.ring.got[i].Status)
		}
	}
	if len(got) != len(ids) {
		b.t.Fatalf("completions %v, want %v", got, ids)
	}
	for i := range ids {
		if got[i] != ids[i] {
			b.t.Fatalf("completions %v, want %v", got, ids)
		}
	}
}

// TestBlockingCQ: while the memory of a completion queue does not answer, other QPs of the queue go
// on, and so does the rest of the device. The completions come when it answers, in their order, and
// the notification after them.
func TestBlockingCQ(t *testing.T) {
	b := newBlockingCQ(t, 16, 16)
	one, two, other := b.pair(b.slow), b.pair(b.slow), b.pair(b.cq)
	must.OK(t, b.slow.ReqNotify(false))
	b.blocks(one, 1)
	b.write(two, 2, 3)
	b.write(other, 4)
	b.take(t, 1)
	b.dev.Expire()
	must.OK(t, b.slow.ReqNotify(false))
	if b.slow.Cap() != 16 || b.notified.Load() != 0 || b.ring.Waiting() != 0 {
		t.Errorf("before the memory answers: %d notifications, %d completions", b.notified.Load(), b.ring.Waiting())
	}
	b.answer()
	b.wantIDs(1, 2, 3)
	if b.notified.Load() != 1 || b.early.Load() != 0 {
		t.Errorf("%d notifications, %d of them before a completion", b.notified.Load(), b.early.Load())
	}
	b.write(one, 5) // in memory that answers
	b.write(two, 6)
	b.wantIDs(1, 2, 3, 5, 6)
	// Completions that came unnoticed count for the next request.
	must.OK(t, b.slow.ReqNotify(false))
	if b.notified.Load() != 2 {
		t.Errorf("%d notifications after a request for those that are there", b.notified.Load())
	}
}

// TestBlockingCQFull: a queue without room is in error, once, with the QP that completes there.
// What came before is there.
func TestBlockingCQFull(t *testing.T) {
	t.Run("the program's memory", func(t *testing.T) {
		b := newBlockingCQ(t, 16, 2)
		q := b.pair(b.slow)
		close(b.ring.answer)
		b.write(q, 1, 2, 3)
		b.wantIDs(1, 2)
		b.wantError(q)
	})
	t.Run("the stage", func(t *testing.T) {
		b := newBlockingCQ(t, 2, 16)
		one, two, three := b.pair(b.slow), b.pair(b.slow), b.pair(b.slow)
		b.blocks(one, 1)
		b.write(two, 2, 3)
		b.write(three, 4)
		b.wantError(three)
		b.answer()
		b.wantIDs(1, 2, 3)
	})
}

// wantError: the completion queue and q are in error.
func (b *blockingCQ) wantError(q *QP) {
	b.t.Helper()
	a, _, err := q.Query()
	must.OK(b.t, err)
	if a.State != QPErr || b.broken.Load() != 1 {
		b.t.Errorf("the QP is in %v, with %d events of the queue", a.State, b.broken.Load())
	}
}

// fetchedRing is an SRQ in memory that may block.
type fetchedRing struct {
	*blockable

	mu     sync.Mutex
	posted []uint64 // in the program's memory
	ahead  []uint64
}

func (r *fetchedRing) Fetch() {
	r.mu.Lock()
	n := len(r.posted)
	r.mu.Unlock()
	if n == 0 {
		return
	}
	r.access()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ahead, r.posted = append(r.ahead, r.posted...), nil
}

func (r *fetchedRing) Pop(w *RecvWQE) (ok, bad bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.ahead) == 0 {
		return false, false
	}
	w.ID, w.SGL = r.ahead[0], w.SGL[:0]
	r.ahead = r.ahead[1:]
	return true, false
}

// TestFetchingRing: while the memory of an SRQ does not answer, another QP takes what was read
// before, and then finds none. Nobody waits. The requests in the memory are used when it answers.
func TestFetchingRing(t *testing.T) {
	p := newPairEnd(t, &armRecorder{now: 1}, "10.0.0.1", 4096)
	ring := &fetchedRing{posted: []uint64{11, 12}, ahead: []uint64{10}}
	srq, err := p.pd.CreateSRQ(SRQInit{MaxWR: 16, Ring: ring})
	must.OK(t, err)
	ring.blockable = newBlockable(&srq.mu, &p.dev.mu)
	var senders [2]*QP
	for i := range senders {
		init := QPInitAttr{Type: QPRC, SendCQ: p.cq, RecvCQ: p.cq, Cap: QPCap{MaxSendWR: 8}}
		senders[i], err = p.pd.CreateQP(init)
		must.OK(t, err)
		init.SRQ = srq
		to, err := p.pd.CreateQP(init)
		must.OK(t, err)
		connect(t, senders[i], to, p.gid, 1024)
		connect(t, to, senders[i], p.gid, 1024)
	}
	send := func(q *QP) {
		if _, err := q.PostSend([]SendWR{{Op: WRSend}}); err != nil {
			t.Error(err)
		}
	}
	received := func(ids ...uint64) {
		t.Helper()
		for i, wc := range p.take(t, len(ids)) {
			if wc.ID != ids[i] || wc.Opcode != WCRecv {
				t.Errorf("completion %+v, want receive %d", wc, ids[i])
			}
		}
	}
	var done sync.WaitGroup
	done.Go(func() { send(senders[0]) })
	<-ring.entered
	send(senders[1])
	received(10)
	send(senders[1])
	received()
	if n := p.counter(t, nil, "send_rnr_err"); n != 1 {
		t.Errorf("%d RNR NAKs of a message that found no request, want 1", n)
	}
	if _, err := srq.Query(); err != nil {
		t.Error(err)
	}
	close(ring.answer)
	done.Wait()
	received(11)
}

// TestBlockingRingsResizeThemselves: the device cannot move what a thread may be writing.
func TestBlockingRingsResizeThemselves(t *testing.T) {
	b := newBlockingCQ(t, 16, 16)
	srq, err := b.pd.CreateSRQ(SRQInit{MaxWR: 16, Ring: new(fetchedRing)})
	must.OK(t, err)
	never := func() { t.Error("the ring was moved") }
	wantErr(t, b.slow.ReplaceRing(8, func() (CQRing, error) { never(); return nil, nil }), ErrNotSupported, "")
	wantErr(t, srq.ReplaceRing(8, func() (RecvRing, error) { never(); return nil, nil }), ErrNotSupported, "")
}
