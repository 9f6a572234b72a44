package rdmacm

import (
	"bytes"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/quota"
	"github.com/gorxe/gorxe/internal/test/must"
	"github.com/gorxe/gorxe/rxe"
	"github.com/gorxe/gorxe/wire"
)

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
			must.OK(b.t, l.SetAFOnly(true))
			must.OK(b.t, l.Bind(at("[::]:7174")))
			must.OK(b.t, l.Listen())
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
				must.OK(t, u.Connect(&ConnParams{}))
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
		must.OK(t, u.Connect(&ConnParams{}))
		must.OK(t, l.child(l.next(ConnectRequest)).Reject(28, []byte("no")))
		ev := u.next(Rejected)
		if len(ev.Conn.PrivateData) != 148 || !bytes.HasPrefix(ev.Conn.PrivateData, []byte("no\x00")) {
			t.Errorf("private data is %q", ev.Conn.PrivateData)
		}
		must.OK(t, u.Disconnect()) // has no effect
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
		must.OK(t, l.Bind(at("0.0.0.0:7174")))
		must.OK(t, l.Listen())
		before := b.budget.Used()
		u := a.resolved(wire.PortSpaceTCP, "10.0.0.2:7174")
		must.OK(t, u.Connect(&ConnParams{}))
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
		must.OK(t, u.Connect(&ConnParams{}))
		if got := l.names() + f.messages(); got != "REQ" {
			t.Errorf("events and messages are %s", got)
		}
	})
}

// An AF_IB listener takes requests without addresses.
func TestAFIB(t *testing.T) {
	world(t, func(t *testing.T, f *fabric, a, b *host) {
		l := b.user(wire.PortSpaceIB)
		addr := afib(wire.PortSpaceIB)
		addr.AFIB.ServiceID, addr.AFIB.Mask = addr.AFIB.ServiceID|7174, ^uint64(0)
		must.OK(t, l.Bind(addr))
		must.OK(t, l.Listen())
		if addr := l.LocalAddr(); addr.port() != 7174 {
			t.Errorf("it is bound to %v", addr)
		}
		if got := a.user(wire.PortSpaceIB).Bind(afib(wire.PortSpaceIB)); got != nil {
			t.Error(got)
		}
	})
}

// TestXRCListener: a target takes the request of an initiator, and another initiator does not
// (cma_ib_check_req_qp_type).
func TestXRCListener(t *testing.T) {
	world(t, func(t *testing.T, f *fabric, a, b *host) {
		for typ, want := range map[rxe.QPType]EventKind{rxe.QPXRCTgt: ConnectResponse, rxe.QPXRCIni: Rejected} {
			l := b.userOf(wire.PortSpaceIB, typ)
			must.OK(t, l.Bind(at("10.0.0.2:7174")))
			must.OK(t, l.Listen())
			u := a.userOf(wire.PortSpaceIB, rxe.QPXRCIni)
			must.OK(t, u.ResolveAddr(Addr{}, at("10.0.0.2:7174"), second))
			u.next(AddrResolved)
			must.OK(t, u.ResolveRoute(second))
			u.next(RouteResolved)
			must.OK(t, u.Connect(&ConnParams{QPN: 0x11, RetryCount: 7, RNRRetryCount: 7, ResponderResources: 1, InitiatorDepth: 2}))
			if want == ConnectResponse {
				p := l.child(l.next(ConnectRequest))
				if p.QPType() != rxe.QPXRCTgt {
					t.Errorf("the request is for a queue pair of type %v", p.QPType())
				}
				must.OK(t, p.Accept(&ConnParams{QPN: 0x22, ResponderResources: 2}))
			}
			ev := u.next(want)
			if want == ConnectResponse && ev.Conn.QPN != 0x22 || want == Rejected && ev.Status != 28 {
				t.Errorf("a listener of type %v: %+v", typ, ev)
			}
			u.Destroy()
			l.Destroy()
		}
	})
}
