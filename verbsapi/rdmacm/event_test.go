package rdmacm

import (
	"context"
	"errors"
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/test/must"
	"github.com/gorxe/gorxe/verbsapi"
)

// program is a channel with an ID.
type program struct {
	*host
	ch *EventChannel
	id *ID
}

func newProgram(t testing.TB, h *host, space PortSpace) *program {
	t.Helper()
	p := &program{host: h, ch: NewEventChannel()}
	var err error
	p.id, err = p.ch.CreateID(space)
	must.OK(t, err)
	t.Cleanup(p.ch.Destroy)
	return p
}

// resolve takes the ID to RouteResolved.
func (p *program) resolve(dst netip.AddrPort) {
	p.t.Helper()
	must.OK(p.t, p.id.ResolveAddr(netip.AddrPortFrom(p.addr, 0), dst, testTimeout))
	next(p.t, p.ch, AddrResolved)
	must.OK(p.t, p.id.ResolveRoute(testTimeout))
	next(p.t, p.ch, RouteResolved)
}

// TestEvents: librdmacm's order of calls and events, with a queue pair that CreateQP made
// at one end, and one of the program's own at the other.
func TestEvents(t *testing.T) {
	server, client := newProgram(t, newHost(t), TCP), newProgram(t, newHost(t), TCP)
	must.OK(t, server.id.SetReuseAddr(true))
	must.OK(t, server.id.SetAFOnly(true))
	must.OK(t, server.id.Bind(server.at(0)))
	must.OK(t, server.id.Listen(1))

	must.OK(t, client.id.SetTOS(32))
	must.OK(t, client.id.SetAckTimeout(18))
	if _, err := client.id.CreateQP(client.pd, client.init()); !errors.Is(err, ErrInvalid) {
		t.Errorf("CreateQP without a device: %v", err)
	}
	client.resolve(server.id.LocalAddr().AddrPort)
	if _, err := client.id.CreateQP(nil, client.init()); !errors.Is(err, ErrInvalid) {
		t.Errorf("CreateQP without a domain: %v", err)
	}
	init := client.init()
	init.Type = verbsapi.QPRC
	qp, err := client.pd.CreateQP(init)
	must.OK(t, err)
	follow := func(states ...verbsapi.QPState) {
		t.Helper()
		for _, s := range states {
			attr, mask, err := client.id.QPAttr(s)
			must.OK(t, err)
			must.OK(t, qp.Modify(&attr, mask))
		}
	}
	follow(verbsapi.QPInit)
	must.OK(t, client.id.Connect(ConnParam{QPN: qp.Num(), PrivateData: []byte("hello"), InitiatorDepth: 3, ResponderResources: 5}))

	ev := next(t, server.ch, ConnectRequest)
	if ev.Listener != server.id || ev.QPN != qp.Num() || ev.ResponderResources != 3 || ev.InitiatorDepth != 5 || text(ev.PrivateData) != "hello" {
		t.Errorf("request %+v", ev)
	}
	if guid, known := ev.ID.DeviceGUID(); !known || guid != server.pd.Context().Device().GUID() {
		t.Errorf("request on the device %x", guid)
	}
	own := NewEventChannel()
	t.Cleanup(own.Destroy)
	must.OK(t, ev.ID.Migrate(own))
	passive, err := ev.ID.CreateQP(server.pd, server.init())
	must.OK(t, err)
	must.OK(t, server.receive(passive))
	must.OK(t, ev.ID.Accept(ConnParam{}))
	if ev := next(t, client.ch, ConnectResponse); ev.QPN != passive.Num() {
		t.Errorf("response of queue pair %v, want %v", ev.QPN, passive.Num())
	}
	follow(verbsapi.QPInit, verbsapi.QPRTR, verbsapi.QPRTS)
	if attr, _, err := qp.Query(); err != nil || attr.Timeout != 18 || attr.AH.TrafficClass != 32 {
		t.Errorf("timeout %d, traffic class %d, %v", attr.Timeout, attr.AH.TrafficClass, err)
	}
	must.OK(t, client.id.Establish())
	next(t, own, Established)
	if err := ev.ID.Notify(verbsapi.EventCommEst); !errors.Is(err, unix.EISCONN) {
		t.Errorf("Notify of what is established: %v", err)
	}

	client.send(qp, "ping", verbsapi.SendWR{})
	client.expect(8)
	server.expect(7)

	must.OK(t, client.id.Disconnect())
	next(t, own, Disconnected)
	must.OK(t, ev.ID.Disconnect())
	next(t, client.ch, Disconnected)
	if passive.State() != verbsapi.QPErr {
		t.Errorf("the queue pair is in %v", passive.State())
	}
	next(t, own, TimewaitExit)
	ev.ID.Destroy()
	ev.ID.Destroy()
	must.OK(t, qp.Destroy(testContext(t)))
	must.OK(t, passive.Destroy(testContext(t)))
}

// TestMigrateListener: a request that nobody has fetched goes with its listener to another
// channel, and so do all events of the new ID.
func TestMigrateListener(t *testing.T) {
	server, client := newProgram(t, newHost(t), TCP), newProgram(t, newHost(t), TCP)
	must.OK(t, server.id.Bind(server.at(0)))
	must.OK(t, server.id.Listen(0))
	client.resolve(server.id.LocalAddr().AddrPort)
	must.OK(t, client.id.Connect(ConnParam{QPN: 0x11}))
	must.Eventually(t, "a request comes", func() bool { return server.id.undelivered.Load() > 0 })
	to := NewEventChannel()
	t.Cleanup(to.Destroy)
	must.OK(t, server.id.Migrate(to))
	ev := next(t, to, ConnectRequest)
	must.OK(t, ev.ID.Accept(ConnParam{QPN: 0x22}))
	next(t, client.ch, ConnectResponse)
	must.OK(t, client.id.Establish())
	next(t, to, Established)
	server.ch.Destroy() // nothing of the new ID is left there
	must.OK(t, client.id.Disconnect())
	next(t, to, Disconnected)
	ev.ID.Destroy()
}

// TestDatagrams: a UD client asks for the queue pair of a service, and sends to it.
func TestDatagrams(t *testing.T) {
	server, client := newProgram(t, newHost(t), UDP), newProgram(t, newHost(t), UDP)
	must.OK(t, server.id.Bind(server.at(0)))
	must.OK(t, server.id.Listen(0))
	client.resolve(server.id.LocalAddr().AddrPort)
	qp, err := client.id.CreateQP(client.pd, client.init())
	must.OK(t, err)
	must.OK(t, client.id.Connect(ConnParam{PrivateData: []byte("hello")}))
	ev := next(t, server.ch, ConnectRequest)
	if text(ev.PrivateData) != "hello" || len(ev.PrivateData) != 180 {
		t.Errorf("private data %q", ev.PrivateData)
	}
	service, err := ev.ID.CreateQP(server.pd, server.init())
	must.OK(t, err)
	must.OK(t, server.receive(service))
	must.OK(t, ev.ID.Accept(ConnParam{}))
	found := next(t, client.ch, Established)
	if found.QPN != service.Num() || found.QKey != 0x01234567 {
		t.Errorf("queue pair %v, key %#x", found.QPN, found.QKey)
	}
	ah, err := client.pd.CreateAH(found.AH)
	must.OK(t, err)
	client.send(qp, "datagram", verbsapi.SendWR{AH: ah, RemoteQPN: found.QPN, RemoteQKey: found.QKey})
	client.expect(8)
	const grh = 40
	if wc := server.expect(7); wc.ByteLen != grh+8 || string(server.mr.Bytes()[2000+grh:2000+grh+8]) != "datagram" {
		t.Errorf("received %d bytes", wc.ByteLen)
	}

	// A second client is refused.
	other := newProgram(t, client.host, UDP)
	other.resolve(server.id.LocalAddr().AddrPort)
	must.OK(t, other.id.Connect(ConnParam{QPN: qp.Num()}))
	must.OK(t, next(t, server.ch, ConnectRequest).ID.Reject(nil))
	if ev := next(t, other.ch, Unreachable); ev.Status <= 0 || ev.Err() == nil {
		t.Errorf("refused with status %d", ev.Status)
	}
	must.OK(t, qp.Destroy(testContext(t)))
	must.OK(t, service.Destroy(testContext(t)))
}

// TestMulticast: what one member of a group sends reaches the other one.
func TestMulticast(t *testing.T) {
	group := netip.MustParseAddr("239.78.1.1")
	h := newHost(t)
	receiver, sender := newProgram(t, h, UDP), newProgram(t, h, UDP)
	var joined [2]*Event
	for i, p := range []*program{receiver, sender} {
		must.OK(t, p.id.Bind(h.at(0)))
		mc, err := p.id.JoinMulticast(group, p == sender)
		must.OK(t, err)
		joined[i] = next(t, p.ch, MulticastJoin)
		if joined[i].Multicast.Group() != group || joined[i].QPN != 0xffffff {
			t.Errorf("joined %+v", joined[i])
		}
		defer mc.Leave()
	}
	in, err := receiver.id.CreateQP(h.pd, h.init())
	must.OK(t, err)
	must.OK(t, h.receive(in))
	must.OK(t, in.AttachMcast(joined[0].AH.DGID, 0))
	out, err := sender.id.CreateQP(h.pd, h.init())
	must.OK(t, err)
	ah, err := h.pd.CreateAH(joined[1].AH)
	must.OK(t, err)
	h.send(out, "to all", verbsapi.SendWR{AH: ah, RemoteQPN: joined[1].QPN, RemoteQKey: joined[1].QKey})
	for range 2 { // the message, and that it was sent
		var wcs [1]verbsapi.WC
		_, err := h.cq.Wait(testContext(t), wcs[:])
		must.OK(t, err)
		if wcs[0].Status != verbsapi.WCSuccess {
			t.Errorf("completion %+v", wcs[0])
		}
	}
	if _, err := receiver.id.JoinMulticast(netip.MustParseAddr("ff0e::1"), false); err == nil {
		t.Error("joined an IPv6 group")
	}
	must.OK(t, in.DetachMcast(joined[0].AH.DGID, 0))
	must.OK(t, in.Destroy(testContext(t)))
	must.OK(t, out.Destroy(testContext(t)))
}

// TestBacklog: a request beyond the backlog is not delivered until the peer asks again.
func TestBacklog(t *testing.T) {
	h := newHost(t)
	server, other := newProgram(t, h, TCP), newProgram(t, h, TCP)
	for _, p := range []*program{server, other} {
		must.OK(t, p.id.Bind(h.at(0)))
		must.OK(t, p.id.Listen(2))
	}
	for i := range 5 {
		to := server
		if i == 4 {
			to = other
		}
		c := newProgram(t, h, TCP)
		c.resolve(to.id.LocalAddr().AddrPort)
		must.OK(t, c.id.Connect(ConnParam{QPN: verbsapi.QPN(90 + i)}))
	}
	// The datagrams of the device arrive in order. With this one, all four have arrived.
	next(t, other.ch, ConnectRequest)
	if n := server.ch.events.Len(); n != 2 {
		t.Errorf("%d requests wait, with a backlog of 2", n)
	}
	// There is room when the program takes them, and the peers ask again.
	for range 4 {
		next(t, server.ch, ConnectRequest)
	}
}

// TestChannelDestroyed: IDs, waits and later calls end with the channel.
func TestChannelDestroyed(t *testing.T) {
	p := newProgram(t, newHost(t), TCP)
	waiting := make(chan error, 1)
	go func() {
		_, err := p.ch.GetEvent(context.Background())
		waiting <- err
	}()
	p.ch.Destroy()
	p.ch.Destroy()
	if err := <-waiting; !errors.Is(err, ErrClosed) {
		t.Errorf("GetEvent: %v", err)
	}
	if _, err := p.ch.CreateID(TCP); !errors.Is(err, ErrClosed) {
		t.Errorf("CreateID: %v", err)
	}
	other := newProgram(t, p.host, TCP)
	if err := other.id.Migrate(p.ch); !errors.Is(err, ErrClosed) {
		t.Errorf("Migrate: %v", err)
	}
	if err := p.id.Bind(p.at(0)); err == nil {
		t.Error("a destroyed ID was bound")
	}
}
