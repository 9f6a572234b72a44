package cm

import (
	"net/netip"
	"testing"
	"time"

	"github.com/gorxe/gorxe/rxe"
	"github.com/gorxe/gorxe/wire"
)

const (
	testService = 0x01061c06
	clientQPN   = wire.QPN(0x111)
	serverQPN   = wire.QPN(0x222)
)

// node is a Machine with what it has sent and what its users have heard.
type node struct {
	t      *testing.T
	m      *Machine
	now    rxe.Time
	gid    wire.GID
	sent   []sentMAD
	events []Event
	// What the listener of listen does. Nil takes the request.
	verdict func(c *Conn, req *Request) Verdict
	taken   []*Conn
	// How a request is counted. Nil: for one user and one listener.
	admission func(c *Conn) (Verdict, bool)
}

type sentMAD struct {
	to  rxe.AHAttr
	mad wire.MAD
}

func newNode(t *testing.T, guid uint64, addr string) *node {
	n := &node{t: t, gid: wire.GIDFromAddr(netip.MustParseAddr(addr))}
	state := uint32(guid)
	n.m = New(Config{
		GUID: guid,
		Random: func() uint32 {
			state = state*1664525 + 1013904223
			return state>>16 | state<<16
		},
		Send: func(to rxe.AHAttr, mad *wire.MAD) { n.sent = append(n.sent, sentMAD{to, *mad}) },
	})
	return n
}

// handler records the events of a connection.
func (n *node) handler(_ rxe.Time, ev *Event) {
	e := *ev
	e.PrivateData = append([]byte(nil), ev.PrivateData...)
	e.ARI = append([]byte(nil), ev.ARI...)
	e.Info = append([]byte(nil), ev.Info...)
	n.events = append(n.events, e)
}

// listen serves testService, with n.verdict.
func (n *node) listen() *Listener {
	n.t.Helper()
	l, err := n.m.Listen(testService, func(_ rxe.Time, c *Conn, req *Request) Verdict {
		if v, ok := n.admit(c); !ok {
			return v
		}
		if n.verdict != nil {
			return n.verdict(c, req)
		}
		c.SetHandler(n.handler)
		n.taken = append(n.taken, c)
		return take
	})
	n.noError(err)
	return l
}

func (n *node) admit(c *Conn) (Verdict, bool) {
	if n.admission != nil {
		return n.admission(c)
	}
	return c.Admit(nil, testService)
}

func (n *node) noError(err error) {
	n.t.Helper()
	if err != nil {
		n.t.Fatal(err)
	}
}

func (n *node) connectParams(to *node) *ConnectParams {
	return &ConnectParams{
		Service: testService, Path: rxe.AHAttr{DGID: to.gid, HopLimit: 64}, SGID: n.gid, QPN: clientQPN, PathMTU: 1024,
		ResponderResources: 3, InitiatorDepth: 4, RetryCount: 7, RNRRetryCount: 6, PrivateData: []byte("hello"),
	}
}

func (n *node) connect(to *node) *Conn {
	n.t.Helper()
	c, err := n.m.Connect(n.now, n.connectParams(to), n.handler)
	n.noError(err)
	return c
}

func acceptParams() *AcceptParams {
	return &AcceptParams{
		QPN: serverQPN, ResponderResources: 4, InitiatorDepth: 3, RNRRetryCount: 5, PrivateData: []byte("welcome"),
	}
}

// take returns the only message that was sent since the last call.
func (n *node) take(want wire.CMAttribute) *wire.MAD {
	n.t.Helper()
	if len(n.sent) != 1 || n.sent[0].mad.Attribute() != uint16(want) {
		n.t.Fatalf("sent %v, want one %v", n.messages(), want)
	}
	mad := &n.sent[0].mad
	n.sent = nil
	return mad
}

// quiet checks that nothing was sent.
func (n *node) quiet() {
	n.t.Helper()
	if len(n.sent) != 0 {
		n.t.Fatalf("sent %v, want nothing", n.messages())
	}
}

func (n *node) messages() []wire.CMMessage {
	var all []wire.CMMessage
	for i := range n.sent {
		msg, err := wire.ParseCM(n.sent[i].mad[:])
		n.noError(err)
		all = append(all, msg)
	}
	return all
}

// event returns the only event since the last call.
func (n *node) event(want EventKind) Event {
	n.t.Helper()
	if len(n.events) != 1 || n.events[0].Kind != want {
		n.t.Fatalf("events %+v, want one %v", n.events, want)
	}
	e := n.events[0]
	n.events = nil
	return e
}

func (n *node) noEvent() {
	n.t.Helper()
	if len(n.events) != 0 {
		n.t.Fatalf("events %+v, want none", n.events)
	}
}

// receive delivers a message from another node.
func (n *node) receive(from *node, mad *wire.MAD) {
	copied := *mad
	n.m.Receive(n.now, rxe.AHAttr{DGID: from.gid, PortNum: 1, HopLimit: 64}, &copied)
	// The Machine may not keep it.
	for i := range copied {
		copied[i] = 0xdb
	}
}

// advance moves the clock, and runs each timer when it is due.
func (n *node) advance(d time.Duration) {
	end := n.now + rxe.Time(d)
	for {
		at, ok := n.m.Deadline()
		if !ok || at > end {
			break
		}
		n.now = max(n.now, at)
		n.m.Expire(n.now)
	}
	n.now = end
}

func (n *node) state(c *Conn, want State) {
	n.t.Helper()
	if c.State() != want {
		n.t.Fatalf("state %v, want %v", c.State(), want)
	}
}

// gone checks that nothing is left in the Machine.
func (n *node) gone() {
	n.t.Helper()
	m := n.m
	counts := len(m.counts.users) + len(m.counts.listeners) + len(m.counts.requesters)
	if len(m.conns)+len(m.lookups)+len(m.peers.byCommID)+len(m.peers.byQPN)+len(m.timers)+counts != 0 {
		n.t.Fatalf("left: %d connections, %d lookups, %d and %d peers, %d timers, %+v", len(m.conns), len(m.lookups),
			len(m.peers.byCommID), len(m.peers.byQPN), len(m.timers), m.counts)
	}
}

// pair returns two nodes, of which the second listens.
func pair(t *testing.T) (client, server *node) {
	client, server = newNode(t, 0xc1, "192.0.2.1"), newNode(t, 0x5e, "192.0.2.2")
	server.listen()
	return client, server
}

// connected returns an established connection.
func connected(t *testing.T) (client, server *node, active, passive *Conn) {
	t.Helper()
	client, server = pair(t)
	active = client.connect(server)
	server.receive(client, client.take(wire.AttrREQ))
	passive = server.taken[0]
	client.noError(passive.Accept(server.now, acceptParams()))
	client.receive(server, server.take(wire.AttrREP))
	client.event(EventReply)
	client.noError(active.Ready(client.now))
	server.receive(client, client.take(wire.AttrRTU))
	server.event(EventReady)
	client.state(active, StateEstablished)
	server.state(passive, StateEstablished)
	return client, server, active, passive
}
