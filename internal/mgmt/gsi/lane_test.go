package gsi

import (
	"maps"
	"net/netip"
	"testing"

	"github.com/gorxe/gorxe/rxe"
	"github.com/gorxe/gorxe/wire"
)

// expecter is an agent whose exchanges have the attributes from 0x100 on.
type expecter struct{ reader }

func (*expecter) Expects(mad *wire.MAD) bool { return mad.Attribute() >= 0x100 }

// A full lane of requests leaves the room for exchanges under way, and the other way round.
func TestExpectedLane(t *testing.T) {
	_, asks, _, asked := pair(t, Config{Queue: 4})
	got := make(chan received, 16)
	asked.mux.Register(vendor, &expecter{reader{to: got}})
	send := func(first uint16, n int) {
		for i := range n {
			asks.must(asks.mux.Send(to(there), wire.GSIQPN, request(vendor, wire.MADSend, first+uint16(i))))
		}
	}
	send(1, 10) // from one sender, which gets half of the room
	send(0x100, 5)
	want := map[string]uint64{"mad_rcvd": 15, "drop_mad_over_share": 8, "drop_mad_expected": 1}
	if c := asked.counters(); !maps.Equal(c, want) {
		t.Errorf("counted %v, want %v", c, want)
	}
	asked.mux.Start(asked.dev)
	next := map[bool]uint16{false: 1, true: 0x100}
	for range 6 {
		a := asks.next(got).mad.Attribute()
		if lane := a >= 0x100; a != next[lane] {
			t.Errorf("received %#x, want %#x", a, next[lane])
		} else {
			next[lane]++
		}
	}
	if next[false] != 3 || next[true] != 0x104 {
		t.Errorf("received up to %v", next)
	}
}

// An agent that is slow with requests does not hold up exchanges under way.
func TestLanesRunBesideEachOther(t *testing.T) {
	_, asks, _, asked := pair(t, Config{})
	agent := &slowRequests{expecter{reader{to: make(chan received, 1)}}, make(chan struct{}), make(chan struct{})}
	asked.mux.Register(vendor, agent)
	asked.mux.Start(asked.dev)
	asks.must(asks.mux.Send(to(there), wire.GSIQPN, request(vendor, wire.MADSend, 1)))
	<-agent.runs
	asks.must(asks.mux.Send(to(there), wire.GSIQPN, request(vendor, wire.MADSend, 0x100)))
	if a := asks.next(agent.to).mad.Attribute(); a != 0x100 {
		t.Errorf("received %#x", a)
	}
	close(agent.end)
}

type slowRequests struct {
	expecter
	runs, end chan struct{}
}

func (s *slowRequests) ReceiveMAD(from rxe.AHAttr, src wire.QPN, mad *wire.MAD) {
	if !s.Expects(mad) {
		s.runs <- struct{}{}
		<-s.end
		return
	}
	s.expecter.ReceiveMAD(from, src, mad)
}

// The senders of a lane share it; what a sender has taken it gets back.
func TestShares(t *testing.T) {
	s := newShares(4)
	a, b := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")
	for i, want := range []bool{true, true, false} {
		if got := s.take(a); got != want {
			t.Errorf("datagram %d: %v", i+1, got)
		}
	}
	if !s.take(b) {
		t.Error("another sender gets nothing")
	}
	s.give(a)
	if !s.take(a) {
		t.Error("a sender does not get back what it had")
	}
	s.give(a)
	s.give(a)
	s.give(b)
	if len(s.waiting) != 0 {
		t.Errorf("remembered %v", s.waiting)
	}
	if one := newShares(1); !one.take(a) {
		t.Error("a lane for one datagram takes none")
	}
}
