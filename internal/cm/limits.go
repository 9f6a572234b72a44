package cm

import "github.com/gorxe/gorxe/wire"

// Limits bounds what a Machine remembers. A REQ or SIDR_REQ beyond a bound is dropped
// and counted: its sender repeats it.
//
// A connection is half-open from its REQ until it is established or has failed. Until
// then, its REQ may be forged. So half-open connections are counted for the user whose
// listener they are for, and for the requester within a listener. Neither a stranger nor a
// user who does not accept takes what other users need.
type Limits struct {
	Conns        int // connections of any kind; default 65536
	PerUser      int // of them, those of one user; default 16384
	HalfOpen     int // half-open connections to the listeners of one user; default 8192
	PerListener  int // of them, those to one listener; default 4096
	PerRequester int // of them, those from one requester; default 2048
}

func (l *Limits) setDefaults() {
	for _, v := range []struct {
		field *int
		value int
	}{{&l.Conns, 65536}, {&l.PerUser, 16384}, {&l.HalfOpen, 8192}, {&l.PerListener, 4096}, {&l.PerRequester, 2048}} {
		if *v.field == 0 {
			*v.field = v.value
		}
	}
}

// counts has what users, listeners and requesters take. Entries of 0 do not exist.
type counts struct {
	users      map[any]userCounts
	listeners  map[any]int         // half-open connections
	requesters map[requesterOf]int // half-open connections
}

type userCounts struct{ conns, halfOpen int }

type requesterOf struct{ listener, requester any }

func newCounts() counts {
	return counts{users: make(map[any]userCounts), listeners: make(map[any]int), requesters: make(map[requesterOf]int)}
}

// changeUser adds to the counts of a user.
func (t *counts) changeUser(user any, conns, halfOpen int) {
	u := t.users[user]
	u.conns += conns
	u.halfOpen += halfOpen
	t.users[user] = u
	if u == (userCounts{}) {
		delete(t.users, user)
	}
}

func change[K comparable](m map[K]int, key K, n int) {
	if m[key] += n; m[key] == 0 {
		delete(m, key)
	}
}

// halfOpen returns how many connections are half-open.
func (t *counts) halfOpen() (n int) {
	for _, u := range t.users {
		n += u.halfOpen
	}
	return n
}

// full reports whether there are as many connections as there may be, and counts the request
// that is dropped therefore.
func (m *Machine) full() bool {
	is := len(m.conns) >= m.cfg.Limits.Conns
	if is {
		m.counters.OverConns++
	}
	return is
}

// mayConnect reports whether a user may have one more connection that it asks for.
func (m *Machine) mayConnect(user any) bool {
	return len(m.conns) < m.cfg.Limits.Conns && m.counts.users[user].conns < m.cfg.Limits.PerUser
}

// Admit counts a connection that a peer asks for, and returns the verdict with which a listener's
// handler takes it. The handler calls it once. If ok is false, a bound is reached, and the handler
// returns the verdict at once. Otherwise the connection is user's, and goes to listener, which is
// what the handler takes for one: several may share a service. Both are compared, with users of
// Connect as well.
func (c *Conn) Admit(user, listener any) (v Verdict, ok bool) {
	m := c.m
	limits, counters := &m.cfg.Limits, &m.counters
	of := requesterOf{listener, c.peerUser}
	switch {
	case m.counts.users[user].conns >= limits.PerUser:
		counters.OverConns++
	case m.counts.users[user].halfOpen >= limits.HalfOpen:
		counters.OverHalfOpen++
	case m.counts.listeners[listener] >= limits.PerListener:
		counters.OverListener++
	case m.counts.requesters[of] >= limits.PerRequester:
		counters.OverPeer++
	default:
		c.user, c.counted, c.listener, c.halfOpen = user, true, listener, true
		m.counts.changeUser(user, 1, 1)
		change(m.counts.listeners, listener, 1)
		change(m.counts.requesters, of, 1)
		return take, true
	}
	return drop, false
}

// noMoreHalfOpen takes the connection out of the counts of half-open ones, if it is in.
func (c *Conn) noMoreHalfOpen() {
	if !c.halfOpen {
		return
	}
	c.halfOpen = false
	t := &c.m.counts
	t.changeUser(c.user, 0, -1)
	change(t.listeners, c.listener, -1)
	change(t.requesters, requesterOf{c.listener, c.peerUser}, -1)
}

// userAt returns the user of the end of a connection at an address with this comm ID, if
// Config.PeerUser knows one, else the address.
func (m *Machine) userAt(at wire.GID, commID uint32) any {
	if m.cfg.PeerUser != nil {
		if user := m.cfg.PeerUser(at, commID); user != nil {
			return user
		}
	}
	return at
}

// UserOf returns the user of the connection with this comm ID, nil if there is none.
func (m *Machine) UserOf(commID uint32) any {
	if c := m.conns[commID]; c != nil && c.counted {
		return c.user
	}
	return nil
}
