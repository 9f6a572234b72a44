package rdmacm

import (
	"io"
	"net/netip"
	"testing"
	"testing/synctest"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/cm/route"
	"github.com/gorxe/gorxe/internal/test/must"
	"github.com/gorxe/gorxe/wire"
)

// slowNetwork is a network whose kernel does not answer until the test lets it.
type slowNetwork struct {
	*network
	slow map[netip.Addr]bool // of these addresses
	gate chan struct{}
}

func (n *slowNetwork) wait(ip netip.Addr) {
	if n.slow[ip.WithZone("")] {
		<-n.gate
	}
}

func (n *slowNetwork) Route(q route.Query) (route.Route, error) {
	n.wait(q.Dst)
	return n.network.Route(q)
}

func (n *slowNetwork) Neighbor(r route.Route, done func()) (bool, func()) {
	n.wait(r.Src)
	return n.network.Neighbor(r, done)
}

func (n *slowNetwork) Local(ip netip.Addr) bool {
	n.wait(ip)
	return n.network.Local(ip)
}

func (n *slowNetwork) Join(index int, group netip.Addr) (io.Closer, error) {
	n.wait(group)
	return n.network.Join(index, group)
}

// slowHost returns a host whose kernel does not answer questions about some addresses.
func slowHost(t *testing.T, f *fabric, addr string, slow ...string) (*host, *slowNetwork) {
	h := newHost(t, f, addr)
	n := &slowNetwork{network: h.net, slow: make(map[netip.Addr]bool), gate: make(chan struct{})}
	for _, a := range slow {
		n.slow[netip.MustParseAddr(a)] = true
	}
	h.resolver = &openResolver{Resolver: n}
	return h, n
}

// TestSlowKernel: a call for which the kernel takes its time holds up no other ID.
func TestSlowKernel(t *testing.T) {
	for _, c := range []struct {
		name string
		call func(u *user) error
	}{
		{"ResolveAddr", func(u *user) error { return u.ResolveAddr(Addr{}, at("10.0.0.99:7174"), second) }},
		{"Bind", func(u *user) error { return u.Bind(at("10.0.0.99:7174")) }},
		{"Join", func(u *user) error { _, err := u.Join(at("239.0.0.99:0"), false); return err }},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *fabric) {
				a, network := slowHost(t, f, "10.0.0.1", "10.0.0.99", "239.0.0.99")
				b := newHost(t, f, "10.0.0.2")
				defer a.close()
				defer b.close()
				slow := a.user(wire.PortSpaceUDP)
				if c.name == "Join" {
					must.OK(t, slow.Bind(at("10.0.0.1:0")))
				}
				returned := make(chan error, 1)
				go func() { returned <- c.call(slow) }()
				synctest.Wait() // it waits for the kernel
				l := b.listening(wire.PortSpaceTCP, "10.0.0.2:7174")
				active, passive := connected(a, l, "10.0.0.2:7174")
				must.OK(t, passive.Disconnect())
				active.next(Disconnected)
				select {
				case err := <-returned:
					t.Errorf("%s returned %v before the kernel did", c.name, err)
				default:
				}
				close(network.gate)
				if err := <-returned; err != nil && c.name != "Bind" {
					t.Error(err)
				}
			})
		})
	}
}

// TestSlowWayBack: a request whose way back the kernel does not know yet holds up no other
// one. Its listener gets it later.
func TestSlowWayBack(t *testing.T) {
	bubble(t, func(t *testing.T, f *fabric) {
		b, network := slowHost(t, f, "10.0.0.2", "10.0.0.1")
		a := newHost(t, f, "10.0.0.1")
		c := newHost(t, f, "10.0.0.3")
		for _, h := range []*host{a, b, c} {
			defer h.close()
		}
		l, other := b.listening(wire.PortSpaceTCP, "10.0.0.2:7174"), c.listening(wire.PortSpaceTCP, "10.0.0.3:7174")
		slow := a.resolved(wire.PortSpaceTCP, "10.0.0.2:7174")
		must.OK(t, slow.Connect(&ConnParams{QPN: 1}))
		synctest.Wait()
		connected(b, other, "10.0.0.3:7174")
		if s := l.names(); s != "" {
			t.Errorf("events before the kernel has answered: %s", s)
		}
		close(network.gate)
		l.next(ConnectRequest)
	})
}

// TestGoneMeanwhile: an ID whose device goes, or that is destroyed, while the kernel is asked.
func TestGoneMeanwhile(t *testing.T) {
	for name, gone := range map[string]func(h *host, u *user){
		"removal": func(h *host, _ *user) { h.RemoveDevice(h.dev) },
		"destroy": func(_ *host, u *user) { u.Destroy() },
	} {
		for call, do := range map[string]func(u *user) error{
			"ResolveAddr": func(u *user) error { return u.ResolveAddr(Addr{}, at("10.0.0.99:7174"), second) },
			"Join":        func(u *user) error { _, err := u.Join(at("239.0.0.99:0"), false); return err },
		} {
			t.Run(call+"/"+name, func(t *testing.T) {
				bubble(t, func(t *testing.T, f *fabric) {
					h, network := slowHost(t, f, "10.0.0.1", "10.0.0.99", "239.0.0.99")
					defer h.close()
					u := h.user(wire.PortSpaceUDP)
					must.OK(t, u.Bind(at("10.0.0.1:0")))
					returned := make(chan error, 1)
					go func() { returned <- do(u) }()
					synctest.Wait()
					gone(h, u)
					close(network.gate)
					is(t, <-returned, unix.ENODEV)
					if h.net.mu.Lock(); len(h.net.groups) != 0 || len(h.net.waiting) != 0 {
						t.Errorf("left: groups %v, neighbors %v", h.net.groups, h.net.waiting)
					}
					h.net.mu.Unlock()
					if s := u.names(); s == AddrResolved.String() {
						t.Error("the address was resolved")
					}
				})
			})
		}
	}
}

// TestCloseMeanwhile: Close waits for the kernel's answers, after which nobody asks.
func TestCloseMeanwhile(t *testing.T) {
	bubble(t, func(t *testing.T, f *fabric) {
		h, network := slowHost(t, f, "10.0.0.1", "10.0.0.99")
		ended := make(chan struct{})
		h.resolver.end = func() { close(ended) }
		u := h.user(wire.PortSpaceTCP)
		returned := make(chan error, 1)
		go func() { returned <- u.ResolveAddr(Addr{}, at("10.0.0.99:7174"), second) }()
		synctest.Wait()
		go h.close()
		synctest.Wait()
		select {
		case <-ended:
			t.Error("the resolver was closed while it was asked")
		default:
		}
		close(network.gate)
		is(t, <-returned, unix.ENODEV)
		<-ended
		if _, err := h.resolver.Route(route.Query{}); err != unix.ESHUTDOWN {
			t.Errorf("Route after Close: %v", err)
		}
		if _, err := h.resolver.Join(0, netip.Addr{}); err != unix.ESHUTDOWN {
			t.Errorf("Join after Close: %v", err)
		}
		if known, cancel := h.resolver.Neighbor(route.Route{}, nil); known || h.resolver.Local(netip.Addr{}) {
			t.Error("a closed resolver knows something")
		} else {
			cancel()
		}
	})
}
