package rdmacm

import (
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/quota"
	"github.com/gorxe/gorxe/internal/test/must"
	"github.com/gorxe/gorxe/rxe"
	"github.com/gorxe/gorxe/wire"
)

// another returns a host's other user: what it makes is of that user.
func (h *host) another() *host {
	other := *h
	other.budget = quota.New(quota.Cost{})
	other.owner = &Owner{PID: 2, Budget: other.budget}
	return &other
}

// TestHalfOpenOfOthers: a user has as many connections as one user may have, which its own
// listener does not accept. Those of other users come from the same address and are made.
func TestHalfOpenOfOthers(t *testing.T) {
	world(t, func(t *testing.T, f *fabric, a, b *host) {
		a.net.ports = [2]uint16{8192, 65535} // above the listeners' ports
		attacker := a.another()
		trap := attacker.listening(wire.PortSpaceTCP, "10.0.0.1:7000")
		const most = 2100 // one listener takes 2048 of one requester
		for i := range most {
			u := attacker.resolved(wire.PortSpaceTCP, "10.0.0.1:7000")
			must.OK(t, u.Connect(&ConnParams{QPN: wire.QPN(0x1000 + i), RetryCount: 7}))
			trap.names()
			f.messages()
		}
		if c := a.dev.Counters(); c.OverPeer == 0 || a.Usage().CM.HalfOpen != 2048 {
			t.Fatalf("%d half-open connections, %+v", a.Usage().CM.HalfOpen, c)
		}
		l := a.listening(wire.PortSpaceTCP, "10.0.0.1:7174")
		active, _ := connected(a, l, "10.0.0.1:7174")
		active.wants(StateConnect)
	})
}

// TestQueuePairOfOthers: a user connects with the number of another user's queue pair, as any
// program can say. The other user's connection goes on, and so does the new one.
func TestQueuePairOfOthers(t *testing.T) {
	world(t, func(t *testing.T, f *fabric, a, b *host) {
		l := a.listening(wire.PortSpaceTCP, "10.0.0.1:7174")
		active, passive := connected(a, l, "10.0.0.1:7174")
		attacker := a.another()
		u := attacker.resolved(wire.PortSpaceTCP, "10.0.0.1:7174")
		must.OK(t, u.Connect(&ConnParams{QPN: active.qpn}))
		if got := active.names() + l.names() + u.names(); got != "CONNECT_REQUEST" {
			t.Errorf("events are %s", got)
		}
		active.wants(StateConnect)
		passive.wants(StateConnect)
	})
}

// TestForeignQueuePair: a datagram from another queue pair than 1 is no message of a connection
// manager.
func TestForeignQueuePair(t *testing.T) {
	world(t, func(t *testing.T, f *fabric, a, b *host) {
		l := b.listening(wire.PortSpaceTCP, "10.0.0.2:7174")
		from := rxe.AHAttr{DGID: wire.GIDFromAddr(at("10.0.0.1:1").Addr()), SGIDIndex: 1, PortNum: 1}
		for _, src := range []wire.QPN{0, 2, 0x4711} {
			b.port.current().ReceiveMAD(from, src, forgedREQ(at("10.0.0.1:1").Addr(), at("10.0.0.2:7174").AddrPort))
		}
		if got := l.names(); got != "" || b.dev.Counters().Forged != 3 {
			t.Errorf("events are %q, counters %+v", got, b.dev.Counters())
		}
		b.port.current().ReceiveMAD(from, wire.GSIQPN, forgedREQ(at("10.0.0.1:1").Addr(), at("10.0.0.2:7174").AddrPort))
		l.next(ConnectRequest)
	})
}

// TestPortsOfUsers: a user takes its share of the ports, chosen or named, and other users find
// theirs. What a user gives back it can take again.
func TestPortsOfUsers(t *testing.T) {
	world(t, func(t *testing.T, f *fabric, a, b *host) {
		attacker := a.another()
		var held []*user
		for {
			u := attacker.user(wire.PortSpaceTCP)
			if err := u.Bind(at("0.0.0.0:0")); err != nil {
				is(t, err, unix.EADDRNOTAVAIL)
				is(t, u.Bind(at("0.0.0.0:7174")), unix.EADDRNOTAVAIL)
				break
			}
			if held = append(held, u); len(held) > 100 {
				t.Fatal("one user has 100 of 16 ports")
			}
		}
		for range len(held) {
			must.OK(t, a.user(wire.PortSpaceTCP).Bind(at("0.0.0.0:0")))
		}
		held[0].Destroy()
		must.OK(t, attacker.user(wire.PortSpaceTCP).Bind(at("0.0.0.0:7174")))
		is(t, attacker.user(wire.PortSpaceTCP).Bind(at("0.0.0.0:0")), unix.EADDRNOTAVAIL)
	})
}

// TestSharedPorts: where no port is free, IDs with other destinations share one.
func TestSharedPorts(t *testing.T) {
	world(t, func(t *testing.T, f *fabric, a, b *host) {
		a.owner = &Owner{PID: 1} // without shares
		connect := func(dst string) error {
			return a.user(wire.PortSpaceTCP).ResolveAddr(at("10.0.0.1:0"), at(dst), second)
		}
		for range 16 {
			must.OK(t, connect("10.0.0.2:7174"))
		}
		is(t, connect("10.0.0.2:7174"), unix.EADDRNOTAVAIL)
		must.OK(t, connect("10.0.0.2:7175"))
		if n := a.Usage().Ports; n != 16 {
			t.Errorf("%d ports are taken", n)
		}
	})
}

// TestFirstFree: the first free port of a range.
func TestFirstFree(t *testing.T) {
	var s portSet
	for port := uint16(100); port < 300; port++ {
		s.set(port, true)
	}
	s.set(200, false)
	for _, c := range []struct{ low, high, without, want uint16 }{
		{99, 400, 0, 99}, {100, 400, 0, 200}, {100, 400, 200, 300}, {201, 299, 0, 0}, {201, 300, 0, 300},
		{201, 300, 300, 0}, {65535, 65535, 0, 65535}, {65535, 65535, 65535, 0}, {191, 192, 0, 0}, {128, 200, 0, 200},
	} {
		if got := s.firstFree(c.low, c.high, c.without); got != c.want {
			t.Errorf("%+v: %d", c, got)
		}
	}
	if got := (*portSet)(nil).firstFree(7, 9, 7); got != 8 {
		t.Errorf("of an empty set: %d", got)
	}
}

// TestIDsOfUsers: a user has 65536 ids, and another user has others.
func TestIDsOfUsers(t *testing.T) {
	world(t, func(t *testing.T, f *fabric, a, b *host) {
		attacker := a.another()
		for range maxIDs {
			_, err := a.NewID(attacker.owner, wire.PortSpaceTCP, rxe.QPRC, nil)
			must.OK(t, err)
		}
		_, err := a.NewID(attacker.owner, wire.PortSpaceTCP, rxe.QPRC, nil)
		is(t, err, unix.ENOMEM)
		a.user(wire.PortSpaceTCP)
	})
}
