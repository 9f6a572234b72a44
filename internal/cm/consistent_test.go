package cm

import (
	"testing"

	"github.com/gorxe/gorxe/wire"
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
	var peers, lookups, timers, halfOpen int
	byPeer := make(map[wire.GID]int)
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
			if peers++; m.peers.withCommID(c.peer.guid, c.peer.commID) != c || m.peers.withQPN(c.peer.guid, c.peer.qpn) != c {
				t.Fatal("a connection is not the one of its peer")
			}
		}
		if c.state == StateSIDRREQRcvd {
			if lookups++; m.lookups[sidrRequest{c.source, c.peer.commID}] != c {
				t.Fatal("a connection is not the one of its SIDR_REQ")
			}
		}
		if c.state.halfOpen() {
			halfOpen++
			byPeer[c.source]++
		}
	}
	if len(m.timers) != timers || len(m.peers.byCommID) != peers || len(m.peers.byQPN) != peers || len(m.lookups) != lookups ||
		m.halfOpen.total != halfOpen || len(m.halfOpen.byPeer) != len(byPeer) {
		t.Fatalf("usage %+v; by the states, %d timers, %d peers, %d lookups, %d half-open", m.Usage(), timers, peers, lookups, halfOpen)
	}
	for gid, n := range byPeer {
		if m.halfOpen.byPeer[gid] != n {
			t.Fatalf("%d half-open connections of %v; by the states, %d", m.halfOpen.byPeer[gid], gid, n)
		}
	}
	l := &m.cfg.Limits
	if len(m.conns) > l.Conns || halfOpen > l.HalfOpen {
		t.Fatalf("%d connections and %d half-open ones, above %+v", len(m.conns), halfOpen, l)
	}
}
