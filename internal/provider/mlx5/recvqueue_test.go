package mlx5

import (
	"fmt"
	"testing"

	"github.com/gorxe/gorxe/internal/test/rxedev"
	"github.com/gorxe/gorxe/rxe"
)

// TestReceivesShown: an observer sees the receives that wait, beyond those that were read ahead, at
// the end of the queue and after a reset.
func TestReceivesShown(t *testing.T) {
	a, b := two(t, rxe.QPRC)
	ring := b.qp.RecvQueue()
	check := func(from, next uint64, want ...int) {
		t.Helper()
		var got, text []string
		n := ring.Waits(from, func(i uint64, w *rxe.RecvWQE) { got = append(got, fmt.Sprintf("%d:%d", i, w.SGL[0].Length)) })
		for i, length := range want {
			text = append(text, fmt.Sprintf("%d:%d", next-uint64(len(want)-i), length))
		}
		if fmt.Sprint(got) != fmt.Sprint(text) || n != next {
			t.Errorf("shown %v up to %d, want %v up to %d", got, n, text, next)
		}
	}
	send := func() { a.post(opSend, signaled, 0, a.piece(0, 8)) }
	check(0, 0)
	for i := range rqEntries - 2 {
		b.receive(b.piece(0, i+8))
	}
	check(0, 6, 8, 9, 10, 11, 12, 13)
	send()
	check(0, 6, 9, 10, 11, 12, 13) // all were read ahead
	for range 5 {
		send()
	}
	check(0, 6)
	for i := range 4 {
		b.receive(b.piece(0, 20+i))
	}
	check(0, 8, 20, 21) // up to the end of the queue
	check(8, 10, 22, 23)
	b.to(rxe.QPReset)
	check(0, 6)
	if n := ring.Popped(); n != 6 {
		t.Errorf("%d requests have left the queue, not 6", n)
	}
}

// TestSharedShown: an observer sees the receives of a shared queue, whether they were read ahead or
// not.
func TestSharedShown(t *testing.T) {
	p := newProgram(t, rxedev.New(t))
	s := p.newSRQ()
	cq := p.newCQ(64, 64, false)
	a := p.newQPOn(rxe.QPRC, 1, cq, cq, nil)
	b := p.newQPOn(rxe.QPRC, 2, cq, p.newCQ(64, 64, false), s.srq)
	a.connect(b)
	b.connect(a)
	ring := s.mem.Ring().(rxe.WaitingRing)
	check := func(from, next uint64, want string) {
		t.Helper()
		got := ""
		n := ring.Waits(from, func(i uint64, w *rxe.RecvWQE) { got += fmt.Sprintf("%d:%d ", i, w.SGL[0].Length) })
		if got != want || n != next || ring.Popped() > next {
			t.Errorf("shown %q up to %d, want %q up to %d; %d have left", got, n, want, next, ring.Popped())
		}
	}
	for i := range 3 {
		s.post(p.piece(4096, 64+i))
	}
	check(0, 3, "0:64 1:65 2:66 ")
	check(1, 3, "1:65 2:66 ")
	a.post(opSend, signaled, 0, inlined([]byte("shared")))
	check(0, 3, "1:65 2:66 ")
	check(2, 3, "2:66 ")
	a.post(opSend, signaled, 0, inlined([]byte("shared")))
	check(0, 3, "2:66 ")
}
