package librxe

import (
	"testing"

	"github.com/gorxe/gorxe/internal/provider"
	"github.com/gorxe/gorxe/internal/test/librxeclient"
	"github.com/gorxe/gorxe/internal/test/rxedev"
	"github.com/gorxe/gorxe/rxe"
	"github.com/gorxe/gorxe/wire"
)

// asQueuePair is the station's queue pair as uverbs sees it.
func (s *station) asQueuePair() *queuePair {
	cq := new(completionQueue)
	cq.ring.Store(s.cqr)
	return &queuePair{send: s.sq, recv: s.rq, sendCQ: cq, recvCQ: cq}
}

// writeTo posts a WRITE to a peer, and rings for nothing.
func (s *station) writeTo(peer *station, flags rxe.SendFlags) {
	s.t.Helper()
	if !s.send.PostSend(&librxeclient.SendWR{SendWR: rxe.SendWR{Op: rxe.WRWrite, Flags: flags, SGL: []rxe.SGE{s.sge(0, 8)},
		RemoteAddr: stationBase, RKey: wire.RKey(peer.mr.RKey())}}) {
		s.t.Fatal("send queue is full")
	}
}

// TestAwaited: requests count as awaited if the program polls each one's completion, or gets a
// message, before it posts the next. They do not if it posts several, polls none, or leaves
// completions.
func TestAwaited(t *testing.T) {
	take := func(t *testing.T, q *queuePair, requests int, awaited bool) {
		t.Helper()
		got, err := q.Take(provider.Share, true)
		if err != nil || got.Requests != requests || got.Awaited != awaited {
			t.Errorf("%+v, %v; want %d requests, awaited %t", got, err, requests, awaited)
		}
	}
	t.Run("completions", func(t *testing.T) {
		a, b := pair(t, rxe.QPRC)
		q := a.asQueuePair()
		for i := range 5 {
			a.writeTo(b, rxedev.Signaled)
			take(t, q, 1, i > 0)
			a.want(0, rxe.WCSuccess)
		}
	})
	t.Run("messages", func(t *testing.T) {
		a, b := pair(t, rxe.QPRC)
		q, peer := a.asQueuePair(), b.asQueuePair()
		for i := range 5 {
			a.writeTo(b, 0)
			take(t, q, 1, i > 0)
			b.writeTo(a, 0)
			take(t, peer, 1, true)
		}
	})
	t.Run("a stream", func(t *testing.T) {
		a, b := pair(t, rxe.QPRC)
		q := a.asQueuePair()
		for range 5 {
			a.writeTo(b, 0)
			take(t, q, 1, false)
		}
		a.writeTo(b, 0)
		a.writeTo(b, rxedev.Signaled)
		take(t, q, 2, false)
		a.want(0, rxe.WCSuccess)
		a.writeTo(b, 0)
		take(t, q, 1, true) // it may have waited for the completion
	})
	t.Run("others follow", func(t *testing.T) {
		a, b := pair(t, rxe.QPRC)
		q := a.asQueuePair()
		for i := range 5 {
			a.writeTo(b, rxedev.Signaled)
			if i == 0 {
				a.writeTo(b, rxedev.Signaled)
			}
			// The share is used up with the first one.
			if got, err := q.Take(0, true); err != nil || got.Requests != 1 || !got.More || got.Awaited {
				t.Errorf("%+v, %v; want one request, more, not awaited", got, err)
			}
			a.want(0, rxe.WCSuccess)
		}
		take(t, q, 1, true)
	})
	t.Run("completions wait", func(t *testing.T) {
		a, b := pair(t, rxe.QPRC)
		q := a.asQueuePair()
		for range 3 {
			a.writeTo(b, rxedev.Signaled)
			take(t, q, 1, false)
		}
		for range 2 {
			a.want(0, rxe.WCSuccess)
			a.writeTo(b, rxedev.Signaled)
			take(t, q, 1, false)
		}
	})
}
