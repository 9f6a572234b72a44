package rdmacm

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gorxe/gorxe/internal/cm"
	"github.com/gorxe/gorxe/internal/engine"
	"github.com/gorxe/gorxe/internal/test/must"
	"github.com/gorxe/gorxe/internal/test/netns"
	"github.com/gorxe/gorxe/rxe"
	"github.com/gorxe/gorxe/wire"
)

// forger sends REQs of peers that do not exist, from all addresses of its host. Half of
// them come from the first address. It sends as fast as the target's port receives: what the
// kernel's socket drops says nothing of the connection manager.
type forger struct {
	host    *realHost
	target  *realHost
	sources []netip.Addr
	sent    atomic.Uint64
	stop    chan struct{}
	done    sync.WaitGroup
}

// pause is between two looks at what another goroutine does.
const pause = 20 * time.Microsecond

// inFlight is how many datagrams a socket buffer holds with certainty.
const inFlight = 64

// received returns how many management datagrams have come.
func (h *realHost) received() uint64 {
	for _, c := range h.mux.Counters() {
		if c.Name == "mad_rcvd" {
			return c.Value
		}
	}
	panic("the counter mad_rcvd does not exist")
}

func (f *forger) run(t *testing.T, dst netip.AddrPort) {
	defer f.done.Done()
	for i := 0; ; i++ {
		select {
		case <-f.stop:
			return
		default:
		}
		if f.sent.Load() > f.target.received()+inFlight {
			time.Sleep(pause)
			continue
		}
		source := 0
		if i%2 == 0 {
			source = rand.IntN(len(f.sources))
		}
		index, ok := f.host.dev.GIDIndex(wire.GIDFromAddr(f.sources[source]))
		if !ok {
			t.Errorf("the device does not have %v", f.sources[source])
			return
		}
		mad := forgedREQ(f.sources[source], dst)
		to := rxe.AHAttr{DGID: wire.GIDFromAddr(dst.Addr()), SGIDIndex: uint8(index), PortNum: 1}
		if err := f.host.mux.Send(to, wire.GSIQPN, mad); err != nil {
			t.Error(err)
			return
		}
		f.sent.Add(1)
	}
}

func forgedREQ(src netip.Addr, dst netip.AddrPort) *wire.MAD {
	mad := new(wire.MAD)
	req := mad.InitREQ(rand.Uint64())
	req.SetLocalCommID(rand.Uint32())
	req.SetCAGUID(rand.Uint64())
	req.SetQPN(wire.QPN(rand.Uint32()) & wire.QPNMask)
	req.SetServiceID(wire.ServiceID(wire.PortSpaceTCP, dst.Port()))
	req.SetRemoteCMTimeout(20)
	req.SetLocalCMTimeout(20)
	req.SetMaxCMRetries(15)
	req.SetPathMTU(3)
	req.SetPrimaryPath(&wire.CMPath{LocalGID: wire.GIDFromAddr(src), RemoteGID: wire.GIDFromAddr(dst.Addr()), HopLimit: 64, LocalACKTimeout: 17})
	(&wire.IPCMHeader{Src: src, Dst: dst.Addr(), SrcPort: uint16(rand.Uint32())}).Put(req.PrivateData())
	return mad
}

// hasty is a program that accepts whatever asks, as fast as it can.
type hasty struct {
	requests chan *ID // the backlog
	mu       sync.Mutex
	children []*ID
	full     atomic.Uint64
}

func (p *hasty) handle(ev *Event) bool {
	if ev.Child == nil {
		return true
	}
	ev.Child.SetHandler(p.handle)
	select {
	case p.requests <- ev.Child:
		return true
	default:
		p.full.Add(1)
		return false
	}
}

func (p *hasty) run(stop chan struct{}) {
	for {
		select {
		case <-stop:
			return
		case id := <-p.requests:
			id.Accept(&ConnParams{QPN: 0x22}) //nolint:errcheck // its peer may have taken the request back
			p.mu.Lock()
			p.children = append(p.children, id)
			p.mu.Unlock()
		}
	}
}

// link is an established connection with the queue pairs of both ends.
type link struct {
	client, server  *program
	active, passive pair
	accepted        *ID
	sequence        uint32
}

// newLink connects two hosts.
func newLink(t *testing.T, a, b *realHost, addr string) *link {
	t.Helper()
	l := &link{client: b.program(t), server: a.program(t), active: newPair(t, b.dev), passive: newPair(t, a.dev)}
	must.OK(t, l.server.Bind(at(addr)))
	must.OK(t, l.server.Listen())
	must.OK(t, l.client.ResolveAddr(Addr{}, at(addr), timeout))
	l.client.next(AddrResolved)
	must.OK(t, l.client.ResolveRoute(timeout))
	l.client.next(RouteResolved)
	l.active.modify(t, l.client.ID, rxe.QPInit)
	must.OK(t, l.client.Connect(&ConnParams{QPN: l.active.Num(), RetryCount: 7, RNRRetryCount: 7}))
	l.accepted = l.server.next(ConnectRequest).Child
	l.passive.modify(t, l.accepted, rxe.QPInit, rxe.QPRTR, rxe.QPRTS)
	must.OK(t, l.accepted.Accept(&ConnParams{QPN: l.passive.Num()}))
	l.client.next(ConnectResponse)
	l.active.modify(t, l.client.ID, rxe.QPInit, rxe.QPRTR, rxe.QPRTS)
	must.OK(t, l.client.EstablishActive())
	l.server.next(Established)
	return l
}

// exchange sends numbered messages, and checks that they arrive in order.
func (l *link) exchange(t *testing.T, n int) {
	t.Helper()
	for range n {
		_, err := l.passive.PostRecv([]rxe.RecvWR{{ID: 7}})
		must.OK(t, err)
		l.sequence++
		_, err = l.active.PostSend([]rxe.SendWR{{ID: 8, Op: rxe.WRSendImm, Imm: l.sequence}})
		must.OK(t, err)
		for _, cq := range []*rxe.CQ{l.passive.cq, l.active.cq} {
			wc := completion(t, cq)
			if wc.Status != rxe.WCSuccess || cq == l.passive.cq && wc.Imm != l.sequence {
				t.Fatalf("message %d: %+v", l.sequence, wc)
			}
		}
	}
}

func completion(t *testing.T, cq *rxe.CQ) rxe.WC {
	t.Helper()
	var wc [1]rxe.WC
	must.Eventually(t, "a completion comes", func() bool {
		n, _ := cq.Poll(wc[:])
		return n > 0
	})
	return wc[0]
}

// TestFlood: a flood of REQs from forged sources to a listener whose program accepts all
// of them. Connections exchange messages and end. The memory of half-open connections is
// bounded, and the counters say which requests were dropped.
func TestFlood(t *testing.T) {
	const sources = 20
	limits := cm.Limits{PerRequester: 8, PerListener: 32}
	nsA, nsB := newNamespace(t), newNamespace(t)
	must.OK(t, netns.Cable(nsA, nsB, 1500, netip.MustParsePrefix("10.7.0.1/24"), netip.MustParsePrefix("10.7.0.2/24")))
	f := &forger{stop: make(chan struct{})}
	for i := range sources {
		addr := netip.AddrFrom4([4]byte{10, 7, 0, byte(100 + i)})
		must.OK(t, nsB.IP(fmt.Sprintf("addr add %v/24 dev eth0", addr)))
		f.sources = append(f.sources, addr)
	}
	a := newRealHostLimited(t, nsA, engine.Config{Interface: "eth0"}, limits)
	b := newRealHost(t, nsB, engine.Config{Interface: "eth0"})
	f.host, f.target = b, a
	stays, ends := newLink(t, a, b, "10.7.0.1:7180"), newLink(t, a, b, "10.7.0.1:7181")

	victim := &hasty{requests: make(chan *ID, 8)}
	l, err := a.NewID(&Owner{}, wire.PortSpaceTCP, rxe.QPRC, victim.handle)
	must.OK(t, err)
	must.OK(t, l.Bind(at("10.7.0.1:7182")))
	must.OK(t, l.Listen())
	f.done.Add(1)
	go f.run(t, netip.MustParseAddrPort("10.7.0.1:7182"))
	f.done.Go(func() { victim.run(f.stop) })
	dropped := func() uint64 {
		c := a.device.Counters()
		return c.OverListener + c.OverPeer
	}
	must.Eventually(t, "200 REQs are dropped", func() bool { return dropped() >= 200 })
	stays.exchange(t, 200)
	must.OK(t, ends.client.Disconnect())
	ends.server.next(Disconnected)
	must.OK(t, ends.accepted.Disconnect())
	ends.client.next(Disconnected)
	stays.exchange(t, 100)

	c := a.device.Counters()
	if c.OverListener == 0 || c.OverPeer == 0 {
		t.Errorf("dropped for the listener %d, for a peer %d", c.OverListener, c.OverPeer)
	}
	u := a.Usage()
	if most := limits.PerListener; u.CM.HalfOpen > most || u.CM.Conns > most+2 || u.IDs > most+2*2+1 {
		t.Errorf("remembered: %+v", u)
	}
	close(f.stop)
	f.done.Wait()
	l.Destroy()
	for _, id := range victim.children {
		id.Destroy()
	}
	if c := a.device.Counters(); victim.full.Load() != c.OverBacklog {
		t.Errorf("the program dropped %d requests, %d were counted", victim.full.Load(), c.OverBacklog)
	}
}
