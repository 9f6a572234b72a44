package librxe

import (
	"testing"

	"github.com/gorxe/gorxe/internal/provider"
	"github.com/gorxe/gorxe/internal/test/librxeclient"
	"github.com/gorxe/gorxe/internal/test/rxedev"
	"github.com/gorxe/gorxe/rxe"
)

// put posts a SEND without ringing for it.
func (s *station) put(id uint64, size uint32) {
	s.t.Helper()
	if !s.send.PostSend(&librxeclient.SendWR{SendWR: rxe.SendWR{ID: id, Op: rxe.WRSend, Flags: rxedev.Signaled,
		SGL: []rxe.SGE{s.sge(0, size)}}}) {
		s.t.Fatal("send queue is full")
	}
}

// taken wants take to hand n work requests to the engine.
func (s *station) taken(n int, credited, noCredit bool) provider.Taken {
	s.t.Helper()
	got, err := s.sq.take(provider.Share, credited)
	if err != nil || got.Requests != n || got.NoCredit != noCredit || got.More {
		s.t.Fatalf("%+v, %v, want %d work requests, no credit: %v", got, err, n, noCredit)
	}
	return got
}

// TestCreditedTake: a message without a receive work request at its peer stays in the queue, and
// those before it do not. It leaves when there is one.
func TestCreditedTake(t *testing.T) {
	const size = provider.ShareEach + 1
	a, b := pair(t, rxe.QPRC)
	for id := range uint64(3) {
		a.put(id, size)
	}
	b.recv.PostRecv(10, b.sge(0, size))
	if got := a.taken(1, true, true); got.Worth != size {
		t.Errorf("one message of %d bytes is worth %d", size, got.Worth)
	}
	a.want(0, rxe.WCSuccess)
	if got := a.taken(0, true, true); got.Worth != 0 {
		t.Errorf("no message is worth %d", got.Worth)
	}
	if !a.sq.waits() || a.sq.state != sendNoCredit {
		t.Fatal("nothing waits")
	}
	b.recv.PostRecv(11, b.sge(0, size))
	a.taken(1, true, true)
	a.want(1, rxe.WCSuccess)
	a.wantNone()
	if a.sq.state != sendOpen {
		t.Error("the last message has no time of its own")
	}
}

// TestCreditWaitEnds: after a while the engine gets the message, whose responder answers it with an
// RNR NAK.
func TestCreditWaitEnds(t *testing.T) {
	a, b := pair(t, rxe.QPRC)
	a.put(1, 8)
	a.taken(0, true, true)
	a.taken(0, true, true)
	if naks := counter(a.dev, "send_rnr_err"); naks != 0 {
		t.Errorf("%d RNR NAKs before the time was over", naks)
	}
	a.sq.since = a.qp.Now() - rxe.Time(creditWait)
	a.taken(1, true, false)
	if naks := counter(a.dev, "send_rnr_err"); naks != 1 {
		t.Errorf("%d RNR NAKs, want 1", naks)
	}
	if a.sq.state != sendOpen {
		t.Error("the next message has no time of its own")
	}
	a.put(2, 8)
	a.taken(1, true, false) // it waits in the engine, behind the first one
	b.recv.PostRecv(10, b.sge(0, 8))
	a.wantNone() // until the RNR time is over
}

// counter returns one of the device's counters.
func counter(dev *rxe.Device, name string) uint64 {
	for _, c := range dev.Counters() {
		if c.Name == name {
			return c.Value
		}
	}
	panic("no counter " + name)
}
