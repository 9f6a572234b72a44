package rdmacm

import (
	"bytes"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/quota"
	"github.com/gorxe/gorxe/rocev2"
	"github.com/gorxe/gorxe/rxe"
	"github.com/gorxe/gorxe/wire"
)

// world runs a test with two hosts.
func world(t *testing.T, test func(t *testing.T, f *fabric, a, b *host)) {
	bubble(t, func(t *testing.T, f *fabric) {
		a, b := newHost(t, f, "10.0.0.1", "fe80::1"), newHost(t, f, "10.0.0.2", "fe80::2")
		defer a.close()
		defer b.close()
		test(t, f, a, b)
	})
}

// The attributes of a queue pair at each step, on both sides.
func TestQPAttr(t *testing.T) {
	world(t, func(t *testing.T, f *fabric, a, b *host) {
		l := b.listening(wire.PortSpaceTCP, "10.0.0.2:7174")
		u := a.resolved(wire.PortSpaceTCP, "10.0.0.2:7174")
		mask := func(id *ID, s rxe.QPState, want rxe.QPAttrMask) rxe.QPAttr {
			t.Helper()
			attr, got, err := id.QPAttr(s)
			must(t, err)
			if got != want || attr.State != s {
				t.Errorf("mask for state %d is %#x of state %d, want %#x", s, uint32(got), attr.State, uint32(want))
			}
			return attr
		}
		for _, s := range []rxe.QPState{rxe.QPInit, rxe.QPRTR, rxe.QPRTS} { // before Connect, all are those of INIT
			if attr := mask(u.ID, s, 0x39); attr.Access != 0 || attr.PortNum != 1 {
				t.Errorf("attributes before Connect are %+v", attr)
			}
		}
		must(t, u.SetAckTimeout(14))
		must(t, u.Connect(&ConnParams{QPN: 0x11, ResponderResources: 5, InitiatorDepth: 6, RetryCount: 3, RNRRetryCount: 2}))
		synctest.Wait()
		if attr := mask(u.ID, rxe.QPInit, 0x39); attr.Access&rxe.AccessRemoteRead == 0 {
			t.Errorf("access after Connect is %#x", attr.Access)
		}
		p := l.child(l.next(ConnectRequest))
		rtr := mask(p.ID, rxe.QPRTR, 0x129181) // before Accept, as UCX reads it
		if rtr.PathMTU != 1024 || rtr.DestQPN != 0x11 || rtr.AH.DGID.Addr() != netip.MustParseAddr("10.0.0.1") || rtr.AH.SGIDIndex != 0 {
			t.Errorf("passive RTR is %+v", rtr)
		}
		must(t, p.Accept(&ConnParams{QPN: 0x22, ResponderResources: 6, InitiatorDepth: 5}))
		u.next(ConnectResponse)
		active, passive := mask(u.ID, rxe.QPRTR, 0x129181), mask(p.ID, rxe.QPRTS, 0x12e01)
		if active.RQPSN != passive.SQPSN || rtr.RQPSN != mask(u.ID, rxe.QPRTS, 0x12e01).SQPSN {
			t.Error("one side does not start with the PSN that the other expects")
		}
		if passive.RetryCnt != 3 || passive.RNRRetry != 2 || passive.MaxRdAtomic != 5 || passive.Timeout != 17 {
			t.Errorf("passive RTS is %+v", passive)
		}
		if rts := mask(u.ID, rxe.QPRTS, 0x12e01); rts.Timeout != 14 {
			t.Errorf("the timeout that the program has set is %d, want 14", rts.Timeout)
		}
		if active.MaxDestRdAtomic != 5 {
			t.Errorf("the active side answers %d READs at a time, want 5", active.MaxDestRdAtomic)
		}

		ud := a.user(wire.PortSpaceUDP)
		must(t, ud.Bind(at("10.0.0.1:0")))
		for _, s := range []rxe.QPState{rxe.QPInit, rxe.QPRTR, rxe.QPRTS} {
			if attr := mask(ud.ID, s, 0x71); attr.QKey != 0x01234567 {
				t.Errorf("UD queue key is %#x", attr.QKey)
			}
		}
	})
}

// The path record of an active ID, and that of the passive one.
func TestPaths(t *testing.T) {
	world(t, func(t *testing.T, f *fabric, a, b *host) {
		l := b.listening(wire.PortSpaceTCP, "10.0.0.2:7174")
		u := a.user(wire.PortSpaceTCP)
		must(t, u.SetTOS(0x68))
		must(t, u.SetAckTimeout(20))
		must(t, u.ResolveAddr(at("10.0.0.1:1025"), at("10.0.0.2:7174"), second))
		u.next(AddrResolved)
		if n := len(u.Paths()); n != 0 {
			t.Errorf("%d paths before the route is resolved", n)
		}
		must(t, u.ResolveRoute(second))
		u.next(RouteResolved)
		src, dst := u.GIDs()
		want := PathRecord{SGID: src, DGID: dst, FlowLabel: 1025*31 + 7174, HopLimit: 64, TrafficClass: 0x68, PKey: 0xffff,
			MTU: 3, PacketLifetime: 19, Reversible: true, ServiceID: 0x01060000 + 7174}
		if p := u.Paths(); len(p) != 1 || p[0] != want {
			t.Errorf("paths are %+v, want %+v", p, want)
		}
		must(t, u.Connect(&ConnParams{}))
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

// A REQ that nobody answers is sent 16 times, and then the peer is unreachable. Times are
// those of Linux 6.12.
func TestUnreachable(t *testing.T) {
	for _, c := range []struct {
		space wire.PortSpace
		sends string
		after time.Duration
	}{
		{wire.PortSpaceTCP, "REQ", 16 * 4608 * time.Millisecond},
		{wire.PortSpaceUDP, "SIDR_REQ", 16 * 4096 * time.Millisecond},
	} {
		world(t, func(t *testing.T, f *fabric, a, _ *host) {
			u := a.resolved(c.space, "10.0.0.3:7174") // nobody has it
			start := time.Now()
			must(t, u.Connect(&ConnParams{}))
			time.Sleep(c.after - time.Millisecond)
			if got := u.names(); got != "" {
				t.Errorf("after %v the events are %s", time.Since(start), got)
			}
			time.Sleep(2 * time.Millisecond)
			if ev := u.next(Unreachable); ev.Status != -110 {
				t.Errorf("status is %d", ev.Status)
			}
			u.wants(StateConnect)
			if n := bytes.Count([]byte(f.messages()), []byte(c.sends)); n != 16 {
				t.Errorf("%d messages were sent, want 16", n)
			}
		})
	}
}

// A next hop that does not answer in time is an error, after which the program may try
// again.
func TestNeighborTimeout(t *testing.T) {
	world(t, func(t *testing.T, f *fabric, a, _ *host) {
		hop := netip.MustParseAddr("10.0.0.2")
		a.net.silent[hop] = true
		u := a.user(wire.PortSpaceTCP)
		must(t, u.ResolveAddr(Addr{}, at("10.0.0.2:7174"), 2*second))
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
		must(t, u.ResolveAddr(Addr{}, at("10.0.0.2:7174"), 4*second))
		time.Sleep(second)
		a.net.answer("10.0.0.2")
		u.next(AddrResolved)
		time.Sleep(minute)
		if got := u.names(); got != "" {
			t.Errorf("after the answer: %s", got)
		}
		// An ID that is destroyed meanwhile hears nothing.
		v := a.user(wire.PortSpaceTCP)
		must(t, v.ResolveAddr(Addr{}, at("10.0.0.2:7174"), second))
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
		must(t, u.ResolveAddr(Addr{}, at("10.0.0.2:7174"), second))
		if ev := u.next(AddrError); ev.Status != -int32(unix.ENODEV) {
			t.Errorf("status is %d", ev.Status)
		}
		u.wants(StateAddrBound)
		// The device must be on the interface of the route.
		a.net.src, a.net.index = netip.MustParseAddr("10.0.0.1"), 3
		must(t, u.ResolveAddr(Addr{}, at("10.0.0.2:7174"), second))
		if ev := u.next(AddrError); ev.Status != -int32(unix.ENODEV) {
			t.Errorf("status on another interface is %d", ev.Status)
		}
	})
}

// The reasons with which peers are refused.
func TestRefusals(t *testing.T) {
	for _, c := range []struct {
		name  string
		setup func(a, b *host)
		dst   string
		kind  EventKind
		want  int32
	}{
		{"no listener", func(_, _ *host) {}, "10.0.0.2:7174", Rejected, 8},
		{"listener of another address", func(_, b *host) {
			b.listening(wire.PortSpaceTCP, "[fe80::2%2]:7174")
		}, "10.0.0.2:7174", Rejected, 28},
		{"IPv6 wildcard of its own", func(_, b *host) {
			l := b.user(wire.PortSpaceTCP)
			must(b.t, l.SetAFOnly(true))
			must(b.t, l.Bind(at("[::]:7174")))
			must(b.t, l.Listen())
		}, "10.0.0.2:7174", Rejected, 28},
		{"listener for this host", func(_, b *host) { b.listening(wire.PortSpaceTCP, "127.0.0.1:7174") }, "10.0.0.2:7174", Rejected, 28},
		{"no route back", func(_, b *host) {
			b.net.routes[netip.MustParseAddr("10.0.0.1")] = unix.ENETUNREACH
			b.listening(wire.PortSpaceTCP, "0.0.0.0:7174")
		}, "10.0.0.2:7174", Rejected, 28},
		{"route back by another interface", func(_, b *host) {
			b.net.index = 9
			b.listening(wire.PortSpaceTCP, "0.0.0.0:7174")
		}, "10.0.0.2:7174", Rejected, 28},
	} {
		t.Run(c.name, func(t *testing.T) {
			world(t, func(t *testing.T, f *fabric, a, b *host) {
				c.setup(a, b)
				u := a.resolved(wire.PortSpaceTCP, c.dst)
				must(t, u.Connect(&ConnParams{}))
				if ev := u.next(c.kind); ev.Status != c.want {
					t.Errorf("status is %d, want %d", ev.Status, c.want)
				}
			})
		})
	}
}

// The peer's private data comes with a rejection.
func TestReject(t *testing.T) {
	world(t, func(t *testing.T, f *fabric, a, b *host) {
		l := b.listening(wire.PortSpaceTCP, "0.0.0.0:7174")
		u := a.resolved(wire.PortSpaceTCP, "10.0.0.2:7174")
		must(t, u.Connect(&ConnParams{}))
		must(t, l.child(l.next(ConnectRequest)).Reject(28, []byte("no")))
		ev := u.next(Rejected)
		if len(ev.Conn.PrivateData) != 148 || !bytes.HasPrefix(ev.Conn.PrivateData, []byte("no\x00")) {
			t.Errorf("private data is %q", ev.Conn.PrivateData)
		}
		must(t, u.Disconnect()) // has no effect
		time.Sleep(minute)
		if got := u.names(); got != "" {
			t.Errorf("after the rejection: %s", got)
		}
	})
}

// A listener whose backlog is full is silent. The request that is sent again is new.
func TestBacklog(t *testing.T) {
	world(t, func(t *testing.T, f *fabric, a, b *host) {
		l := b.user(wire.PortSpaceTCP)
		l.full = true
		must(t, l.Bind(at("0.0.0.0:7174")))
		must(t, l.Listen())
		before := b.budget.Used()
		u := a.resolved(wire.PortSpaceTCP, "10.0.0.2:7174")
		must(t, u.Connect(&ConnParams{}))
		synctest.Wait()
		if got := f.messages(); got != "REQ" {
			t.Errorf("messages are %s", got)
		}
		if b.budget.Used() != before {
			t.Error("a dropped request is paid for")
		}
		l.mu.Lock()
		l.full = false
		l.mu.Unlock()
		time.Sleep(4608 * time.Millisecond)
		l.next(ConnectRequest)
	})
}

// If the listener's budget is spent, a request is dropped, and the peer hears nothing.
func TestConnectionQuota(t *testing.T) {
	world(t, func(t *testing.T, f *fabric, a, b *host) {
		b.owner = &Owner{Budget: quota.New(quota.Cost{Memory: idCost.Memory})} // for one ID
		l := b.listening(wire.PortSpaceTCP, "0.0.0.0:7174")
		u := a.resolved(wire.PortSpaceTCP, "10.0.0.2:7174")
		must(t, u.Connect(&ConnParams{}))
		if got := l.names() + f.messages(); got != "REQ" {
			t.Errorf("events and messages are %s", got)
		}
	})
}

// What the peer hears when an ID is destroyed, in each state.
func TestDestroy(t *testing.T) {
	world(t, func(t *testing.T, f *fabric, a, b *host) {
		l := b.listening(wire.PortSpaceTCP, "0.0.0.0:7174")

		u := a.resolved(wire.PortSpaceTCP, "10.0.0.2:7174")
		must(t, u.Connect(&ConnParams{}))
		p := l.child(l.next(ConnectRequest))
		u.Destroy() // before the reply
		if ev := l.next(Rejected); ev.Status != 4 {
			t.Errorf("status is %d, want that of a timeout", ev.Status)
		}
		p.Destroy()
		f.messages()

		u, p = connected(a, l, "10.0.0.2:7174")
		f.messages()
		u.Destroy()
		l.next(Disconnected)
		p.Destroy()
		synctest.Wait()
		if got := f.messages(); got != "DREQ DREP" {
			t.Errorf("messages are %s", got)
		}
		time.Sleep(minute)
		if got := l.names() + u.names(); got != "" {
			t.Errorf("after the end: %s", got)
		}

		l.Destroy()
		u = a.resolved(wire.PortSpaceTCP, "10.0.0.2:7174")
		must(t, u.Connect(&ConnParams{}))
		if ev := u.next(Rejected); ev.Status != 8 {
			t.Errorf("after the listener: %d", ev.Status)
		}
	})
}

// The daemon's end destroys all IDs, and their peers hear of it.
func TestClose(t *testing.T) {
	world(t, func(t *testing.T, f *fabric, a, b *host) {
		l := b.listening(wire.PortSpaceTCP, "0.0.0.0:7174")
		u, _ := connected(a, l, "10.0.0.2:7174")
		b.Close()
		u.next(Disconnected)
		if got := l.names(); got != "" {
			t.Errorf("the closed side hears %s", got)
		}
	})
}

// TimewaitExit comes half a second after the end, once.
func TestTimewait(t *testing.T) {
	world(t, func(t *testing.T, f *fabric, a, b *host) {
		u, p := connected(a, b.listening(wire.PortSpaceTCP, "0.0.0.0:7174"), "10.0.0.2:7174")
		must(t, u.Disconnect())
		must(t, p.Disconnect()) // they cross
		if got := u.names() + " " + p.names(); got != "DISCONNECTED DISCONNECTED" {
			t.Errorf("events are %s", got)
		}
		must(t, u.Disconnect()) // agrees
		must(t, p.Disconnect())
		time.Sleep(minute)
		if got := u.names() + " " + p.names(); got != "TIMEWAIT_EXIT TIMEWAIT_EXIT" {
			t.Errorf("then the events are %s", got)
		}
	})
}

// A DREQ that nobody answers: the program hears that the peer is gone.
func TestDisconnectUnanswered(t *testing.T) {
	world(t, func(t *testing.T, f *fabric, a, b *host) {
		u, _ := connected(a, b.listening(wire.PortSpaceTCP, "0.0.0.0:7174"), "10.0.0.2:7174")
		f.mu.Lock()
		f.lose = func(wire.CMMessage) bool { return true }
		f.mu.Unlock()
		must(t, u.Disconnect())
		time.Sleep(2 * minute)
		synctest.Wait()
		ev := (*u.events)[0]
		if got := u.names(); got != "DISCONNECTED TIMEWAIT_EXIT" || ev.Status != -110 {
			t.Errorf("events are %s, status %d", got, ev.Status)
		}
	})
}

// A lost RTU: the program reports what its queue pair has seen.
func TestNotify(t *testing.T) {
	world(t, func(t *testing.T, f *fabric, a, b *host) {
		f.lose = func(m wire.CMMessage) bool { return m.CMAttribute() == wire.AttrRTU }
		l := b.listening(wire.PortSpaceTCP, "0.0.0.0:7174")
		u := a.resolved(wire.PortSpaceTCP, "10.0.0.2:7174")
		must(t, u.Connect(&ConnParams{}))
		p := l.child(l.next(ConnectRequest))
		must(t, p.Accept(&ConnParams{}))
		u.next(ConnectResponse)
		must(t, u.EstablishActive())
		synctest.Wait()
		must(t, p.Notify(rxe.EventCommEst))
		l.next(Established)
		is(t, p.Notify(rxe.EventCommEst), unix.EISCONN)
	})
}

// Datagrams: a service is looked up, and its queue pair is known.
func TestUD(t *testing.T) {
	world(t, func(t *testing.T, f *fabric, a, b *host) {
		l := b.listening(wire.PortSpaceUDP, "0.0.0.0:7174")
		u := a.resolved(wire.PortSpaceUDP, "10.0.0.2:7174")
		must(t, u.Connect(&ConnParams{PrivateData: []byte("ask"), QPN: 0x11}))
		req := l.next(ConnectRequest)
		if d := req.UD.PrivateData; len(d) != 180 || !bytes.HasPrefix(d, []byte("ask\x00")) {
			t.Errorf("private data of the request is %q", d)
		}
		p := l.child(req)
		must(t, p.Accept(&ConnParams{PrivateData: []byte("answer"), QPN: 0x22}))
		ev := u.next(Established).UD
		if d := ev.PrivateData; len(d) != 136 || !bytes.HasPrefix(d, []byte("answer\x00")) {
			t.Errorf("private data of the reply is %q", d)
		}
		if ev.QPN != 0x22 || ev.QKey != 0x01234567 || ev.AH.DGID.Addr() != netip.MustParseAddr("10.0.0.2") {
			t.Errorf("reply is %+v", ev)
		}
		if got := l.names(); got != "" {
			t.Errorf("the passive side hears %s", got)
		}
		must(t, u.Disconnect())
		must(t, p.Disconnect())
		synctest.Wait()
		if got := f.messages(); got != "SIDR_REQ SIDR_REP" {
			t.Errorf("messages are %s", got)
		}
	})
}

// A service of datagrams that does not exist, and one whose queue key changes.
func TestUDErrors(t *testing.T) {
	world(t, func(t *testing.T, f *fabric, a, b *host) {
		u := a.resolved(wire.PortSpaceUDP, "10.0.0.2:7174")
		must(t, u.Connect(&ConnParams{}))
		if ev := u.next(Unreachable); ev.Status != 1 {
			t.Errorf("status is %d", ev.Status)
		}
		l := b.listening(wire.PortSpaceUDP, "0.0.0.0:7174")
		v := a.resolved(wire.PortSpaceUDP, "10.0.0.2:7174")
		_, _, err := v.QPAttr(rxe.QPInit) // the default key from here on
		must(t, err)
		must(t, v.Connect(&ConnParams{}))
		must(t, l.child(l.next(ConnectRequest)).Accept(&ConnParams{QKey: 0x77}))
		if ev := v.next(AddrError); ev.Status != -22 {
			t.Errorf("status is %d", ev.Status)
		}
	})
}

// Membership of a group: on the network for receivers only, and until the ID leaves.
func TestMulticast(t *testing.T) {
	world(t, func(t *testing.T, f *fabric, a, _ *host) {
		u := a.user(wire.PortSpaceUDP)
		must(t, u.Bind(at("10.0.0.1:0")))
		mc, err := u.Join(at("239.1.1.1:0"), false)
		must(t, err)
		ev := u.next(MulticastJoin)
		if ev.Multicast != mc || ev.UD.QPN != 0xffffff || ev.UD.QKey != 0x01234567 || ev.UD.AH.HopLimit != 64 ||
			ev.UD.AH.DGID.String() != "0000:0000:0000:0000:0000:ffff:ef01:0101" {
			t.Errorf("event is %+v", ev.UD)
		}
		sender, err := u.Join(at("239.1.1.2:0"), true)
		must(t, err)
		sender.Leave() // before its event was handled, or after
		u.names()
		if len(a.net.groups) != 1 || a.net.groups[0] != "239.1.1.1" {
			t.Errorf("groups are %v", a.net.groups)
		}
		mc.Leave()
		mc.Leave()
		if _, err := u.Join(at("239.1.1.3:0"), false); err != nil {
			t.Error(err)
		}
		u.Destroy()
		if len(a.net.groups) != 0 {
			t.Errorf("groups are left: %v", a.net.groups)
		}
	})
}

// A device that goes away: one event for each ID that is bound to it. Wildcard listeners
// stay, and listen on later devices.
func TestDeviceRemoval(t *testing.T) {
	world(t, func(t *testing.T, f *fabric, a, b *host) {
		wild := b.listening(wire.PortSpaceTCP, "0.0.0.0:7174")
		bound := b.listening(wire.PortSpaceTCP, "10.0.0.2:7175")
		u, p := connected(a, wild, "10.0.0.2:7174")
		b.RemoveDevice(b.dev)
		b.RemoveDevice(b.dev)
		bound.next(DeviceRemoval)
		wild.next(DeviceRemoval) // of the connection
		u.next(Disconnected)
		p.wants(StateDeviceRemoval)
		wild.wants(StateListen)
		if bound.Device() != nil {
			t.Error("a removed device is still there")
		}
		is(t, p.Disconnect(), unix.EINVAL)
		is(t, bound.Listen(), unix.EINVAL)
		p.Destroy()
		u.Destroy()

		again := b.f.newPort(3, "10.0.0.3")
		b.add("rxe1", again)
		b.net.index = 3
		connected(a, wild, "10.0.0.3:7174")
		is(t, b.AddDevice(&Device{GUID: guids}), unix.EEXIST)
	})
}

// An address that goes away: no event, as in Linux, and no new connection.
func TestAddressRemoval(t *testing.T) {
	world(t, func(t *testing.T, f *fabric, a, b *host) {
		l := b.listening(wire.PortSpaceTCP, "0.0.0.0:7174")
		u, _ := connected(a, l, "10.0.0.2:7174")
		v := a.resolved(wire.PortSpaceTCP, "10.0.0.2:7174")
		a.port.set(func(p *rocev2.PortInfo) { p.GIDs = []wire.GID{{}, p.GIDs[1]} })
		is(t, v.Connect(&ConnParams{}), unix.EINVAL)
		if got := u.names() + l.names(); got != "" {
			t.Errorf("events are %s", got)
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
				must(t, u.Connect(&ConnParams{QPN: 1}))
				p := l.child(l.next(ConnectRequest))
				must(t, p.Accept(&ConnParams{QPN: 2}))
				u.next(ConnectResponse)
				must(t, u.EstablishActive())
				l.next(Established)
			})
		})
	}
}

// IPv6 with a scope, across hosts. A dual-stack listener hears IPv4, too.
func TestIPv6(t *testing.T) {
	world(t, func(t *testing.T, f *fabric, a, b *host) {
		l := b.listening(wire.PortSpaceTCP, "[::]:7174")
		u := a.user(wire.PortSpaceTCP)
		must(t, u.ResolveAddr(at("[fe80::1%2]:0"), at("[fe80::2%2]:7174"), second))
		u.next(AddrResolved)
		must(t, u.ResolveRoute(second))
		u.next(RouteResolved)
		must(t, u.Connect(&ConnParams{}))
		p := l.child(l.next(ConnectRequest))
		if got := p.RemoteAddr().Addr().String(); got != "fe80::1%2" {
			t.Errorf("the peer is %s", got)
		}
		connected(a, l, "10.0.0.2:7174")
	})
}

// An AF_IB listener takes requests without addresses.
func TestAFIB(t *testing.T) {
	world(t, func(t *testing.T, f *fabric, a, b *host) {
		l := b.user(wire.PortSpaceIB)
		addr := afib(wire.PortSpaceIB)
		addr.AFIB.ServiceID, addr.AFIB.Mask = addr.AFIB.ServiceID|7174, ^uint64(0)
		must(t, l.Bind(addr))
		must(t, l.Listen())
		if addr := l.LocalAddr(); addr.port() != 7174 {
			t.Errorf("it is bound to %v", addr)
		}
		if got := a.user(wire.PortSpaceIB).Bind(afib(wire.PortSpaceIB)); got != nil {
			t.Error(got)
		}
	})
}

// The IDs and the counters say what there is.
func TestStatus(t *testing.T) {
	world(t, func(t *testing.T, f *fabric, a, b *host) {
		l := b.listening(wire.PortSpaceTCP, "0.0.0.0:7174")
		_, p := connected(a, l, "10.0.0.2:7174")
		if len(b.ids) != 2 || l.State() != StateListen || p.State() != StateConnect || p.Device().Name != "rxe0" || p.qpn != 0x22 ||
			l.owner != b.owner || p.RemoteAddr().Addr().String() != "10.0.0.1" {
			t.Errorf("%d ids, the connection is %+v", len(b.ids), p.ID)
		}
		if c := a.dev.Counters(); c.TxMsgs.Of(wire.AttrREQ) != 1 {
			t.Errorf("counters are %+v", c)
		}
	})
}

// SetPath takes the place of ResolveRoute.
func TestSetPath(t *testing.T) {
	world(t, func(t *testing.T, f *fabric, a, b *host) {
		l := b.listening(wire.PortSpaceTCP, "0.0.0.0:7174")
		path := a.resolved(wire.PortSpaceTCP, "10.0.0.2:7174").Paths()[0]
		u := a.user(wire.PortSpaceTCP)
		must(t, u.ResolveAddr(Addr{}, at("10.0.0.2:7174"), second))
		u.next(AddrResolved)
		path.MTU = 1
		must(t, u.SetPath(path))
		u.next(RouteResolved)
		must(t, u.Connect(&ConnParams{}))
		if p := l.child(l.next(ConnectRequest)).Paths(); p[0].MTU != 1 {
			t.Errorf("the passive path is %+v", p[0])
		}
	})
}
