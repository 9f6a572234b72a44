package cm

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/gorxe/gorxe/rxe"
	"github.com/gorxe/gorxe/wire"
)

// forged returns a REQ of its own peer, which is from its own address.
func (r *peerRig) forged(i int) (*node, *wire.MAD) {
	from := newNode(r.t, uint64(0x1000+i), fmt.Sprintf("198.51.%d.%d", 100+i/250, 1+i%250))
	m := r.req()
	req := wire.CMREQ{MAD: m}
	req.SetCAGUID(uint64(0x1000 + i))
	req.SetLocalCommID(uint32(i + 1))
	path := req.PrimaryPath()
	path.LocalGID = from.gid
	req.SetPrimaryPath(&path)
	return from, m
}

// TestLimits: each bound drops REQs and SIDR_REQs, silently, and counts them. A place
// is free again when a connection is established, has failed or is destroyed.
func TestLimits(t *testing.T) {
	for _, c := range []struct {
		name    string
		limits  Limits
		onePeer bool
		counter func(c *Counters) uint64
	}{
		{"connections", Limits{Conns: 3}, false, func(c *Counters) uint64 { return c.OverConns }},
		{"user", Limits{PerUser: 3}, false, func(c *Counters) uint64 { return c.OverConns }},
		{"half-open", Limits{HalfOpen: 3}, false, func(c *Counters) uint64 { return c.OverHalfOpen }},
		{"listener", Limits{PerListener: 3}, false, func(c *Counters) uint64 { return c.OverListener }},
		{"peer", Limits{PerRequester: 3}, true, func(c *Counters) uint64 { return c.OverPeer }},
	} {
		for _, lookup := range []bool{false, true} {
			r := newPeerRig(t)
			c.limits.setDefaults()
			r.m.cfg.Limits = c.limits
			send := func(i int) {
				from, m := r.forged(i)
				if c.onePeer {
					from = r.other
					path := wire.CMREQ{MAD: m}.PrimaryPath()
					path.LocalGID = from.gid
					wire.CMREQ{MAD: m}.SetPrimaryPath(&path)
				}
				if lookup {
					m = r.sidrREQ()
					wire.CMSIDRREQ{MAD: m}.SetRequestID(uint32(i + 1))
				}
				r.receive(from, m)
				consistent(t, r.m)
			}
			for i := range 5 {
				send(i)
			}
			r.quiet()
			if len(r.taken) != 3 || c.counter(r.m.Counters()) != 2 {
				t.Fatalf("%s: %d requests taken, counters %+v", c.name, len(r.taken), r.m.Counters())
			}
			r.taken[1].Destroy(r.now)
			r.taken[2].Destroy(r.now)
			for i := range 4 {
				send(10 + i)
			}
			if len(r.taken) != 5 || c.counter(r.m.Counters()) != 4 {
				t.Fatalf("%s: %d requests taken, counters %+v", c.name, len(r.taken), r.m.Counters())
			}
			if r.m.Usage().HalfOpen != 3 {
				t.Errorf("%s: usage %+v", c.name, r.m.Usage())
			}
			r.m.Close(r.now)
			r.gone()
		}
	}
}

// TestConnectLimit: the own user's connections are bounded too.
func TestConnectLimit(t *testing.T) {
	client, server := pair(t)
	client.m.cfg.Limits.Conns = 2
	client.connect(server)
	client.connect(server)
	if _, err := client.m.Connect(0, client.connectParams(server), nil); err != ErrLimit {
		t.Errorf("third connection: %v", err)
	}
	if _, err := client.m.Lookup(0, &LookupParams{}, nil); err != ErrLimit {
		t.Errorf("lookup: %v", err)
	}
}

// TestFlood: REQs from forged sources take the memory that the bounds allow and no
// more. Meanwhile an established connection ends as ever, a new one is made to another
// peer, and the flood's traces are gone when the retries are over.
func TestFlood(t *testing.T) {
	client, server, active, passive := connected(t)
	r := &peerRig{node: server, other: client}
	server.m.cfg.Limits = Limits{Conns: 120, PerUser: 110, HalfOpen: 100, PerListener: 80, PerRequester: 10}
	server.verdict = func(c *Conn, _ *Request) Verdict {
		c.SetHandler(func(now rxe.Time, ev *Event) {
			if ev.Kind == EventUnreachable {
				c.Destroy(now)
			}
		})
		server.noError(c.Accept(server.now, acceptParams()))
		return take
	}
	flood := func(n int) {
		for i := range n {
			from, m := r.forged(i)
			server.receive(from, m)
		}
	}
	flood(5000)
	if u := server.m.Usage(); u.Conns != 81 || u.HalfOpen != 80 || u.Peers != 81 {
		t.Fatalf("usage %+v", u)
	}
	if n := server.m.Counters().OverListener; n != 5000-80 {
		t.Errorf("%d REQs dropped", n)
	}
	server.state(passive, StateEstablished)
	server.sent = nil

	// The server connects to another peer.
	other := newNode(t, 0x07, "192.0.2.3")
	other.listen()
	c := server.connect(other)
	other.receive(server, server.take(wire.AttrREQ))
	other.noError(other.taken[0].Accept(other.now, acceptParams()))
	server.receive(other, other.take(wire.AttrREP))
	server.event(EventReply)
	server.noError(c.Ready(server.now))
	server.take(wire.AttrRTU)

	// The forged connections say that they answer within hours: that is not believed.
	server.advance(5 * time.Minute)
	if u := server.m.Usage(); u.Conns != 2 || u.HalfOpen != 0 || u.Timers != 0 {
		t.Fatalf("usage %+v after the retries", u)
	}
	server.sent = nil
	client.noError(active.Disconnect(client.now))
	server.receive(client, client.take(wire.AttrDREQ))
	server.event(EventDisconnect)
	server.noError(passive.Disconnect(server.now))
	client.receive(server, server.take(wire.AttrDREP))
	client.event(EventDisconnected)
}

// TestPeerTimes: the times that a peer asks for are bounded.
func TestPeerTimes(t *testing.T) {
	r := newPeerRig(t)
	m := r.req()
	req := wire.CMREQ{MAD: m}
	req.SetLocalCMTimeout(31)
	path := req.PrimaryPath()
	path.LocalACKTimeout = 31
	req.SetPrimaryPath(&path)
	r.from(m)
	r.c = r.taken[0]
	r.noError(r.c.Accept(r.now, acceptParams()))
	wait := func(want time.Duration) {
		t.Helper()
		if at, ok := r.m.Deadline(); !ok || at != r.now+rxe.Time(want) {
			t.Errorf("in state %v the timer is due after %v, want %v", r.c.State(), time.Duration(at-r.now), want)
		}
	}
	wait(16384 * time.Millisecond)
	mra := r.mra(wire.CMSubjectREP)
	msg, err := wire.ParseCM(mra[:])
	r.noError(err)
	msg.(wire.CMMRA).SetServiceTimeout(31)
	r.from(mra)
	wait(65536*time.Millisecond + time.Duration(duration(22)))
	r.from(r.rtu())
	if a, _, _ := r.c.QPAttr(rxe.QPRTS); a.Timeout != 31 {
		t.Errorf("ACK timeout %d", a.Timeout)
	}
	r.noError(r.c.Disconnect(r.now))
	r.from(r.drep())
	wait(16384 * time.Millisecond)
}

// TestStaleFromStranger: a stranger that knows GUID and queue pair of an established
// connection is refused, and the connection stays.
func TestStaleFromStranger(t *testing.T) {
	r := newPeerRig(t)
	r.reach(StateEstablished, func() {})
	m := r.req()
	wire.CMREQ{MAD: m}.SetLocalCommID(peerID + 1)
	stranger := &node{gid: wire.GIDFromAddr(netip.MustParseAddr("198.51.100.1"))}
	r.receive(stranger, m)
	if got := r.outcome(StateEstablished); got != "REJ(REQ, 10, id false)" {
		t.Errorf("%q", got)
	}
	if r.sent[0].to.DGID != stranger.gid {
		t.Errorf("the REJ goes to %v", r.sent[0].to.DGID)
	}
}

// TestUsersApart: a user whose listeners have all the half-open connections that they may have
// leaves another user its places, although all requests come from one address.
func TestUsersApart(t *testing.T) {
	r := newPeerRig(t)
	r.m.cfg.Limits = Limits{PerUser: 3, HalfOpen: 3, PerListener: 2, PerRequester: 2}
	r.m.cfg.Limits.setDefaults()
	user, listener := any("attacker"), any(1)
	r.admission = func(c *Conn) (Verdict, bool) { return c.Admit(user, listener) }
	send := func(i int) {
		_, m := r.forged(i)
		req := wire.CMREQ{MAD: m}
		path := req.PrimaryPath()
		path.LocalGID = r.other.gid
		req.SetPrimaryPath(&path)
		r.from(m)
		consistent(t, r.m)
	}
	for i := range 5 {
		send(i)
	}
	listener = 2
	send(5)
	send(6)
	if len(r.taken) != 3 {
		t.Fatalf("the first user has %d connections", len(r.taken))
	}
	if _, err := r.m.Connect(r.now, &ConnectParams{User: user, PathMTU: 1024}, nil); err != ErrLimit {
		t.Errorf("its own connection: %v", err)
	}
	user, listener = "other", 3
	send(7)
	if len(r.taken) != 4 {
		t.Error("the other user has no connection")
	}
	if _, err := r.m.Connect(r.now, &ConnectParams{User: user, PathMTU: 1024}, nil); err != nil {
		t.Errorf("the other user's own connection: %v", err)
	}
}

// TestStaleOfOtherUser: a user of this process's devices ends no connection of another user by
// naming its queue pair, in a REQ or in a REP. The user itself ends it.
func TestStaleOfOtherUser(t *testing.T) {
	for _, c := range []struct {
		name    string
		who     any // asks, or answers
		asks    any // whose connection a REP answers
		rep     bool
		survive bool
	}{
		{"REQ of another user", "attacker", nil, false, true},
		{"REQ of the user", "peer", nil, false, false},
		{"REP of another user", "attacker", "user", true, true},
		{"REP to another user", "peer", "attacker", true, true},
		{"REP of the user to the user", "peer", "user", true, false},
	} {
		r := newPeerRig(t)
		who := any("peer")
		r.m.cfg.PeerUser = func(wire.GID, uint32) any { return who }
		r.admission = func(c *Conn) (Verdict, bool) { return c.Admit("user", 1) }
		r.reach(StateEstablished, func() {})
		old := r.c
		who = c.who
		if c.rep {
			p := r.connectParams(r.other)
			p.User = c.asks
			var err error
			r.c, err = r.m.Connect(r.now, p, r.handler)
			r.noError(err)
			m := r.rep()
			msg, err := wire.ParseCM(m[:])
			r.noError(err)
			msg.(wire.CMREP).SetCommIDs(peerID+1, r.c.commID)
			msg.(wire.CMREP).SetQPN(clientQPN)
			r.from(m)
		} else {
			m := r.req()
			wire.CMREQ{MAD: m}.SetLocalCommID(peerID + 1)
			r.from(m)
		}
		if (old.State() == StateEstablished) != c.survive {
			t.Errorf("%s: state %v", c.name, old.State())
		}
		consistent(t, r.m)
	}
}

// TestForgedAddress: a message of a connection that comes from another address than the peer's
// changes nothing.
func TestForgedAddress(t *testing.T) {
	stranger := &node{gid: wire.GIDFromAddr(netip.MustParseAddr("198.51.100.1"))}
	for _, c := range []struct {
		in  State
		msg func(r *peerRig) *wire.MAD
	}{
		{StateREQSent, (*peerRig).rep},
		{StateREQSent, func(r *peerRig) *wire.MAD { return r.mra(wire.CMSubjectREQ) }},
		{StateREQSent, func(r *peerRig) *wire.MAD { return r.rej(wire.CMSubjectREQ, wire.RejectConsumer) }},
		{StateMRAREQSent, (*peerRig).takeBack},
		{StateREPSent, (*peerRig).rtu},
		{StateREPSent, func(r *peerRig) *wire.MAD { return r.mra(wire.CMSubjectREP) }},
		{StateEstablished, (*peerRig).dreq},
		{StateEstablished, func(r *peerRig) *wire.MAD { return r.rej(wire.CMSubjectOther, wire.RejectConsumer) }},
		{StateDREQSent, (*peerRig).drep},
		{StateSIDRREQSent, (*peerRig).sidrREP},
	} {
		r := newPeerRig(t)
		r.reach(c.in, func() {})
		m := c.msg(r)
		r.receive(stranger, m)
		r.state(r.c, c.in)
		r.noEvent()
		if r.m.Counters().Forged == 0 {
			t.Errorf("message %#x in state %v is not counted", m.Attribute(), c.in)
		}
		consistent(t, r.m)
		m = c.msg(r)
		r.from(m)
		if r.c.State() == c.in {
			t.Errorf("message %#x of the peer in state %v changes nothing", m.Attribute(), c.in)
		}
	}
}

// TestReflection: a REQ that names another address than that which it came from is answered with
// one REJ to its sender. Nothing goes to the address that it names.
func TestReflection(t *testing.T) {
	r := newPeerRig(t)
	third := wire.GIDFromAddr(netip.MustParseAddr("198.51.100.1"))
	r.verdict = func(c *Conn, _ *Request) Verdict {
		c.SetHandler(r.handler)
		r.noError(c.Accept(r.now, acceptParams()))
		return take
	}
	m := r.req()
	path := wire.CMREQ{MAD: m}.PrimaryPath()
	path.LocalGID = third
	wire.CMREQ{MAD: m}.SetPrimaryPath(&path)
	r.from(m)
	r.advance(time.Hour)
	if len(r.sent) != 1 || r.sent[0].to.DGID != r.other.gid || r.sent[0].mad.Attribute() != uint16(wire.AttrREJ) {
		t.Errorf("sent %v to %v", r.messages(), r.sent[0].to.DGID)
	}
	r.gone()
}

// TestTakenWithoutAdmit: a handler that returns another connection's verdict gets no connection.
// Without a call of Admit there is no verdict of its own.
func TestTakenWithoutAdmit(t *testing.T) {
	r := newPeerRig(t)
	var other Verdict
	r.admission = func(c *Conn) (v Verdict, ok bool) {
		other, ok = c.Admit("user", 1)
		return other, ok
	}
	r.reach(StateEstablished, func() {})
	r = newPeerRig(t)
	r.admission = func(*Conn) (Verdict, bool) { return nil, true }
	r.verdict = func(*Conn, *Request) Verdict { return other }
	r.from(r.req())
	consistent(t, r.m)
	if len(r.m.conns) != 0 || len(r.sent) != 0 {
		t.Errorf("%d connections, %d messages", len(r.m.conns), len(r.sent))
	}
	r.from(r.sidrREQ())
	consistent(t, r.m)
	if len(r.m.conns) != 0 || len(r.m.lookups) != 0 {
		t.Errorf("%d connections, %d lookups", len(r.m.conns), len(r.m.lookups))
	}
}
