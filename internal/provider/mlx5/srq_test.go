package mlx5

import (
	"encoding/binary"
	"testing"

	"github.com/gorxe/gorxe/internal/provider"
	"github.com/gorxe/gorxe/internal/test/must"
	"github.com/gorxe/gorxe/internal/test/rxedev"
	"github.com/gorxe/gorxe/rxe"
)

// shared is a shared receive queue as libmlx5 has it: a list of free requests.
type shared struct {
	*program
	mem      provider.SRQ
	srq      *rxe.SRQ
	buf, rec uint64
	head     uint16
	tail     uint16
	posted   uint16
}

const (
	srqEntries = 16
	srqShift   = 6
)

func (p *program) newSRQ() *shared {
	p.t.Helper()
	return p.newSRQWith(rxe.SRQInit{}, provider.SRQRequest{}, 0)
}

// newSRQWith is newSRQ with what the caller has filled in.
func (p *program) newSRQWith(init rxe.SRQInit, req provider.SRQRequest, user uint32) *shared {
	p.t.Helper()
	s := &shared{program: p, buf: p.alloc(srqEntries << srqShift), rec: p.alloc(recordSize), tail: srqEntries - 1}
	for i := range srqEntries - 1 {
		binary.BigEndian.PutUint16(p.bytes(s.buf+uint64(i)<<srqShift+nextIndex, 2), uint16(i+1))
	}
	u := ask(p, CreateSRQReq{BufAddr: s.buf, DBAddr: s.rec, UIdx: user})
	req.MaxWR, req.MaxSGE = srqEntries-1, 3
	s.mem = must.Get[provider.SRQ](p.t)(p.ctx.NewSRQ(u, req))
	a := s.mem.Attr()
	init.MaxWR, init.MaxSGE, init.Ring = a.MaxWR, a.MaxSGE, s.mem.Ring()
	s.srq = must.Get[*rxe.SRQ](p.t)(p.dom.CreateSRQ(init))
	must.OK(p.t, s.mem.Created(u, s.srq))
	return s
}

// post posts a request, and returns its index (mlx5_post_srq_recv).
func (s *shared) post(segs ...[]byte) (index uint16) {
	index = s.head
	b := s.bytes(s.buf+uint64(index)<<srqShift, 1<<srqShift)
	s.head = binary.BigEndian.Uint16(b[nextIndex:])
	n := nextSize
	for _, seg := range segs {
		n += copy(b[n:], seg)
	}
	if n < len(b) {
		copy(b[n:], seg(uint32(0), uint32(lastKey), uint64(0)))
	}
	s.posted++
	s.put32(s.rec, uint32(s.posted))
	return index
}

// free gives a request back to the end of the list.
func (s *shared) free(index uint16) {
	binary.BigEndian.PutUint16(s.bytes(s.buf+uint64(s.tail)<<srqShift+nextIndex, 2), index)
	s.tail = index
}

// TestShared: two queue pairs take requests of one queue, which are used again in another order.
func TestShared(t *testing.T) {
	p := newProgram(t, rxedev.New(t))
	s := p.newSRQ()
	var sender, taker [2]*pair
	for i := range sender {
		cq := p.newCQ(64, 64, false)
		sender[i] = p.newQPOn(rxe.QPRC, 1, cq, cq, nil)
		taker[i] = p.newQPOn(rxe.QPRC, uint32(0x10+i), cq, p.newCQ(64, 64, false), s.srq)
		sender[i].connect(taker[i])
		taker[i].connect(sender[i])
	}
	var free []uint16
	for round := range 40 {
		var want []uint16
		for range round%5 + 1 {
			want = append(want, s.post(p.piece(4096, 64)))
		}
		for i, index := range want {
			from := i % 2
			sender[from].post(opSend, signaled, 0, inlined([]byte("shared")))
			c := taker[from].recv.one()
			if c.op != cqeRespSend || c.counter != index || c.user != uint32(0x10+from) || c.bytes != 6 {
				t.Fatalf("round %d: %+v, want request %d", round, c, index)
			}
			sender[from].send.one()
			free = append(free, index)
		}
		for len(free) > 2 { // the last one first
			s.free(free[len(free)-1])
			free = free[:len(free)-1]
		}
	}
	if n := s.mem.Waiting(); n != 0 {
		t.Errorf("%d requests wait", n)
	}
}

// TestSharedLimit: the limit event comes when fewer are left, and not before: the record may be
// newer than what was read ahead.
func TestSharedLimit(t *testing.T) {
	p := newProgram(t, rxedev.New(t))
	s := p.newSRQ()
	must.OK(t, s.mem.Modify(nil, rxe.SRQAttr{Limit: 3}, rxe.SRQAttrLimit))
	limit := func() uint32 { return must.Get[rxe.SRQAttr](t)(s.srq.Query()).Limit }
	cq := p.newCQ(64, 64, false)
	a := p.newQPOn(rxe.QPRC, 1, cq, cq, nil)
	b := p.newQPOn(rxe.QPRC, 2, cq, p.newCQ(64, 64, false), s.srq)
	a.connect(b)
	b.connect(a)
	for range 4 {
		s.post(p.piece(4096, 64))
	}
	for i := range 20 {
		a.post(opSend, 0, 0, inlined([]byte("x")))
		if limit() != 3 {
			t.Fatalf("the event came after message %d", i)
		}
		s.free(b.recv.one().counter)
		s.post(p.piece(4096, 64))
	}
	for range 2 {
		a.post(opSend, 0, 0, inlined([]byte("x")))
	}
	if limit() != 0 {
		t.Error("the event did not come")
	}
}

// TestHostileShared: a list that leads out of the queue stays in it, and a record that is nonsense
// fails the queue pair.
func TestHostileShared(t *testing.T) {
	p := newProgram(t, rxedev.New(t))
	for _, nonsense := range []bool{false, true} {
		s := p.newSRQ()
		cq := p.newCQ(64, 64, false)
		a := p.newQPOn(rxe.QPRC, 1, cq, cq, nil)
		b := p.newQPOn(rxe.QPRC, 2, cq, p.newCQ(64, 64, false), s.srq)
		a.connect(b)
		b.connect(a)
		for range 3 {
			s.post(p.piece(4096, 64))
		}
		for i := range srqEntries {
			binary.BigEndian.PutUint16(p.bytes(s.buf+uint64(i)<<srqShift+nextIndex, 2), 0xfff3)
		}
		if nonsense {
			p.put32(s.rec, 0x8000)
		}
		for range 3 {
			a.post(opSend, 0, 0)
		}
		want := rxe.QPRTS
		if nonsense {
			want = rxe.QPErr
		}
		if got := state(t, b); got != want {
			t.Errorf("nonsense %t: the queue pair is in %v", nonsense, got)
		}
	}
}
