package cm

import "github.com/gorxe/gorxe/wire"

// Limits bounds what a Machine remembers. A REQ or SIDR_REQ beyond a bound is dropped
// and counted: its sender repeats it.
//
// A connection is half-open from its REQ until it is established or has failed. Until
// then, its REQ may be forged. The bounds keep forged requests from taking all memory, or
// all of Conns, which local programs and established connections need.
type Limits struct {
	Conns       int // connections of any kind; default 65536
	HalfOpen    int // half-open connections; default 16384
	PerListener int // half-open connections of one listener; default 4096
	PerPeer     int // half-open connections from one GID; default 2048
}

func (l *Limits) setDefaults() {
	for _, v := range []struct {
		field *int
		value int
	}{{&l.Conns, 65536}, {&l.HalfOpen, 16384}, {&l.PerListener, 4096}, {&l.PerPeer, 2048}} {
		if *v.field == 0 {
			*v.field = v.value
		}
	}
}

// halfOpenCounts counts half-open connections. Those of a listener are in the listener.
type halfOpenCounts struct {
	total  int
	byPeer map[wire.GID]int
}

func newHalfOpenCounts() halfOpenCounts { return halfOpenCounts{byPeer: make(map[wire.GID]int)} }

// admit reports whether the limits allow one more half-open connection.
func (m *Machine) admit(l *Listener, peer wire.GID) bool {
	limits, counters := &m.cfg.Limits, &m.counters
	switch {
	case len(m.conns) >= limits.Conns:
		counters.OverConns++
	case m.halfOpen.total >= limits.HalfOpen:
		counters.OverHalfOpen++
	case l.halfOpen >= limits.PerListener:
		counters.OverListener++
	case m.halfOpen.byPeer[peer] >= limits.PerPeer:
		counters.OverPeer++
	default:
		return true
	}
	return false
}

// countHalfOpen adds a connection to the counts, or takes it out with n = -1.
func (m *Machine) countHalfOpen(c *Conn, n int) {
	m.halfOpen.total += n
	c.listener.halfOpen += n
	if m.halfOpen.byPeer[c.source] += n; m.halfOpen.byPeer[c.source] == 0 {
		delete(m.halfOpen.byPeer, c.source)
	}
}
