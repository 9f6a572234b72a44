package librxe

import (
	"sync"
	"testing"

	"github.com/gorxe/gorxe/internal/provider"
	"github.com/gorxe/gorxe/internal/test/librxeclient"
	"github.com/gorxe/gorxe/internal/test/must"
	"github.com/gorxe/gorxe/internal/test/rxedev"
	"github.com/gorxe/gorxe/rxe"
)

// rings returns the two ways to serve a queue: for a trapped doorbell, and for a direct
// one.
func (s *station) rings() [2]func() error {
	return [2]func() error{
		func() error { return s.sq.doorbell() },
		func() error {
			for more := true; more; {
				t, _ := s.sq.take(provider.Share, true)
				more = t.More
			}
			return nil
		},
	}
}

// TestTakeBlocked: a queue whose work waits for memory blocks the thread that does the
// work, and no other one.
func TestTakeBlocked(t *testing.T) {
	a, b := pair(t, rxe.QPRC)
	blocked := &blockedMemory{a.mem, make(chan struct{}), make(chan struct{})}
	mr := must.Get[*rxe.MR](t)(a.dom.RegMR(blocked, stationBase, 4096, stationBase, 0))
	for id := range uint64(2) {
		b.recv.PostRecv(id, b.sge(0, 8))
	}
	a.send.PostSend(&librxeclient.SendWR{SendWR: rxe.SendWR{ID: 1, Op: rxe.WRSend, Flags: rxedev.Signaled,
		SGL: []rxe.SGE{{Addr: stationBase, Length: 8, LKey: mr.LKey()}}}})
	var first sync.WaitGroup
	var taken provider.Taken
	first.Go(func() { taken, _ = a.sq.take(provider.Share, true) })
	<-blocked.entered
	a.send.PostSend(&librxeclient.SendWR{SendWR: rxe.SendWR{ID: 2, Op: rxe.WRSend, Flags: rxedev.Signaled}})
	if second, _ := a.sq.take(provider.Share, true); second.More {
		t.Error("the second one asks for another call")
	}
	close(blocked.release)
	first.Wait()
	if !taken.More {
		t.Fatal("the first one did not hear of the second")
	}
	a.want(1, rxe.WCSuccess)
	_, _ = a.sq.take(provider.Share, true)
	a.want(2, rxe.WCSuccess)
}
