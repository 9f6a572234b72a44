package cm

import (
	"maps"
	"testing"
)

// hasTimer reports whether a connection waits for time in a state.
func hasTimer(s State) bool {
	switch s {
	case StateREQSent, StateMRAREQRcvd, StateREPSent, StateMRAREPRcvd, StateDREQSent, StateTimewait, StateSIDRREQSent:
		return true
	default:
		return false
	}
}

// hasPeer reports whether a connection is in the table of peers in a state.
func hasPeer(s State) bool {
	switch s {
	case StateREQRcvd, StateMRAREQSent, StateREPSent, StateMRAREPRcvd, StateREPRcvd, StateMRAREPSent, StateEstablished,
		StateDREQSent, StateDREQRcvd:
		return true
	default:
		return false
	}
}

// consistent checks that all that a Machine remembers follows from the states of its
// connections.
func consistent(t *testing.T, m *Machine) {
	t.Helper()
	var peers, lookups, timers int
	want := newCounts()
	for id, c := range m.conns {
		if c.commID != id || id == 0 || c.state == StateDestroyed {
			t.Fatalf("connection %#x under %#x in state %v", c.commID, id, c.state)
		}
		if hasTimer(c.state) != (c.timer.place != 0) {
			t.Fatalf("in state %v, a timer runs: %v", c.state, c.timer.place != 0)
		}
		if c.timer.place != 0 {
			if timers++; m.timers[c.timer.place-1] != c {
				t.Fatal("a connection is elsewhere in the heap of timers")
			}
		}
		if hasPeer(c.state) != c.inPeers {
			t.Fatalf("in state %v, the peer is known: %v", c.state, c.inPeers)
		}
		if c.inPeers {
			if peers++; m.peers.withCommID(c.peer.guid, c.peer.commID) != c || m.peers.withQPN(c.peer.guid, c.peer.qpn, c.peerUser) != c {
				t.Fatal("a connection is not the one of its peer")
			}
		}
		if c.state == StateSIDRREQRcvd {
			if lookups++; m.lookups[sidrRequest{c.source, c.peer.commID}] != c {
				t.Fatal("a connection is not the one of its SIDR_REQ")
			}
		}
		if c.state.halfOpen() {
			want.changeUser(c.user, 0, 1)
			change(want.listeners, c.listener, 1)
			change(want.requesters, requesterOf{c.listener, c.peerUser}, 1)
		}
		want.changeUser(c.user, 1, 0)
	}
	if len(m.timers) != timers || len(m.peers.byCommID) != peers || len(m.peers.byQPN) != peers || len(m.lookups) != lookups {
		t.Fatalf("usage %+v; by the states, %d timers, %d peers, %d lookups", m.Usage(), timers, peers, lookups)
	}
	if !maps.Equal(m.counts.users, want.users) || !maps.Equal(m.counts.listeners, want.listeners) || !maps.Equal(m.counts.requesters, want.requesters) {
		t.Fatalf("counts %+v; by the states, %+v", m.counts, want)
	}
	l := &m.cfg.Limits
	above := len(m.conns) > l.Conns
	for _, u := range want.users {
		above = above || u.conns > l.PerUser || u.halfOpen > l.HalfOpen
	}
	for _, n := range want.listeners {
		above = above || n > l.PerListener
	}
	for _, n := range want.requesters {
		above = above || n > l.PerRequester
	}
	if above {
		t.Fatalf("%d connections, %+v, above %+v", len(m.conns), want, l)
	}
}
