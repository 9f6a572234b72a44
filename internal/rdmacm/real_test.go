package rdmacm

import (
	"net/netip"
	"testing"
	"time"

	"github.com/gorxe/gorxe/internal/engine"
	"github.com/gorxe/gorxe/internal/gsi"
	"github.com/gorxe/gorxe/internal/route"
	"github.com/gorxe/gorxe/internal/test/netns"
	"github.com/gorxe/gorxe/internal/test/testenv"
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
	dev *rxe.Device
}

func newRealHost(t *testing.T, ns *netns.Host, cfg engine.Config) *realHost {
	t.Helper()
	mux := gsi.New(gsi.Config{})
	cfg.Name, cfg.GSI = "rxe0", mux
	var resolver *route.Resolver
	var e *engine.Engine
	must(t, ns.Do(func() (err error) {
		if resolver, err = route.New(); err == nil {
			e, err = engine.Start(cfg)
		}
		return err
	}))
	t.Cleanup(resolver.Close)
	m := New(Config{Resolver: resolver})
	mux.Start(e.Device())
	if err := m.AddDevice(&Device{Name: "rxe0", GUID: cfg.GUID(), Mux: mux, Net: e.Port().Info}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		m.Close()
		mux.Close()
		e.Close()
	})
	return &realHost{m, e.Device()}
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
	must(t, err)
	cq, err := dev.CreateCQ(rxe.CQInit{Entries: 16})
	must(t, err)
	qp, err := pd.CreateQP(rxe.QPInitAttr{Type: rxe.QPRC, SendCQ: cq, RecvCQ: cq, SignalAll: true,
		Cap: rxe.QPCap{MaxSendWR: 4, MaxRecvWR: 4, MaxSendSGE: 1, MaxRecvSGE: 1, MaxInlineData: 64}})
	must(t, err)
	return pair{qp, cq}
}

// modify takes the queue pair through states as librdmacm does.
func (p pair) modify(t *testing.T, id *ID, states ...rxe.QPState) {
	t.Helper()
	for _, s := range states {
		attr, mask, err := id.QPAttr(s)
		must(t, err)
		must(t, p.Modify(&attr, mask))
	}
}

// TestRealDevice: two programs connect on one device, and a message passes.
func TestRealDevice(t *testing.T) {
	h := newRealHost(t, newNamespace(t), engine.Config{Address: netip.MustParseAddr("127.0.0.1")})
	for _, addr := range []string{"127.0.0.1:7180", "0.0.0.0:7181"} {
		server, client := h.program(t), h.program(t)
		must(t, server.Bind(at(addr)))
		must(t, server.Listen())

		must(t, client.ResolveAddr(Addr{}, at(addr), timeout))
		client.next(AddrResolved)
		must(t, client.ResolveRoute(timeout))
		client.next(RouteResolved)
		active := newPair(t, h.dev)
		active.modify(t, client.ID, rxe.QPInit)
		must(t, client.Connect(&ConnParams{QPN: active.Num(), RetryCount: 7, RNRRetryCount: 7}))

		accepted := server.next(ConnectRequest).Child
		passive := newPair(t, h.dev)
		passive.modify(t, accepted, rxe.QPInit, rxe.QPRTR, rxe.QPRTS)
		_, err := passive.PostRecv([]rxe.RecvWR{{ID: 7}})
		must(t, err)
		must(t, accepted.Accept(&ConnParams{QPN: passive.Num()}))
		client.next(ConnectResponse)
		active.modify(t, client.ID, rxe.QPInit, rxe.QPRTR, rxe.QPRTS)
		must(t, client.EstablishActive())
		server.next(Established)

		_, err = active.PostSend([]rxe.SendWR{{ID: 8, Op: rxe.WRSend}})
		must(t, err)
		for _, cq := range []*rxe.CQ{passive.cq, active.cq} {
			var wc [1]rxe.WC
			for start, n := time.Now(), 0; n == 0; n, _ = cq.Poll(wc[:]) {
				if time.Since(start) > timeout {
					t.Fatal("no completion")
				}
			}
			if wc[0].Status != rxe.WCSuccess {
				t.Errorf("completion is %v", wc[0].Status)
			}
		}
		must(t, accepted.Disconnect())
		client.next(Disconnected)
		client.Destroy() // sends the DREP
		server.next(Disconnected)
		server.next(TimewaitExit)
		accepted.Destroy()
		server.Destroy()
	}
}
