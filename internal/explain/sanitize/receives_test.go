package sanitize

import (
	"cmp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gorxe/gorxe/internal/test/race"
	"github.com/gorxe/gorxe/rxe"
	"github.com/gorxe/gorxe/wire"
)

// queue is a receive queue with one piece of memory for each request.
type queue struct {
	list   []span
	popped uint64
	key    uint32 // 0: that of the rig
	meant  func() // if not nil, it runs when the queue is looked at
}

func (q *queue) Pop(*rxe.RecvWQE) (ok, bad bool) { q.popped++; return true, false }
func (q *queue) Popped() uint64                  { return q.popped }

func (q *queue) Waits(from uint64, see func(uint64, *rxe.RecvWQE)) uint64 {
	for i := max(from, q.popped); i < uint64(len(q.list)); i++ {
		see(i, &rxe.RecvWQE{SGL: []rxe.SGE{{Addr: q.list[i].start, Length: uint32(q.list[i].length), LKey: wire.LKey(cmp.Or(q.key, key))}}})
	}
	if q.meant != nil {
		q.meant()
	}
	return uint64(len(q.list))
}

func (q *queue) post(start, length uint64) { q.list = append(q.list, span{start, length}) }

// TestReceives: which receives share memory with what else is under way.
func TestReceives(t *testing.T) {
	for _, c := range []struct {
		name string
		do   func(r *rig, a, b *queue)
		want int
	}{
		{"apart", func(r *rig, a, b *queue) { a.post(0, 64); a.post(64, 64); b.post(128, 64); r.look(at(9)) }, 0},
		{"one byte", func(r *rig, a, _ *queue) { a.post(0, 64); a.post(63, 64); r.look(at(9)) }, 1},
		{"of two queues", func(r *rig, a, b *queue) { a.post(0, 64); b.post(0, 64); r.look(at(9)) }, 1},
		{"seen twice", func(r *rig, a, b *queue) { a.post(0, 64); b.post(0, 64); r.look(at(9)); r.look(at(9)) }, 1},
		{"one after the other", func(r *rig, a, b *queue) {
			a.post(0, 64)
			r.look(at(9))
			a.Pop(nil)
			b.post(0, 64)
			r.look(at(10))
		}, 0},
		{"one after the other, while the queues are looked at", func(r *rig, a, b *queue) {
			a.post(0, 64)
			a.meant = func() {
				if a.popped == 0 {
					a.Pop(nil)
					b.post(0, 64)
				}
			}
			r.look(at(9))
		}, 0},
		{"at a message", func(r *rig, a, _ *queue) { a.post(0, 64); a.post(0, 64); r.Receiving(r.qp) }, 1},
		{"a send", func(r *rig, _, b *queue) { b.post(0, 64); r.post(rxe.WRSend, 0, 8, 0) }, 1},
		{"a READ", func(r *rig, _, b *queue) { b.post(0, 64); r.post(rxe.WRRead, 0, 8, 0) }, 1},
		{"a READ that is under way", func(r *rig, a, _ *queue) { r.post(rxe.WRRead, 0, 8, 0); a.post(0, 64); r.look(at(9)) }, 1},
		{"a READ that has completed", func(r *rig, a, _ *queue) {
			r.post(rxe.WRRead, 0, 8, 0)
			r.complete(true)
			a.post(0, 64)
			r.look(at(9))
		}, 0},
		{"an inline send", func(r *rig, _, b *queue) { b.post(0, 64); r.post(rxe.WRSend, 0, 8, rxe.SendInline) }, 0},
		{"of a queue pair in RESET", func(r *rig, a, b *queue) {
			a.post(0, 64)
			r.look(at(9))
			r.Modified(r.qp, &rxe.QPAttr{State: rxe.QPReset}, rxe.QPAttrState, at(9))
			a.popped = 1
			b.post(0, 64)
			r.look(at(10))
		}, 0},
		{"of a region that ended", func(r *rig, a, b *queue) {
			a.post(0, 64)
			r.look(at(9))
			r.Ended("mr", at(9))
			r.Made("mr", Made{Kind: kindMR, Number: key, Region: &Region{Length: uint64(len(r.memory)), Memory: r.memory}}, at(1))
			b.post(0, 64)
			r.look(at(10))
		}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, overlappingReceives)
			a, b := new(queue), new(queue)
			r.Made("a", Made{Kind: kindQP, QP: &QP{QP: r.qp, Depth: depth}, Receives: func() rxe.WaitingRing { return a }}, at(3))
			r.Made("b", Made{Kind: "shared receive queue", Receives: func() rxe.WaitingRing { return b }}, at(3))
			c.do(r, a, b)
			if found := r.found(); len(found) != c.want || !slices.Equal(slices.Compact(found), slices.Repeat([]string{overlappingReceives}, min(c.want, 1))) {
				t.Errorf("found %q, want %d: %v", found, c.want, r.s.Report().Findings)
			}
			r.Close(false)
			if r.s.receives != 0 {
				t.Errorf("%d receives are left", r.s.receives)
			}
		})
	}
}

// TestTouched: whether the memory of a posted receive has changed.
func TestTouched(t *testing.T) {
	for _, c := range []struct {
		name string
		do   func(r *rig)
		want int
	}{
		{"as it was", func(*rig) {}, 0},
		{"changed", func(r *rig) { r.memory[63] = 1 }, 1},
		{"beside it", func(r *rig) { r.memory[64] = 1 }, 0},
		{"by the device", func(r *rig) {
			r.Accessed(r.qp, key, 60, 8, rxe.AccessRemoteWrite)
			r.memory[63] = 1
		}, 0},
		{"by the device, elsewhere", func(r *rig) {
			r.Accessed(r.qp, key, 64, 8, rxe.AccessRemoteWrite)
			r.memory[63] = 1
		}, 1},
		{"of a region that ended", func(r *rig) { r.Ended("mr", at(9)); r.memory[63] = 1 }, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, recvBufferTouched)
			a := new(queue)
			r.Made("a", Made{Kind: kindQP, QP: &QP{QP: r.qp, Depth: depth}, Receives: func() rxe.WaitingRing { return a }}, at(3))
			a.post(0, 64)
			a.post(64, 64)
			r.look(at(9))
			c.do(r)
			r.Receiving(r.qp)
			if found := r.found(); len(found) != c.want {
				t.Errorf("found %q, want %d", found, c.want)
			}
		})
	}
}

// TestReceiveCalls: a finding has the calls between which a receive was posted.
func TestReceiveCalls(t *testing.T) {
	r := newRig(t, overlappingReceives)
	a := new(queue)
	r.Made("a", Made{Kind: kindQP, QP: &QP{QP: r.qp, Depth: depth}, Receives: func() rxe.WaitingRing { return a }}, at(3))
	a.post(0, 64)
	r.look(at(5))
	r.look(at(6))
	a.post(0, 64)
	r.look(at(7))
	f := r.s.Report().Findings
	if len(f) != 1 {
		t.Fatal(f)
	}
	var calls []uint64
	for _, p := range f[0].Places {
		calls = append(calls, p.Stack.PC)
	}
	if want := []uint64{6, 7, 3, 5}; !slices.Equal(calls, want) {
		t.Errorf("calls %d, want %d", calls, want)
	}
}

// TestLate: a report of an empty receive queue says by how many receives the peer was late.
func TestLate(t *testing.T) {
	r := newRig(t, rnr)
	peer, a := new(rxe.QP), &queue{popped: 3}
	r.Made("peer", Made{Kind: kindQP, Number: 9, QP: &QP{QP: peer}, Receives: func() rxe.WaitingRing { return a }}, at(3))
	r.post(rxe.WRSend, 0, 8, 0)
	r.post(rxe.WRWrite, 0, 8, 0)
	r.post(rxe.WRSend, 0, 8, 0)
	r.Failed(r.qp, &rxe.Failure{Cause: rxe.CauseRNR, Status: rxe.WCRNRRetryErr, Op: rxe.WRSend, PeerQPN: 9, Retries: 2})
	f := r.s.Report().Findings
	const want = "queue pair 0x9 was late in 2 retries, by 2 receives (messages took 3 before)"
	if len(f) != 1 || !strings.HasSuffix(f[0].What, want) {
		t.Errorf("%+v, want %q", f, want)
	}
}

// TestLateShared: the report of an empty shared receive queue is about that, and says where it was
// made.
func TestLateShared(t *testing.T) {
	r := newRig(t, rnr)
	a := &queue{popped: 3}
	r.Made("srq", Made{Kind: "shared receive queue", Receives: func() rxe.WaitingRing { return a }}, at(4))
	r.Made("peer", Made{Kind: kindQP, Number: 9, QP: &QP{QP: new(rxe.QP), SRQ: "srq"}}, at(3))
	r.post(rxe.WRSend, 0, 8, 0)
	r.Failed(r.qp, &rxe.Failure{Cause: rxe.CauseRNR, Status: rxe.WCRNRRetryErr, Op: rxe.WRSend, PeerQPN: 9, Retries: 2})
	f := r.s.Report().Findings
	const want = "the shared receive queue of queue pair 0x9 was late in 2 retries, by 1 receive (messages took 3 before)"
	if len(f) != 1 || !strings.HasSuffix(f[0].What, want) || f[0].Places[len(f[0].Places)-1].Stack.PC != 4 {
		t.Errorf("%+v, want %q", f, want)
	}
}

// TestReceivesBounded: a queue with more receives than a session watches.
func TestReceivesBounded(t *testing.T) {
	r := newRig(t, overlappingReceives)
	a := new(queue)
	r.Made("a", Made{Kind: kindQP, QP: &QP{QP: r.qp, Depth: depth}, Receives: func() rxe.WaitingRing { return a }}, at(3))
	for i := range uint64(3 * maxReceives) {
		a.post(8*i, 8)
	}
	r.look(at(9))
	if n := r.s.receives; n != maxReceives {
		t.Errorf("%d receives are watched", n)
	}
	a.popped = uint64(len(a.list))
	a.post(0, 8)
	r.look(at(10))
	if n := r.s.receives; n != 1 {
		t.Errorf("%d receives are watched after all but one were taken", n)
	}
}

// wide is a receive queue of many requests, each with as many pieces of memory, all apart.
type wide struct {
	queue
	requests, pieces uint64
}

func (q *wide) Waits(from uint64, see func(uint64, *rxe.RecvWQE)) uint64 {
	for i := from; i < q.requests; i++ {
		var w rxe.RecvWQE
		for k := range q.pieces {
			w.SGL = append(w.SGL, rxe.SGE{Addr: q.pieces*i + k, Length: 1, LKey: key})
		}
		see(i, &w)
	}
	return q.requests
}

// TestWideReceives: not all pieces of long lists are compared.
func TestWideReceives(t *testing.T) {
	if race.Enabled {
		return // one goroutine, and long
	}
	took := func(pieces uint64) time.Duration {
		r, q := newRig(t, overlappingReceives), &wide{pieces: pieces}
		r.Made("srq", Made{Kind: "shared receive queue", Receives: func() rxe.WaitingRing { return q }}, at(4))
		r.Made("qp2", Made{Kind: kindQP, QP: &QP{QP: r.qp, SendCQ: "cq", SRQ: "srq", Depth: depth}}, at(3))
		q.requests = maxReceives
		began := time.Now()
		r.look(at(9))
		return time.Since(began)
	}
	// the shortest of three: a busy machine takes the processor away for longer than this takes
	best := func(pieces uint64) time.Duration { return min(took(pieces), took(pieces), took(pieces)) }
	short, long := best(maxPieces), best(8*maxPieces)
	if long > 8*short { // 64 times without a bound
		t.Errorf("lists of %d pieces take %v, those of %d take %v", maxPieces, short, 8*maxPieces, long)
	}
}

// counted is memory that counts what is read.
type counted struct {
	ram
	bytes int
}

func (c *counted) ReadV(spans []rxe.Span) error {
	for _, s := range spans {
		c.bytes += len(s.Buf)
	}
	return c.ram.ReadV(spans)
}

// TestReceivesAtOnce: a program posts very many receives, and gets one message. The thread of the
// engine that brings it, which serves other users, too, looks at the oldest ones, and reads no more
// than of one message. The others follow with later messages, or in the program's next call.
func TestReceivesAtOnce(t *testing.T) {
	r := newRig(t, recvBufferTouched)
	memory := &counted{ram: r.memory}
	r.Made("mr2", Made{Kind: kindMR, Number: 2 * key, Region: &Region{Length: uint64(len(r.memory)), Memory: memory}}, at(1))
	a := &queue{key: 2 * key}
	r.Made("a", Made{Kind: kindQP, QP: &QP{QP: r.qp, Depth: depth}, Receives: func() rxe.WaitingRing { return a }}, at(3))
	for range maxReceives {
		a.post(0, hashedBytes)
	}
	for message := 1; message <= 3; message++ {
		memory.bytes = 0
		r.Receiving(r.qp)
		if n := r.s.receives; n != message*receivesAtOnce {
			t.Errorf("%d receives were seen with message %d", n, message)
		}
		if memory.bytes > 2*hashedBytes { // the new ones, and the one that is taken
			t.Errorf("message %d has %d bytes read", message, memory.bytes)
		}
	}
	r.look(at(9))
	if n := r.s.receives; n != maxReceives {
		t.Errorf("%d of %d receives are seen", n, maxReceives)
	}
	r.memory[0] = 1
	if r.Receiving(r.qp); len(r.found()) != 1 {
		t.Errorf("found %q", r.found())
	}
}
