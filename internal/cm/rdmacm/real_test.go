package rdmacm

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/cm"
	"github.com/gorxe/gorxe/internal/engine"
	"github.com/gorxe/gorxe/internal/mgmt/gsi"
	"github.com/gorxe/gorxe/internal/test/must"
	"github.com/gorxe/gorxe/internal/test/netns"
	"github.com/gorxe/gorxe/internal/test/testenv"
	"github.com/gorxe/gorxe/rocev2"
	"github.com/gorxe/gorxe/rxe"
	"github.com/gorxe/gorxe/wire"
)

// The tests here use running devices, the kernel's routes and real time, in a network
// namespace of their own.

// timeout only ends a test that would otherwise hang.
const timeout = time.Minute

// realHost is a Manager with a running device.
type realHost struct {
	*Manager
	dev    *rxe.Device
	port   *rocev2.Port
	mux    *gsi.Mux
	device *Device
}

func newRealHost(t *testing.T, ns *netns.Host, cfg engine.Config) *realHost {
	t.Helper()
	return newRealHostLimited(t, ns, cfg, cm.Limits{})
}

func newRealHostLimited(t *testing.T, ns *netns.Host, cfg engine.Config, limits cm.Limits) *realHost {
	t.Helper()
	mux := gsi.New(gsi.Config{})
	cfg.Name, cfg.GSI = "rxe0", mux
	var m *Manager
	var e *engine.Engine
	must.OK(t, ns.Do(func() (err error) {
		if m, err = Open(nil); err == nil {
			e, err = engine.Start(cfg)
		}
		return err
	}))
	m.limits = limits
	mux.Start(e.Device())
	d := &Device{Name: "rxe0", GUID: cfg.GUID(), Mux: mux, Net: e.Port().Info}
	if err := m.AddDevice(d); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		m.Close()
		mux.Close()
		e.Close()
	})
	return &realHost{m, e.Device(), e.Port(), mux, d}
}

// newNamespace makes a network namespace.
func newNamespace(t *testing.T) *netns.Host {
	t.Helper()
	ns, err := netns.New()
	if err != nil {
		testenv.Missing(t, "%v", err)
	}
	t.Cleanup(ns.Close)
	return ns
}

// program is a program's end of an ID.
type program struct {
	*ID
	t      *testing.T
	events chan *Event
}

func (h *realHost) program(t *testing.T) *program {
	t.Helper()
	p := &program{t: t, events: make(chan *Event, 16)}
	id, err := h.NewID(&Owner{}, wire.PortSpaceTCP, rxe.QPRC, p.handle)
	if err != nil {
		t.Fatal(err)
	}
	p.ID = id
	return p
}

func (p *program) handle(ev *Event) bool {
	if ev.Child != nil {
		ev.Child.SetHandler(p.handle)
	}
	p.events <- ev
	return true
}

func (p *program) next(kind EventKind) *Event {
	p.t.Helper()
	select {
	case ev := <-p.events:
		if ev.Kind != kind {
			p.t.Fatalf("event is %v, status %d; want %v", ev.Kind, ev.Status, kind)
		}
		return ev
	case <-time.After(timeout):
		p.t.Fatalf("no %v", kind)
		return nil
	}
}

// pair is a queue pair with what belongs to it.
type pair struct {
	*rxe.QP
	cq *rxe.CQ
}

func newPair(t *testing.T, dev *rxe.Device) pair {
	t.Helper()
	pd, err := dev.AllocPD()
	must.OK(t, err)
	cq, err := dev.CreateCQ(rxe.CQInit{Entries: 16})
	must.OK(t, err)
	qp, err := pd.CreateQP(rxe.QPInitAttr{Type: rxe.QPRC, SendCQ: cq, RecvCQ: cq, SignalAll: true,
		Cap: rxe.QPCap{MaxSendWR: 4, MaxRecvWR: 4, MaxSendSGE: 1, MaxRecvSGE: 1, MaxInlineData: 64}})
	must.OK(t, err)
	return pair{qp, cq}
}

// modify takes the queue pair through states as librdmacm does.
func (p pair) modify(t *testing.T, id *ID, states ...rxe.QPState) {
	t.Helper()
	for _, s := range states {
		attr, mask, err := id.QPAttr(s)
		must.OK(t, err)
		must.OK(t, p.Modify(&attr, mask))
	}
}

// TestRealDevice: two programs connect on one device, and a message passes.
func TestRealDevice(t *testing.T) {
	h := newRealHost(t, newNamespace(t), engine.Config{Address: netip.MustParseAddr("127.0.0.1")})
	for _, addr := range []string{"127.0.0.1:7180", "0.0.0.0:7181"} {
		server, client := h.program(t), h.program(t)
		must.OK(t, server.Bind(at(addr)))
		must.OK(t, server.Listen())

		must.OK(t, client.ResolveAddr(Addr{}, at(addr), timeout))
		client.next(AddrResolved)
		must.OK(t, client.ResolveRoute(timeout))
		client.next(RouteResolved)
		active := newPair(t, h.dev)
		active.modify(t, client.ID, rxe.QPInit)
		must.OK(t, client.Connect(&ConnParams{QPN: active.Num(), RetryCount: 7, RNRRetryCount: 7}))

		accepted := server.next(ConnectRequest).Child
		passive := newPair(t, h.dev)
		passive.modify(t, accepted, rxe.QPInit, rxe.QPRTR, rxe.QPRTS)
		_, err := passive.PostRecv([]rxe.RecvWR{{ID: 7}})
		must.OK(t, err)
		must.OK(t, accepted.Accept(&ConnParams{QPN: passive.Num()}))
		client.next(ConnectResponse)
		active.modify(t, client.ID, rxe.QPInit, rxe.QPRTR, rxe.QPRTS)
		must.OK(t, client.EstablishActive())
		server.next(Established)

		_, err = active.PostSend([]rxe.SendWR{{ID: 8, Op: rxe.WRSend}})
		must.OK(t, err)
		for _, cq := range []*rxe.CQ{passive.cq, active.cq} {
			if wc := completion(t, cq); wc.Status != rxe.WCSuccess {
				t.Errorf("completion is %v", wc.Status)
			}
		}
		must.OK(t, accepted.Disconnect())
		client.next(Disconnected)
		client.Destroy() // sends the DREP
		server.next(Disconnected)
		server.next(TimewaitExit)
		accepted.Destroy()
		server.Destroy()
	}
}

// TestRealNetwork: programs on two hosts connect over IPv4 and IPv6, and on one of them by
// names for this host. The hosts' routes and neighbors decide.
func TestRealNetwork(t *testing.T) {
	nsA, nsB := newNamespace(t), newNamespace(t)
	must.OK(t, netns.Link(nsA, nsB, 1500))
	for i, ns := range []*netns.Host{nsA, nsB} {
		for _, c := range []string{"link set eth0 addrgenmode none", "link set eth0 up",
			fmt.Sprintf("addr add 10.7.0.%d/24 dev eth0", i+1), fmt.Sprintf("addr add fe80::%d/64 dev eth0 nodad", i+1),
			fmt.Sprintf("addr add 2001:db8::%d/64 dev eth0 nodad", i+1)} {
			must.OK(t, ns.IP(c))
		}
	}
	a := newRealHost(t, nsA, engine.Config{Interface: "eth0"})
	b := newRealHost(t, nsB, engine.Config{Interface: "eth0"})
	index := a.port.Info().Index
	for _, c := range []struct {
		server       *realHost
		listen, dial string
		from         string
	}{
		{b, "0.0.0.0:7180", "10.7.0.2:7180", "10.7.0.1"},
		{b, "[2001:db8::2]:7181", "[2001:db8::2]:7181", "2001:db8::1"},
		{b, "[::]:7182", fmt.Sprintf("[fe80::2%%%d]:7182", index), fmt.Sprintf("fe80::1%%%d", b.port.Info().Index)},
		{a, "127.0.0.1:7183", "127.0.0.1:7183", "10.7.0.1"},
		{a, "[::1]:7184", "[::1]:7184", "2001:db8::1"},
		{a, "10.7.0.1:7185", "10.7.0.1:7185", "10.7.0.1"},
	} {
		server, client := c.server.program(t), a.program(t)
		must.OK(t, server.Bind(at(c.listen)))
		must.OK(t, server.Listen())
		must.OK(t, client.ResolveAddr(Addr{}, at(c.dial), timeout))
		client.next(AddrResolved)
		must.OK(t, client.ResolveRoute(timeout))
		client.next(RouteResolved)
		must.OK(t, client.Connect(&ConnParams{QPN: 1}))
		accepted := server.next(ConnectRequest).Child
		if got := accepted.RemoteAddr().Addr().String(); got != c.from {
			t.Errorf("%s: the peer is %s, want %s", c.dial, got, c.from)
		}
		must.OK(t, accepted.Accept(&ConnParams{QPN: 2}))
		client.next(ConnectResponse)
		must.OK(t, client.EstablishActive())
		server.next(Established)
		client.Destroy()
		server.next(Disconnected)
		accepted.Destroy()
		server.Destroy()
	}

	client := a.program(t)
	must.OK(t, client.ResolveAddr(Addr{}, at("10.7.0.77:1"), 100*time.Millisecond)) // nobody has it
	if ev := client.next(AddrError); ev.Status != -int32(unix.ETIMEDOUT) {
		t.Errorf("status is %d", ev.Status)
	}
	is(t, client.ResolveAddr(Addr{}, at("10.99.0.1:1"), timeout), unix.ENETUNREACH)
	is(t, a.program(t).Bind(at("10.7.0.2:0")), unix.EADDRNOTAVAIL)
	is(t, a.program(t).Bind(at("[fe80::1]:0")), unix.EINVAL)
}
