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
		{"half-open", Limits{HalfOpen: 3}, false, func(c *Counters) uint64 { return c.OverHalfOpen }},
		{"listener", Limits{PerListener: 3}, false, func(c *Counters) uint64 { return c.OverListener }},
		{"peer", Limits{PerPeer: 3}, true, func(c *Counters) uint64 { return c.OverPeer }},
	} {
		for _, lookup := range []bool{false, true} {
			r := newPeerRig(t)
			c.limits.setDefaults()
			r.m.cfg.Limits = c.limits
			send := func(i int) {
				from, m := r.forged(i)
				if c.onePeer {
					from = r.other
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
	server.m.cfg.Limits = Limits{Conns: 120, HalfOpen: 100, PerListener: 80, PerPeer: 10}
	server.verdict = func(c *Conn, _ *Request) Verdict {
		c.SetHandler(func(now rxe.Time, ev *Event) {
			if ev.Kind == EventUnreachable {
				c.Destroy(now)
			}
		})
		server.noError(c.Accept(server.now, acceptParams()))
		return Take
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
