package interop

import (
	"fmt"
	"math/rand/v2"

	"github.com/gorxe/gorxe/wire"
)

// cmPeer is the program testdata/cmpeer on one of the machines.
type cmPeer struct {
	*endpoint
	// unread are events that came while the test waited for one of another id.
	unread map[string][]string
}

// openCM starts the program.
func (tr *trial) openCM(m *machine) *cmPeer {
	tr.Helper()
	p := &cmPeer{&endpoint{trial: tr, machine: m}, map[string][]string{}}
	p.proc = tr.verbs(m, lab.cmPeer())
	p.reply("its event channel")
	return p
}

// event waits for an event of an id, and returns it: name, and status unless 0.
func (p *cmPeer) event(id string) string {
	p.Helper()
	for len(p.unread[id]) == 0 {
		whose, event := p.anyEvent()
		p.unread[whose] = append(p.unread[whose], event)
	}
	event := p.unread[id][0]
	p.unread[id] = p.unread[id][1:]
	return event
}

func (p *cmPeer) anyEvent() (id, event string) {
	p.Helper()
	a := p.do("event ms=%d", p.limit.Milliseconds())
	event = a.fields["event"]
	if s := a.fields["status"]; s != "0" {
		event += " " + s
	}
	return a.fields["id"], event
}

// await waits for an event of an id, which must be that one.
func (p *cmPeer) await(id, want string) {
	p.Helper()
	if got := p.event(id); got != want {
		p.Fatalf("%s: id %s has the event %s, not %s", p.machine.name, id, got, want)
	}
}

// awaitRequest waits for a connection request, and returns the number of its id.
func (p *cmPeer) awaitRequest() string {
	p.Helper()
	for {
		id, event := p.anyEvent()
		if event == "CONNECT_REQUEST" {
			return id
		}
		p.unread[id] = append(p.unread[id], event)
	}
}

// cmConnection is a connection between two such programs, and its id at either end.
type cmConnection struct {
	*trial
	server, client     *cmPeer
	listener           string
	serverID, clientID string
	port               int
	datagrams          bool // not connected: the client asks for a queue pair
}

// cmConnect starts a server that listens and a client that has resolved its address.
func (tr *trial) cmConnect(server, client *machine, f family, datagrams bool) *cmConnection {
	tr.Helper()
	c := &cmConnection{
		trial: tr, server: tr.openCM(server), client: tr.openCM(client), port: lab.nextPort(),
		listener: "0", clientID: "0", datagrams: datagrams,
	}
	c.listen(f)
	c.resolve(f)
	return c
}

func (c *cmConnection) listen(f family) {
	c.Helper()
	c.server.do("listen id=%s port=%d addr=%s ps=%s", c.listener, c.port, c.server.machine.address(f), c.space())
}

func (c *cmConnection) space() string {
	if c.datagrams {
		return "udp"
	}
	return "tcp"
}

// resolve makes the client's id, and resolves the server's address and the route to it.
func (c *cmConnection) resolve(f family) {
	c.Helper()
	p := c.client
	p.do("resolve id=%s addr=%s port=%d ps=%s ms=%d", c.clientID, c.server.machine.address(f), c.port, c.space(), p.limit.Milliseconds())
	p.await(c.clientID, "ADDR_RESOLVED")
	p.do("route id=%s ms=%d", c.clientID, p.limit.Milliseconds())
	p.await(c.clientID, "ROUTE_RESOLVED")
}

// The steps of a connection. Each begins with a call, and ends with an event at the other end.

func (c *cmConnection) callConnect() {
	c.client.do("connect id=%s qpn=%d", c.clientID, anyQPN())
}
func (c *cmConnection) callAccept() { c.server.do("accept id=%s qpn=%d", c.serverID, anyQPN()) }
func (c *cmConnection) callEstablish() {
	c.client.do("establish id=%s", c.clientID)
}
func (c *cmConnection) callDisconnect() {
	c.client.do("disconnect id=%s", c.clientID)
}
func (c *cmConnection) callDisconnectToo() {
	c.server.do("disconnect id=%s", c.serverID)
}

func (c *cmConnection) awaitRequest()    { c.Helper(); c.serverID = c.server.awaitRequest() }
func (c *cmConnection) awaitResponse()   { c.Helper(); c.client.await(c.clientID, "CONNECT_RESPONSE") }
func (c *cmConnection) awaitEstablish()  { c.Helper(); c.server.await(c.serverID, "ESTABLISHED") }
func (c *cmConnection) awaitDisconnect() { c.Helper(); c.server.await(c.serverID, "DISCONNECTED") }
func (c *cmConnection) awaitEnd()        { c.Helper(); c.client.await(c.clientID, "DISCONNECTED") }
func (c *cmConnection) awaitDatagram()   { c.Helper(); c.client.await(c.clientID, "ESTABLISHED") }

// cmStep is a message and what it causes.
type cmStep struct {
	message     wire.CMAttribute
	state       string // of the sender
	call, await func(*cmConnection)
}

// cmSteps are the life of a connection.
var cmSteps = []cmStep{
	{wire.AttrREQ, "REQ sent", (*cmConnection).callConnect, (*cmConnection).awaitRequest},
	{wire.AttrREP, "REP sent", (*cmConnection).callAccept, (*cmConnection).awaitResponse},
	{wire.AttrRTU, "established", (*cmConnection).callEstablish, (*cmConnection).awaitEstablish},
	{wire.AttrDREQ, "DREQ sent", (*cmConnection).callDisconnect, (*cmConnection).awaitDisconnect},
	{wire.AttrDREP, "timewait", (*cmConnection).callDisconnectToo, (*cmConnection).awaitEnd},
}

// cmDatagramSteps are that of a request for a queue pair of datagrams.
var cmDatagramSteps = []cmStep{
	{wire.AttrSIDRREQ, "SIDR_REQ sent", (*cmConnection).callConnect, (*cmConnection).awaitRequest},
	{wire.AttrSIDRREP, "SIDR_REP sent", (*cmConnection).callAccept, (*cmConnection).awaitDatagram},
}

func (c *cmConnection) steps() []cmStep {
	if c.datagrams {
		return cmDatagramSteps
	}
	return cmSteps
}

// goOn takes the connection through some steps.
func (c *cmConnection) goOn(steps []cmStep) {
	c.Helper()
	for _, s := range steps {
		s.call(c)
		s.await(c)
	}
}

// anyQPN returns the number of a queue pair that does not exist. The peer would refuse one
// that it holds for a live connection.
func anyQPN() int { return 2 + rand.IntN(1<<24-4) }

func (m *machine) address(f family) string {
	if f == ipv6 {
		return m.addr6
	}
	return m.addr
}

// cmText names a message, with its reason if it has one.
func cmText(m wire.CMMessage) string {
	switch m := m.(type) {
	case wire.CMREJ:
		return fmt.Sprintf("REJ %d", m.Reason())
	case wire.CMSIDRREP:
		return fmt.Sprintf("SIDR_REP %d", m.Status())
	}
	return m.CMAttribute().String()
}
