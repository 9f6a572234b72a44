package rdmacm

import (
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/test/must"
	"github.com/gorxe/gorxe/wire"
)

// TestDestinationMoved: an ID whose route is resolved hears that its destination has another
// link-layer address. Its connection goes on. The passive side hears nothing, as in Linux.
func TestDestinationMoved(t *testing.T) {
	world(t, func(t *testing.T, _ *fabric, a, b *host) {
		l := b.listening(wire.PortSpaceTCP, "0.0.0.0:7174")
		u, p := connected(a, l, "10.0.0.2:7174")
		if !a.net.move("10.0.0.2") {
			t.Fatal("the destination is not followed")
		}
		if ev := u.next(Unreachable); ev.Status != -int32(unix.ETIMEDOUT) {
			t.Errorf("status is %d", ev.Status)
		}
		u.wants(StateConnect)
		if b.net.move("10.0.0.1") {
			t.Error("the passive side follows its peer")
		}
		must.OK(t, u.Disconnect())
		p.next(Disconnected)
		must.OK(t, p.Disconnect())
		u.next(Disconnected)
		u.Destroy()
		if a.net.move("10.0.0.2") {
			t.Error("a destroyed ID follows its peer")
		}
		p.Destroy()
	})
}

// TestMovedTooEarly: the kernel follows a destination from rdma_resolve_route on.
func TestMovedTooEarly(t *testing.T) {
	world(t, func(t *testing.T, _ *fabric, a, _ *host) {
		u := a.user(wire.PortSpaceTCP)
		must.OK(t, u.ResolveAddr(Addr{}, at("10.0.0.2:7174"), second))
		u.next(AddrResolved)
		a.net.move("10.0.0.2")
		if got := u.names(); got != "" {
			t.Errorf("the events are %s", got)
		}
		must.OK(t, u.ResolveRoute(second))
		u.next(RouteResolved)
		a.net.move("10.0.0.2")
		u.next(Unreachable)
		u.Destroy()
	})
}
