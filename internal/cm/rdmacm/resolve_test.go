package rdmacm

import (
	"net/netip"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/test/must"
	"github.com/gorxe/gorxe/wire"
)

// The path record of an active ID, and that of the passive one.
func TestPaths(t *testing.T) {
	world(t, func(t *testing.T, f *fabric, a, b *host) {
		l := b.listening(wire.PortSpaceTCP, "10.0.0.2:7174")
		u := a.user(wire.PortSpaceTCP)
		must.OK(t, u.SetTOS(0x68))
		must.OK(t, u.SetAckTimeout(20))
		must.OK(t, u.ResolveAddr(at("10.0.0.1:1025"), at("10.0.0.2:7174"), second))
		u.next(AddrResolved)
		if n := len(u.Paths()); n != 0 {
			t.Errorf("%d paths before the route is resolved", n)
		}
		must.OK(t, u.ResolveRoute(second))
		u.next(RouteResolved)
		src, dst := u.GIDs()
		want := PathRecord{SGID: src, DGID: dst, FlowLabel: 1025*31 + 7174, HopLimit: 64, TrafficClass: 0x68, PKey: 0xffff,
			MTU: 3, PacketLifetime: 19, Reversible: true, ServiceID: 0x01060000 + 7174}
		if p := u.Paths(); len(p) != 1 || p[0] != want {
			t.Errorf("paths are %+v, want %+v", p, want)
		}
		must.OK(t, u.Connect(&ConnParams{}))
		p := l.child(l.next(ConnectRequest)).Paths()
		want.SGID, want.DGID = dst, src
		if len(p) != 1 || p[0].PacketLifetime < 19 {
			t.Fatalf("passive paths are %+v", p)
		}
		p[0].PacketLifetime = 19 // of the REQ it has the ACK timeout
		if p[0] != want {
			t.Errorf("passive path is %+v, want %+v", p[0], want)
		}
	})
}

// A next hop that does not answer in time is an error, after which the program may try
// again.
func TestNeighborTimeout(t *testing.T) {
	world(t, func(t *testing.T, f *fabric, a, _ *host) {
		hop := netip.MustParseAddr("10.0.0.2")
		a.net.silent[hop] = true
		u := a.user(wire.PortSpaceTCP)
		must.OK(t, u.ResolveAddr(Addr{}, at("10.0.0.2:7174"), 2*second))
		time.Sleep(2*second - time.Millisecond)
		if got := u.names(); got != "" {
			t.Errorf("too early: %s", got)
		}
		time.Sleep(2 * time.Millisecond)
		if ev := u.next(AddrError); ev.Status != -110 {
			t.Errorf("status is %d", ev.Status)
		}
		u.wants(StateAddrBound)
		if len(a.net.waiting) != 0 {
			t.Error("the neighbor is still waited for")
		}
		must.OK(t, u.ResolveAddr(Addr{}, at("10.0.0.2:7174"), 4*second))
		time.Sleep(second)
		a.net.answer("10.0.0.2")
		u.next(AddrResolved)
		time.Sleep(minute)
		if got := u.names(); got != "" {
			t.Errorf("after the answer: %s", got)
		}
		// An ID that is destroyed meanwhile hears nothing.
		v := a.user(wire.PortSpaceTCP)
		must.OK(t, v.ResolveAddr(Addr{}, at("10.0.0.2:7174"), second))
		v.Destroy()
		time.Sleep(minute)
		if got := v.names(); got != "" || len(a.net.waiting) != 0 {
			t.Errorf("after Destroy: %s", got)
		}
	})
}

// A source address that no device has is found out when the address is resolved.
func TestNoDevice(t *testing.T) {
	world(t, func(t *testing.T, f *fabric, a, _ *host) {
		a.net.src = netip.MustParseAddr("10.0.0.7")
		u := a.user(wire.PortSpaceTCP)
		must.OK(t, u.ResolveAddr(Addr{}, at("10.0.0.2:7174"), second))
		if ev := u.next(AddrError); ev.Status != -int32(unix.ENODEV) {
			t.Errorf("status is %d", ev.Status)
		}
		u.wants(StateAddrBound)
		// The device must be on the interface of the route.
		a.net.src, a.net.index = netip.MustParseAddr("10.0.0.1"), 3
		must.OK(t, u.ResolveAddr(Addr{}, at("10.0.0.2:7174"), second))
		if ev := u.next(AddrError); ev.Status != -int32(unix.ENODEV) {
			t.Errorf("status on another interface is %d", ev.Status)
		}
	})
}

// Connections within one host: by its own address, by loopback addresses that stand for
// it, and by those that a device has.
func TestLoopback(t *testing.T) {
	for _, c := range []struct {
		name, listen, dst string
		addrs             []string
		src, to           string
	}{
		{"own address", "0.0.0.0:7174", "10.0.0.1:7174", []string{"10.0.0.1"}, "10.0.0.1", "10.0.0.1"},
		{"127.0.0.1 stands for it", "0.0.0.0:7174", "127.0.0.1:7174", []string{"10.0.0.1"}, "10.0.0.1", "10.0.0.1"},
		{"a listener on 127.0.0.1", "127.0.0.1:7174", "127.0.0.1:7174", []string{"10.0.0.1"}, "10.0.0.1", "10.0.0.1"},
		{"a listener on 127.0.0.1, by address", "127.0.0.1:7174", "10.0.0.1:7174", []string{"10.0.0.1"}, "10.0.0.1", "10.0.0.1"},
		{"unspecified", "0.0.0.0:7174", "0.0.0.0:7174", []string{"10.0.0.1"}, "10.0.0.1", "10.0.0.1"},
		{"::1 stands for it", "[::]:7174", "[::1]:7174", []string{"10.0.0.1", "fe80::1", "2001:db8::1"}, "2001:db8::1", "2001:db8::1"},
		{"::1 stands for a link-local address", "[::1]:7174", "[::1]:7174", []string{"10.0.0.1", "fe80::1"}, "fe80::1%2", "fe80::1%2"},
		{"127.0.0.1 of the device", "127.0.0.1:7174", "127.0.0.1:7174", []string{"127.0.0.1"}, "127.0.0.1", "127.0.0.1"},
		{"localhost of a device with ::1", "[::1]:7174", "[::1]:7174", []string{"::1"}, "::1", "::1"},
		{"127.0.0.1 from another loopback address", "", "127.0.0.1:7174", []string{"127.0.0.2"}, "127.0.0.2", "127.0.0.1"},
		{"unspecified with a loopback device", "0.0.0.0:7174", "0.0.0.0:7174", []string{"127.0.0.2"}, "127.0.0.2", "127.0.0.2"},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *fabric) {
				h := newHost(t, f, c.addrs...)
				defer h.close()
				var l *user
				if c.listen != "" {
					l = h.listening(wire.PortSpaceTCP, c.listen)
				}
				u := h.resolved(wire.PortSpaceTCP, c.dst)
				src, dst := u.LocalAddr(), u.RemoteAddr()
				if src.Addr().String() != c.src || dst.Addr().String() != c.to {
					t.Errorf("it connects %v to %v, want %s to %s", src, dst, c.src, c.to)
				}
				if l == nil {
					return
				}
				must.OK(t, u.Connect(&ConnParams{QPN: 1}))
				p := l.child(l.next(ConnectRequest))
				must.OK(t, p.Accept(&ConnParams{QPN: 2}))
				u.next(ConnectResponse)
				must.OK(t, u.EstablishActive())
				l.next(Established)
			})
		})
	}
}

// TestLoopbackServers: a loopback address that a device has is like others: a server on each has
// the same port, and hears those that call it. A wildcard, or a loopback address of no device,
// conflicts with both. The errno of the same address is that of the kernel, for which loopback
// addresses are wildcards.
func TestLoopbackServers(t *testing.T) {
	bubble(t, func(t *testing.T, f *fabric) {
		h := newHost(t, f, "127.0.0.1")
		defer h.close()
		h.add("rxe1", f.newPort(3, "127.0.0.2"))
		servers := map[string]*user{}
		for _, addr := range []string{"127.0.0.1:7174", "127.0.0.2:7174"} {
			servers[addr] = h.listening(wire.PortSpaceTCP, addr)
		}
		is(t, h.user(wire.PortSpaceTCP).Bind(at("127.0.0.2:7174")), unix.EADDRNOTAVAIL)
		for _, wild := range []string{"0.0.0.0:7174", "127.0.0.3:7174"} {
			is(t, h.user(wire.PortSpaceTCP).Bind(at(wild)), unix.EADDRNOTAVAIL)
		}
		for addr, l := range servers {
			u := h.resolved(wire.PortSpaceTCP, addr)
			must.OK(t, u.Connect(&ConnParams{QPN: 1}))
			must.OK(t, l.child(l.next(ConnectRequest)).Accept(&ConnParams{QPN: 2}))
			u.next(ConnectResponse)
			must.OK(t, u.EstablishActive())
			l.next(Established)
		}
	})
}

// IPv6 with a scope, across hosts. A dual-stack listener hears IPv4, too.
func TestIPv6(t *testing.T) {
	world(t, func(t *testing.T, f *fabric, a, b *host) {
		l := b.listening(wire.PortSpaceTCP, "[::]:7174")
		u := a.user(wire.PortSpaceTCP)
		must.OK(t, u.ResolveAddr(at("[fe80::1%2]:0"), at("[fe80::2%2]:7174"), second))
		u.next(AddrResolved)
		must.OK(t, u.ResolveRoute(second))
		u.next(RouteResolved)
		must.OK(t, u.Connect(&ConnParams{}))
		p := l.child(l.next(ConnectRequest))
		if got := p.RemoteAddr().Addr().String(); got != "fe80::1%2" {
			t.Errorf("the peer is %s", got)
		}
		connected(a, l, "10.0.0.2:7174")
	})
}

// SetPath takes the place of ResolveRoute.
func TestSetPath(t *testing.T) {
	world(t, func(t *testing.T, f *fabric, a, b *host) {
		l := b.listening(wire.PortSpaceTCP, "0.0.0.0:7174")
		path := a.resolved(wire.PortSpaceTCP, "10.0.0.2:7174").Paths()[0]
		u := a.user(wire.PortSpaceTCP)
		must.OK(t, u.ResolveAddr(Addr{}, at("10.0.0.2:7174"), second))
		u.next(AddrResolved)
		path.MTU = 1
		must.OK(t, u.SetPath(path))
		u.next(RouteResolved)
		must.OK(t, u.Connect(&ConnParams{}))
		if p := l.child(l.next(ConnectRequest)).Paths(); p[0].MTU != 1 {
			t.Errorf("the passive path is %+v", p[0])
		}
	})
}
