package ucma

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/cm/rdmacm"
	"github.com/gorxe/gorxe/internal/explain"
	"github.com/gorxe/gorxe/internal/kernel/uapi"
	"github.com/gorxe/gorxe/internal/test/must"
	"github.com/gorxe/gorxe/internal/test/rxedev"
	"github.com/gorxe/gorxe/rxe"
	"github.com/gorxe/gorxe/wire"
)

const (
	tcp = wire.PortSpaceTCP
	udp = wire.PortSpaceUDP

	port = 7174
)

// in6 is the device's address with a port, as a sockaddr_in.
func in6(port uint16) (b uapi.SockaddrIn6) {
	binary.NativeEndian.PutUint16(b[:], uapi.AFInet)
	binary.BigEndian.PutUint16(b[2:], port)
	copy(b[4:], rxedev.Addr.AsSlice())
	return b
}

// storage is the same in the other form.
func storage(port uint16) (b uapi.SockaddrStorage) {
	a := in6(port)
	copy(b[:], a[:])
	return b
}

// param is what a program gives of its queue pair.
func param(qpn uint32, data string) uapi.UcmaConnParam {
	p := uapi.UcmaConnParam{QPNum: qpn, ResponderResources: 3, InitiatorDepth: 2, RetryCount: 6, RNRRetryCount: 5, FlowControl: 1, Valid: 1}
	p.PrivateDataLen = uint8(copy(p.PrivateData[:], data))
	return p
}

// listener makes an id that listens at the port.
func (p *program) listener(uid uint64, ps wire.PortSpace, backlog uint32) uint32 {
	p.t.Helper()
	id := p.create(uid, ps)
	p.ok(do(p, uapi.UcmaBindIP, uapi.UcmaBindIPReq{Addr: in6(port), ID: id}, 0))
	p.ok(do(p, uapi.UcmaListen, uapi.UcmaListenReq{ID: id, Backlog: backlog}, 0))
	return id
}

// resolved makes an id whose route to the port is known.
func (p *program) resolved(uid uint64, ps wire.PortSpace) uint32 {
	p.t.Helper()
	id := p.create(uid, ps)
	p.ok(do(p, uapi.UcmaResolveAddr, uapi.UcmaResolveAddrReq{ID: id, TimeoutMs: 2000, DstSize: uapi.SizeofSockaddrIn, DstAddr: storage(port)}, 0))
	p.expect(rdmacm.AddrResolved, id, uid)
	p.ok(do(p, uapi.UcmaResolveRoute, uapi.UcmaResolveRouteReq{ID: id, TimeoutMs: 2000}, 0))
	p.expect(rdmacm.RouteResolved, id, uid)
	return id
}

// connect sends a request.
func (p *program) connect(id uint32, data string) {
	p.t.Helper()
	p.ok(do(p, uapi.UcmaConnect, uapi.UcmaConnectReq{ConnParam: param(0x11+p.connects, data), ID: id}, 0))
	p.connects++
}

func (p *program) accept(id uint32, uid uint64, data string) {
	p.t.Helper()
	p.ok(do(p, uapi.UcmaAccept, uapi.UcmaAcceptReq{UID: uid, ConnParam: param(0x22, data), ID: id}, 0))
}

// conn returns the connection's part of an event.
func conn(e uapi.UcmaEventResp) uapi.UcmaConnParam { return uapi.Load[uapi.UcmaConnParam](e.Param[:]) }

// established makes a connection, and returns both ends.
func established(t *testing.T, s, c *program, listener uint32) (passive, active uint32) {
	t.Helper()
	active = c.resolved(0xc, tcp)
	c.connect(active, "hello")
	e := s.event()
	if rdmacm.EventKind(e.Event) != rdmacm.ConnectRequest || e.ID == listener {
		t.Fatalf("%+v", e)
	}
	passive = e.ID
	s.accept(passive, 0x5, "welcome")
	c.expect(rdmacm.ConnectResponse, active, 0xc)
	c.ok(do(c, uapi.UcmaAccept, uapi.UcmaAcceptReq{ID: active}, 0))
	s.expect(rdmacm.Established, passive, 0x5)
	return passive, active
}

// TestConnection: from CREATE_ID to DESTROY_ID, between two files. The new id has the
// listener's uid until it is accepted, and the counts are those of the events read.
func TestConnection(t *testing.T) {
	h := newHost(t)
	s, c := h.open(), h.open()
	listener := s.listener(0xa, tcp, 5)
	if listener != 0 {
		t.Errorf("the first id is %d", listener)
	}
	active := c.resolved(0xc, tcp)
	c.connect(active, "hello")
	e := s.event()
	p := conn(e)
	if rdmacm.EventKind(e.Event) != rdmacm.ConnectRequest || e.UID != 0xa || e.ID != 2 || e.Status != 0 {
		t.Fatalf("%+v", e)
	}
	if p.PrivateDataLen != 56 || !bytes.HasPrefix(p.PrivateData[:], []byte("hello\x00")) || p.QPNum != 0x11 ||
		p.ResponderResources != 2 || p.InitiatorDepth != 3 || p.RetryCount != 6 || p.RNRRetryCount != 5 || p.FlowControl != 1 {
		t.Errorf("request: %+v", p)
	}
	passive := e.ID
	s.accept(passive, 0x5, "welcome")
	p = conn(c.expect(rdmacm.ConnectResponse, active, 0xc))
	if p.PrivateDataLen != 196 || !bytes.HasPrefix(p.PrivateData[:], []byte("welcome\x00")) || p.QPNum != 0x22 {
		t.Errorf("response: %+v", p)
	}
	c.ok(do(c, uapi.UcmaAccept, uapi.UcmaAcceptReq{ID: active}, 0))
	s.expect(rdmacm.Established, passive, 0x5)
	s.ok(do(s, uapi.UcmaDisconnect, uapi.UcmaDisconnectReq{ID: passive}, 0))
	c.expect(rdmacm.Disconnected, active, 0xc)
	c.ok(do(c, uapi.UcmaDisconnect, uapi.UcmaDisconnectReq{ID: active}, 0))
	s.expect(rdmacm.Disconnected, passive, 0x5)
	if n := c.destroy(active); n != 4 {
		t.Errorf("%d events of the active id were read, want 4", n)
	}
	if n := s.destroy(passive); n != 2 {
		t.Errorf("%d events of the passive id were read, want 2", n)
	}
	if n := s.destroy(listener); n != 1 {
		t.Errorf("%d events of the listener were read, want 1", n)
	}
	s.exit()
	c.exit()
	h.given()
}

// TestReject: reasons, data, and the errno of a reason that programs may not give.
func TestReject(t *testing.T) {
	h := newHost(t)
	s, c := h.open(), h.open()
	s.listener(0xa, tcp, 5)
	for _, tt := range []struct {
		give, want uint8
	}{{0, 28}, {28, 28}, {35, 35}} {
		active := c.resolved(0xc, tcp)
		c.connect(active, "")
		passive := s.event().ID
		req := uapi.UcmaRejectReq{ID: passive, Reason: 8}
		s.want(do(s, uapi.UcmaReject, req, 0), unix.EINVAL)
		req.Reason = tt.give
		req.PrivateDataLen = uint8(copy(req.PrivateData[:], "no"))
		s.ok(do(s, uapi.UcmaReject, req, 0))
		e := c.event()
		p := conn(e)
		if rdmacm.EventKind(e.Event) != rdmacm.Rejected || e.Status != int32(tt.want) || p.PrivateDataLen != 148 || string(p.PrivateData[:3]) != "no\x00" {
			t.Errorf("reason %d: %+v", tt.give, e)
		}
		s.destroy(passive)
		c.destroy(active)
	}
}

// TestUnknownPort: nobody listens, and gorxe explain says so before the program knows.
func TestUnknownPort(t *testing.T) {
	c := newHost(t).open()
	var said []string
	c.f.SetRefusals(keeps(func(verb string, errno unix.Errno, err error) {
		r := explain.Refused(verb, errno, err)
		said = append(said, fmt.Sprint(r.Fault, ": ", r.String()))
	}))
	active := c.resolved(0xc, tcp)
	c.connect(active, "")
	if e := c.event(); rdmacm.EventKind(e.Event) != rdmacm.Rejected || e.Status != int32(wire.RejectInvalidServiceID) {
		t.Errorf("%+v", e)
	}
	if want := "peer: rdma_connect failed with ECONNREFUSED: nothing listens by RDMA CM at 10.0.0.1:7174 (reject reason 8); start the server first, and compare address, port and port space (perftest: -R at both ends)."; !slices.Equal(said, []string{want}) {
		t.Errorf("said %q, want %q", said, want)
	}
}

// TestBacklog: requests beyond the backlog are dropped in silence, and one that the program
// has read makes room.
func TestBacklog(t *testing.T) {
	h := newHost(t)
	s, c := h.open(), h.open()
	listener := s.listener(0xa, tcp, 2)
	for range 3 {
		c.connect(c.resolved(0xc, tcp), "")
	}
	// The third one is dropped before the program reads the first.
	must.Eventually(t, "a request is dropped", func() bool { return h.rdma.Counters().OverBacklog > 0 })
	s.event()
	s.event()
	s.quiet()
	c.connect(c.resolved(0xc, tcp), "")
	s.event()
	if n := s.destroy(listener); n != 3 {
		t.Errorf("%d read, want 3", n)
	}
}

// TestListenerTakesChildren: requests that nobody has read end with their listener, and the
// peers hear of it.
func TestListenerTakesChildren(t *testing.T) {
	h := newHost(t)
	s, c := h.open(), h.open()
	listener := s.listener(0xa, tcp, 5)
	active := c.resolved(0xc, tcp)
	c.connect(active, "")
	<-s.ready
	if n := s.destroy(listener); n != 0 {
		t.Errorf("%d read, want 0", n)
	}
	s.quiet()
	if e := c.event(); rdmacm.EventKind(e.Event) != rdmacm.Rejected {
		t.Errorf("%+v", e)
	}
	if id := s.create(0xb, tcp); id != listener {
		t.Errorf("the next id is %d, want %d, which is free again", id, listener)
	}
	c.destroy(active)
	s.exit()
	c.exit()
	h.given()
}

// TestExit: a program that ends takes its connections with it.
func TestExit(t *testing.T) {
	h := newHost(t)
	s, c := h.open(), h.open()
	_, active := established(t, s, c, s.listener(0xa, tcp, 5))
	s.exit()
	c.expect(rdmacm.Disconnected, active, 0xc)
	c.exit()
	h.given()
}

// TestUnaccepted: events of an id that has no uid are swallowed. The accept then fails.
func TestUnaccepted(t *testing.T) {
	h := newHost(t)
	s, c := h.open(), h.open()
	s.listener(0xa, tcp, 5)
	active := c.resolved(0xc, tcp)
	c.connect(active, "")
	passive := s.event().ID
	c.destroy(active)
	for accepted := true; accepted; {
		// The peer's REJ is on its way until the state of the id has changed.
		attr := uapi.UcmaInitQPAttrReq{Response: answerAt, ID: passive, QPState: uint32(rxe.QPRTR)}
		accepted = do(s, uapi.UcmaInitQPAttr, attr, uapi.SizeOf[uapi.QPAttr]()) == nil
	}
	s.want(do(s, uapi.UcmaAccept, uapi.UcmaAcceptReq{UID: 0x5, ConnParam: param(1, ""), ID: passive}, 0), unix.EINVAL)
	s.quiet()
	if n := s.destroy(passive); n != 0 {
		t.Errorf("%d read, want 0", n)
	}
}

// TestDeviceRemoval: one event, then ENXIO; the id can still be destroyed.
func TestDeviceRemoval(t *testing.T) {
	h := newHost(t)
	p := h.open()
	id := p.listener(0xa, tcp, 5)
	h.cm.RemoveDevice(h.rdma)
	p.expect(rdmacm.DeviceRemoval, id, 0xa)
	p.want(do(p, uapi.UcmaListen, uapi.UcmaListenReq{ID: id}, 0), unix.ENXIO)
	if n := p.destroy(id); n != 1 {
		t.Errorf("%d read, want 1", n)
	}
	p.exit()
	h.given()
}

// TestUD: a service is resolved, and datagrams need no connection.
func TestUD(t *testing.T) {
	h := newHost(t)
	s, c := h.open(), h.open()
	s.listener(0xa, udp, 5)
	active := c.resolved(0xc, udp)
	c.connect(active, "hello")
	e := s.event()
	ud := uapi.Load[uapi.UcmaUDParam](e.Param[:])
	if rdmacm.EventKind(e.Event) != rdmacm.ConnectRequest || ud.PrivateDataLen != 180 || string(ud.PrivateData[:6]) != "hello\x00" {
		t.Fatalf("%+v", e)
	}
	s.accept(e.ID, 0x5, "welcome")
	e = c.expect(rdmacm.Established, active, 0xc)
	got := uapi.Load[uapi.UcmaUDParam](e.Param[:])
	if got.QPNum != 0x22 || got.QKey != 0x01234567 || got.PrivateDataLen != 136 || string(got.PrivateData[:8]) != "welcome\x00" {
		t.Errorf("%+v", got)
	}
	if a := got.AHAttr; a.IsGlobal != 1 || a.PortNum != 1 || wire.GID(a.DGID) != wire.GIDFromAddr(rxedev.Addr) {
		t.Errorf("address %+v", a)
	}
}
