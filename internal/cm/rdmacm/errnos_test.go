package rdmacm

import (
	"net/netip"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/quota"
	"github.com/gorxe/gorxe/internal/test/must"
	"github.com/gorxe/gorxe/rocev2"
	"github.com/gorxe/gorxe/rxe"
	"github.com/gorxe/gorxe/wire"
)

// row is an operation on a new ID of a host with the addresses 10.0.0.1 and
// fe80::1, and the errno that Linux returns.
type row struct {
	name  string
	space wire.PortSpace // 0: TCP
	do    func(h *host, u *user) error
	want  unix.Errno
	// state is that of the ID afterwards.
	state State
}

func checkRows(t *testing.T, rows []row) {
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *fabric) {
				h := newHost(t, f, "10.0.0.1", "fe80::1")
				defer h.close()
				if r.space == 0 {
					r.space = wire.PortSpaceTCP
				}
				if r.state == StateAddrQuery { // and not a later one
					h.net.silent[at("10.0.0.2:0").Addr()], h.net.silent[netip.MustParseAddr("fe80::2")] = true, true
				}
				u := h.user(r.space)
				is(t, r.do(h, u), r.want)
				u.wants(r.state)
			})
		})
	}
}

// bound returns a row's operation: another ID of the port space has the address other.
func after(other, addr string, set ...func(other, u *user)) func(h *host, u *user) error {
	return func(h *host, u *user) error {
		o := h.user(u.PortSpace())
		for _, f := range set {
			f(o, u)
		}
		must.OK(h.t, o.Bind(at(other)))
		return u.Bind(at(addr))
	}
}

func bothReuse(other, u *user) {
	must.OK(u.h.t, other.SetReuseAddr(true))
	must.OK(u.h.t, u.SetReuseAddr(true))
}

// afib is the address that librdmacm binds to find out whether AF_IB works, with a port
// space.
func afib(space wire.PortSpace) Addr {
	return Addr{AFIB: &SockaddrIB{ServiceID: wire.ServiceID(space, 0), Mask: ^uint64(0xffff)}}
}

func TestBindErrnos(t *testing.T) {
	bind := func(addr string) func(*host, *user) error {
		return func(_ *host, u *user) error { return u.Bind(at(addr)) }
	}
	checkRows(t, []row{
		{"address", 0, bind("10.0.0.1:7174"), 0, StateAddrBound},
		{"no family", 0, func(_ *host, u *user) error { return u.Bind(Addr{}) }, unix.EAFNOSUPPORT, StateIdle},
		{"twice", 0, func(_ *host, u *user) error {
			must.OK(t, u.Bind(at("10.0.0.1:7174")))
			return u.Bind(at("10.0.0.1:7175"))
		}, unix.EINVAL, StateAddrBound},
		{"again after a failure", 0, func(_ *host, u *user) error {
			is(t, u.Bind(at("10.0.0.9:7174")), unix.EADDRNOTAVAIL)
			return u.Bind(at("0.0.0.0:7174"))
		}, 0, StateAddrBound},
		{"another host's address", 0, bind("10.0.0.9:7174"), unix.EADDRNOTAVAIL, StateIdle},
		{"IPv4-mapped address", 0, bind("[::ffff:10.0.0.1]:7174"), unix.EADDRNOTAVAIL, StateIdle},
		{"address without a device", 0, func(h *host, u *user) error {
			h.net.local = append(h.net.local, at("10.0.0.7:0").Addr())
			return u.Bind(at("10.0.0.7:7174"))
		}, unix.ENODEV, StateIdle},
		{"link-local without a scope", 0, bind("[fe80::1]:7174"), unix.EINVAL, StateIdle},
		{"link-local", 0, bind("[fe80::1%2]:7174"), 0, StateAddrBound},
		{"link-local on another interface", 0, bind("[fe80::1%7]:7174"), unix.ENODEV, StateIdle},
		{"IPoIB", wire.PortSpaceIPoIB, bind("10.0.0.1:7174"), unix.EINVAL, StateIdle},
		{"IPoIB wildcard", wire.PortSpaceIPoIB, bind("0.0.0.0:7174"), 0, StateAddrBound},
		{"privileged port", 0, bind("0.0.0.0:1023"), unix.EACCES, StateIdle},
		{"privileged port with the right", 0, func(h *host, u *user) error {
			h.root = true
			return u.Bind(at("0.0.0.0:1023"))
		}, 0, StateAddrBound},
		{"port 1024", 0, bind("0.0.0.0:1024"), 0, StateAddrBound},
		{"same address", 0, after("10.0.0.1:7174", "10.0.0.1:7174"), unix.EADDRINUSE, StateIdle},
		{"other port", 0, after("10.0.0.1:7174", "10.0.0.1:7175"), 0, StateAddrBound},
		{"other address", 0, after("10.0.0.1:7174", "[fe80::1%2]:7174"), 0, StateAddrBound},
		{"wildcard after an address", 0, after("10.0.0.1:7174", "0.0.0.0:7174"), unix.EADDRNOTAVAIL, StateIdle},
		{"address after a wildcard", 0, after("0.0.0.0:7174", "10.0.0.1:7174"), unix.EADDRNOTAVAIL, StateIdle},
		{"loopback is a wildcard", 0, after("127.0.0.1:7174", "10.0.0.1:7174"), unix.EADDRNOTAVAIL, StateIdle},
		{"network 0 is a wildcard", 0, after("0.1.2.3:7174", "10.0.0.1:7174"), unix.EADDRNOTAVAIL, StateIdle},
		{"IPv6 wildcard after IPv4", 0, after("0.0.0.0:7174", "[::]:7174"), unix.EADDRNOTAVAIL, StateIdle},
		{"IPv6 wildcard of its own", 0, after("0.0.0.0:7174", "[::]:7174", func(_, u *user) { must.OK(t, u.SetAFOnly(true)) }), 0, StateAddrBound},
		{"IPv6 wildcard, bindv6only", 0, after("0.0.0.0:7174", "[::]:7174", func(_, u *user) { u.h.net.v6only = true }), 0, StateAddrBound},
		{"both share", 0, after("10.0.0.1:7174", "10.0.0.1:7174", bothReuse), 0, StateAddrBound},
		{"both share a wildcard", 0, after("0.0.0.0:7174", "10.0.0.1:7174", bothReuse), 0, StateAddrBound},
		{"one shares", 0, after("10.0.0.1:7174", "10.0.0.1:7174", func(o, _ *user) { must.OK(t, o.SetReuseAddr(true)) }), unix.EADDRINUSE, StateIdle},
		{"other port space", 0, func(h *host, u *user) error {
			must.OK(t, h.user(wire.PortSpaceUDP).Bind(at("10.0.0.1:7174")))
			return u.Bind(at("10.0.0.1:7174"))
		}, 0, StateAddrBound},
		{"destroyed", 0, func(h *host, u *user) error {
			o := h.user(wire.PortSpaceTCP)
			must.OK(t, o.Bind(at("10.0.0.1:7174")))
			o.Destroy()
			return u.Bind(at("10.0.0.1:7174"))
		}, 0, StateAddrBound},
		{"all ports of a user taken", 0, func(h *host, u *user) error {
			for range 4 {
				must.OK(t, h.user(wire.PortSpaceTCP).Bind(at("0.0.0.0:0")))
			}
			return u.Bind(at("0.0.0.0:0"))
		}, unix.EADDRNOTAVAIL, StateIdle},
		{"librdmacm's probe", wire.PortSpaceIB, func(_ *host, u *user) error { return u.Bind(afib(wire.PortSpaceTCP)) }, 0, StateAddrBound},
		{"AF_IB service of another space", wire.PortSpaceUDP, func(_ *host, u *user) error { return u.Bind(afib(wire.PortSpaceTCP)) }, unix.EPROTONOSUPPORT, StateIdle},
		{"AF_IB address", wire.PortSpaceIB, func(_ *host, u *user) error {
			a := afib(wire.PortSpaceTCP)
			a.AFIB.GID = wire.GID{0xfe, 0x80, 15: 1}
			return u.Bind(a)
		}, unix.ENODEV, StateIdle},
	})
}

func TestListenErrnos(t *testing.T) {
	checkRows(t, []row{
		{"bound", 0, func(_ *host, u *user) error { must.OK(t, u.Bind(at("10.0.0.1:7174"))); return u.Listen() }, 0, StateListen},
		{"unbound", 0, func(_ *host, u *user) error {
			err := u.Listen()
			if a := u.LocalAddr(); !a.isZero() || a.port() < 40000 {
				t.Errorf("it listens on %v", a)
			}
			return err
		}, 0, StateListen},
		{"twice", 0, func(_ *host, u *user) error { must.OK(t, u.Listen()); return u.Listen() }, unix.EINVAL, StateListen},
		{"shared address", 0, func(h *host, u *user) error {
			must.OK(t, after("10.0.0.1:7174", "10.0.0.1:7174", bothReuse)(h, u))
			return u.Listen()
		}, unix.EADDRINUSE, StateAddrBound},
		{"shared wildcard", 0, func(h *host, u *user) error {
			must.OK(t, after("10.0.0.1:7174", "0.0.0.0:7174", bothReuse)(h, u))
			return u.Listen()
		}, unix.EADDRNOTAVAIL, StateAddrBound},
		{"shared by nobody any more", 0, func(_ *host, u *user) error {
			must.OK(t, u.SetReuseAddr(true))
			must.OK(t, u.Bind(at("10.0.0.1:7174")))
			return u.Listen()
		}, 0, StateListen},
		{"share with a listener", 0, func(h *host, u *user) error {
			o := h.user(wire.PortSpaceTCP)
			bothReuse(o, u)
			must.OK(t, o.Bind(at("10.0.0.1:7174")))
			must.OK(t, o.Listen())
			return u.Bind(at("10.0.0.1:7174"))
		}, unix.EADDRINUSE, StateIdle},
		{"connecting", 0, func(_ *host, u *user) error {
			must.OK(t, u.ResolveAddr(Addr{}, at("10.0.0.2:1"), second))
			u.next(AddrResolved)
			return u.Listen()
		}, unix.EINVAL, StateAddrResolved},
	})
}

func TestResolveErrnos(t *testing.T) {
	resolve := func(src, dst Addr) func(*host, *user) error {
		return func(_ *host, u *user) error { return u.ResolveAddr(src, dst, second) }
	}
	checkRows(t, []row{
		{"address", 0, resolve(Addr{}, at("10.0.0.2:1")), 0, StateAddrQuery},
		{"no destination", 0, resolve(Addr{}, Addr{}), unix.EINVAL, StateAddrBound},
		{"source of another family", 0, resolve(at("10.0.0.1:0"), at("[2001:db8::1]:1")), unix.EINVAL, StateAddrBound},
		{"source that is not here", 0, resolve(at("10.0.0.9:0"), at("10.0.0.2:1")), unix.EADDRNOTAVAIL, StateIdle},
		{"link-local without a scope", 0, resolve(Addr{}, at("[fe80::2]:1")), 0, StateAddrQuery},
		{"IPv4-mapped address", 0, resolve(Addr{}, at("[::ffff:10.0.0.2]:1")), unix.ENETUNREACH, StateAddrBound},
		{"no route", 0, func(h *host, u *user) error {
			h.net.routes[at("10.9.0.1:0").Addr()] = unix.ENETUNREACH
			return u.ResolveAddr(Addr{}, at("10.9.0.1:1"), second)
		}, unix.ENETUNREACH, StateAddrBound},
		{"again after an error", 0, func(h *host, u *user) error {
			h.net.routes[at("10.9.0.1:0").Addr()] = unix.EHOSTUNREACH
			is(t, u.ResolveAddr(Addr{}, at("10.9.0.1:1"), second), unix.EHOSTUNREACH)
			return u.ResolveAddr(Addr{}, at("10.0.0.2:1"), second)
		}, 0, StateAddrQuery},
		{"under way", 0, func(h *host, u *user) error {
			h.net.silent[at("10.0.0.2:0").Addr()] = true
			must.OK(t, u.ResolveAddr(Addr{}, at("10.0.0.2:1"), second))
			return u.ResolveAddr(Addr{}, at("10.0.0.2:1"), second)
		}, unix.EINVAL, StateAddrQuery},
		{"AF_IB", wire.PortSpaceIB, resolve(Addr{}, afib(wire.PortSpaceTCP)), unix.ENODEV, StateAddrBound},
		{"loopback without an active device", 0, func(h *host, u *user) error {
			h.port.set(func(p *rocev2.PortInfo) { p.State = rocev2.PortDown })
			return u.ResolveAddr(Addr{}, at("127.0.0.1:1"), second)
		}, unix.ENODEV, StateAddrBound},

		{"route of an idle ID", 0, func(_ *host, u *user) error { return u.ResolveRoute(second) }, unix.EINVAL, StateIdle},
		{"route without a timeout", 0, func(_ *host, u *user) error {
			must.OK(t, u.ResolveAddr(Addr{}, at("10.0.0.2:1"), second))
			u.next(AddrResolved)
			return u.ResolveRoute(0)
		}, unix.EINVAL, StateAddrResolved},
		{"route without an interface", 0, func(h *host, u *user) error {
			must.OK(t, u.ResolveAddr(Addr{}, at("10.0.0.2:1"), second))
			u.next(AddrResolved)
			h.port.set(func(p *rocev2.PortInfo) { *p = rocev2.PortInfo{} })
			return u.ResolveRoute(second)
		}, unix.ENODEV, StateAddrResolved},
		{"route through a tiny interface", 0, func(h *host, u *user) error {
			must.OK(t, u.ResolveAddr(Addr{}, at("10.0.0.2:1"), second))
			u.next(AddrResolved)
			h.port.set(func(p *rocev2.PortInfo) { p.MTU = 256 + headers - 1 })
			return u.ResolveRoute(second)
		}, unix.EINVAL, StateAddrResolved},
		{"path of an idle ID", 0, func(_ *host, u *user) error { return u.SetPath(PathRecord{}) }, unix.EINVAL, StateIdle},
	})
}

func TestConnectErrnos(t *testing.T) {
	long := func(n int) *ConnParams { return &ConnParams{PrivateData: make([]byte, n)} }
	connect := func(n int) func(*host, *user) error {
		return func(_ *host, u *user) error {
			must.OK(t, u.ResolveAddr(Addr{}, at("10.0.0.2:1"), second))
			u.next(AddrResolved)
			must.OK(t, u.ResolveRoute(second))
			u.next(RouteResolved)
			return u.Connect(long(n))
		}
	}
	checkRows(t, []row{
		{"unresolved", 0, func(_ *host, u *user) error { return u.Connect(long(0)) }, unix.EINVAL, StateIdle},
		{"56 bytes", 0, connect(56), 0, StateConnect},
		{"57 bytes", 0, connect(57), unix.EINVAL, StateRouteResolved},
		{"180 bytes of UD", wire.PortSpaceUDP, connect(180), 0, StateConnect},
		{"181 bytes of UD", wire.PortSpaceUDP, connect(181), unix.EINVAL, StateRouteResolved},
		{"source address gone", 0, func(h *host, u *user) error {
			must.OK(t, u.ResolveAddr(Addr{}, at("10.0.0.2:1"), second))
			u.next(AddrResolved)
			must.OK(t, u.ResolveRoute(second))
			u.next(RouteResolved)
			h.port.set(func(p *rocev2.PortInfo) { p.GIDs = p.GIDs[1:] })
			return u.Connect(long(0))
		}, unix.EINVAL, StateRouteResolved},
		{"accept of an idle ID", 0, func(_ *host, u *user) error { return u.Accept(long(0)) }, unix.EINVAL, StateIdle},
		{"accept of an active ID", 0, func(h *host, u *user) error { must.OK(t, connect(0)(h, u)); return u.Accept(long(0)) }, unix.EINVAL, StateConnect},
		{"establish of an idle ID", 0, func(_ *host, u *user) error { return u.EstablishActive() }, unix.EINVAL, StateIdle},
		{"establish too early", 0, func(h *host, u *user) error { must.OK(t, connect(0)(h, u)); return u.EstablishActive() }, unix.EINVAL, StateConnect},
		{"reject of an idle ID", 0, func(_ *host, u *user) error { return u.Reject(28, nil) }, unix.EINVAL, StateIdle},
		{"disconnect of an idle ID", 0, func(_ *host, u *user) error { return u.Disconnect() }, unix.EINVAL, StateIdle},
		{"disconnect too early", 0, func(h *host, u *user) error { must.OK(t, connect(0)(h, u)); return u.Disconnect() }, 0, StateConnect},
		{"notify of an idle ID", 0, func(_ *host, u *user) error { return u.Notify(rxe.EventCommEst) }, unix.EINVAL, StateIdle},
		{"notify too early", 0, func(h *host, u *user) error { must.OK(t, connect(0)(h, u)); return u.Notify(rxe.EventCommEst) }, unix.EINVAL, StateConnect},
		{"notify of a migration", 0, func(h *host, u *user) error { must.OK(t, connect(0)(h, u)); return u.Notify(rxe.EventPathMig) }, unix.EINVAL, StateConnect},
		{"attributes of an idle ID", 0, func(_ *host, u *user) error { _, _, err := u.QPAttr(rxe.QPInit); return err }, unix.EINVAL, StateIdle},
		{"attributes of RTR too early", 0, func(h *host, u *user) error {
			must.OK(t, connect(0)(h, u))
			_, _, err := u.QPAttr(rxe.QPRTR)
			return err
		}, unix.EINVAL, StateConnect},
	})
}

// The passive side's private data has limits, too. A failed accept refuses the request.
func TestAnswerErrnos(t *testing.T) {
	for _, r := range []struct {
		name   string
		space  wire.PortSpace
		answer func(u *user) error
		want   unix.Errno
		event  EventKind
		status int32
	}{
		{"accept 197", wire.PortSpaceTCP, func(u *user) error { return u.Accept(&ConnParams{PrivateData: make([]byte, 197)}) }, unix.EINVAL, Rejected, 28},
		{"accept 196", wire.PortSpaceTCP, func(u *user) error { return u.Accept(&ConnParams{PrivateData: make([]byte, 196)}) }, 0, ConnectResponse, 0},
		{"accept 137 of UD", wire.PortSpaceUDP, func(u *user) error { return u.Accept(&ConnParams{PrivateData: make([]byte, 137)}) }, unix.EINVAL, Unreachable, 2},
		{"accept 136 of UD", wire.PortSpaceUDP, func(u *user) error { return u.Accept(&ConnParams{PrivateData: make([]byte, 136)}) }, 0, Established, 0},
		{"reject 148", wire.PortSpaceTCP, func(u *user) error { return u.Reject(28, make([]byte, 148)) }, 0, Rejected, 28},
		{"reject with ECE", wire.PortSpaceTCP, func(u *user) error { return u.Reject(35, nil) }, 0, Rejected, 35},
		{"reject 136 of UD", wire.PortSpaceUDP, func(u *user) error { return u.Reject(28, make([]byte, 136)) }, 0, Unreachable, 2},
		{"establish", wire.PortSpaceTCP, func(u *user) error { return u.EstablishActive() }, unix.EINVAL, Rejected, 28},
		{"destroy", wire.PortSpaceTCP, func(u *user) error { u.Destroy(); return nil }, 0, Rejected, 28},
		{"destroy of UD", wire.PortSpaceUDP, func(u *user) error { u.Destroy(); return nil }, 0, Unreachable, 2},
	} {
		t.Run(r.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *fabric) {
				a, b := newHost(t, f, "10.0.0.1"), newHost(t, f, "10.0.0.2")
				defer a.close()
				defer b.close()
				l := b.listening(r.space, "10.0.0.2:7174")
				u := a.resolved(r.space, "10.0.0.2:7174")
				must.OK(t, u.Connect(&ConnParams{}))
				p := l.child(l.next(ConnectRequest))
				is(t, r.answer(p), r.want)
				if ev := u.next(r.event); ev.Status != r.status {
					t.Errorf("status is %d, want %d", ev.Status, r.status)
				}
			})
		})
	}
	bubble(t, func(t *testing.T, f *fabric) {
		a, b := newHost(t, f, "10.0.0.1"), newHost(t, f, "10.0.0.2")
		defer a.close()
		defer b.close()
		l := b.listening(wire.PortSpaceTCP, "10.0.0.2:7174")
		u := a.resolved(wire.PortSpaceTCP, "10.0.0.2:7174")
		must.OK(t, u.Connect(&ConnParams{}))
		p := l.child(l.next(ConnectRequest))
		is(t, p.Reject(28, make([]byte, 149)), unix.EINVAL)
		must.OK(t, p.Accept(&ConnParams{}))
		u.next(ConnectResponse)
		must.OK(t, u.EstablishActive())
		l.next(Established)
		is(t, p.Notify(rxe.EventCommEst), unix.EISCONN)
		is(t, p.Accept(&ConnParams{}), unix.EINVAL)
		is(t, u.Connect(&ConnParams{}), unix.EINVAL)
	})
}

func TestOptionErrnos(t *testing.T) {
	listening := func(u *user) { must.OK(t, u.Bind(at("10.0.0.1:7174"))); must.OK(t, u.Listen()) }
	checkRows(t, []row{
		{"reuse", 0, func(_ *host, u *user) error { return u.SetReuseAddr(true) }, 0, StateIdle},
		{"reuse of a bound ID", 0, func(_ *host, u *user) error { must.OK(t, u.Bind(at("10.0.0.1:1024"))); return u.SetReuseAddr(true) }, 0, StateAddrBound},
		{"no reuse of a bound ID", 0, func(_ *host, u *user) error { must.OK(t, u.Bind(at("10.0.0.1:1024"))); return u.SetReuseAddr(false) }, unix.EINVAL, StateAddrBound},
		{"reuse of a listener", 0, func(_ *host, u *user) error { listening(u); return u.SetReuseAddr(true) }, unix.EINVAL, StateListen},
		{"af-only", 0, func(_ *host, u *user) error { return u.SetAFOnly(true) }, 0, StateIdle},
		{"af-only of a listener", 0, func(_ *host, u *user) error { listening(u); return u.SetAFOnly(true) }, unix.EINVAL, StateListen},
		{"tos", 0, func(_ *host, u *user) error { return u.SetTOS(8) }, 0, StateIdle},
		{"ACK timeout", 0, func(_ *host, u *user) error { return u.SetAckTimeout(14) }, 0, StateIdle},
		{"ACK timeout of UD", wire.PortSpaceUDP, func(_ *host, u *user) error { return u.SetAckTimeout(14) }, unix.EINVAL, StateIdle},
	})
}

func TestJoinErrnos(t *testing.T) {
	join := func(bind, group string) func(*host, *user) error {
		return func(_ *host, u *user) error {
			if bind != "" {
				must.OK(t, u.Bind(at(bind)))
			}
			_, err := u.Join(at(group), false)
			return err
		}
	}
	checkRows(t, []row{
		{"bound", wire.PortSpaceUDP, join("10.0.0.1:0", "239.1.1.1:0"), 0, StateAddrBound},
		{"idle", wire.PortSpaceUDP, join("", "239.1.1.1:0"), unix.EINVAL, StateIdle},
		{"wildcard", wire.PortSpaceUDP, join("0.0.0.0:0", "239.1.1.1:0"), unix.EINVAL, StateAddrBound},
		{"RC", 0, join("10.0.0.1:0", "239.1.1.1:0"), unix.EINVAL, StateAddrBound},
		{"zero", wire.PortSpaceUDP, join("10.0.0.1:0", "0.0.0.0:0"), unix.EINVAL, StateAddrBound},
		{"IPv6", wire.PortSpaceUDP, join("[fe80::1%2]:0", "[ff0e::1]:0"), enotsupp, StateAddrBound},
		{"listening", wire.PortSpaceUDP, func(h *host, u *user) error {
			must.OK(t, u.Bind(at("10.0.0.1:0")))
			must.OK(t, u.Listen())
			_, err := u.Join(at("239.1.1.1:0"), false)
			return err
		}, unix.EINVAL, StateListen},
		{"no interface", wire.PortSpaceUDP, func(h *host, u *user) error {
			must.OK(t, u.Bind(at("10.0.0.1:0")))
			h.port.set(func(p *rocev2.PortInfo) { *p = rocev2.PortInfo{} })
			_, err := u.Join(at("239.1.1.1:0"), false)
			return err
		}, unix.ENODEV, StateAddrBound},
	})
}

// Port spaces that do not exist, and IDs that the owner cannot pay for.
func TestNewIDErrnos(t *testing.T) {
	bubble(t, func(t *testing.T, f *fabric) {
		h := newHost(t, f, "10.0.0.1")
		_, err := h.NewID(h.owner, 0x1234, rxe.QPRC, nil)
		is(t, err, unix.EINVAL)
		poor := &Owner{Budget: quota.New(quota.Cost{Memory: idCost.Memory + groupCost.Memory - 1, Files: 8})}
		id, err := h.NewID(poor, wire.PortSpaceUDP, rxe.QPUD, nil)
		is(t, err, 0)
		_, err = h.NewID(poor, wire.PortSpaceUDP, rxe.QPUD, nil)
		is(t, err, unix.ENOMEM)
		must.OK(t, id.Bind(at("10.0.0.1:0")))
		_, err = id.Join(at("239.1.1.1:0"), false)
		is(t, err, unix.ENOMEM)
		id.Destroy()
		if used := poor.Budget.Used(); used != (quota.Cost{}) {
			t.Errorf("the owner still pays for %+v", used)
		}
		h.close()
		_, err = h.NewID(h.owner, wire.PortSpaceTCP, rxe.QPRC, nil)
		is(t, err, unix.ENODEV)
		is(t, h.AddDevice(&Device{}), unix.ESHUTDOWN)
	})
}

// An ID that was destroyed refuses everything.
func TestDestroyed(t *testing.T) {
	bubble(t, func(t *testing.T, f *fabric) {
		h := newHost(t, f, "10.0.0.1")
		defer h.close()
		u := h.user(wire.PortSpaceTCP)
		u.Destroy()
		u.Destroy()
		is(t, u.Bind(at("10.0.0.1:0")), unix.EINVAL)
		is(t, u.Listen(), unix.EINVAL)
		is(t, u.ResolveAddr(Addr{}, at("10.0.0.2:1"), time.Second), unix.EINVAL)
		is(t, u.Connect(&ConnParams{}), unix.EINVAL)
		is(t, u.Disconnect(), unix.EINVAL)
	})
}
