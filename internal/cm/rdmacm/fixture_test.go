package rdmacm

import (
	"errors"
	"io"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/cm/route"
	"github.com/gorxe/gorxe/internal/mgmt/gsi"
	"github.com/gorxe/gorxe/internal/quota"
	"github.com/gorxe/gorxe/internal/sys/refusal"
	"github.com/gorxe/gorxe/internal/test/must"
	"github.com/gorxe/gorxe/rocev2"
	"github.com/gorxe/gorxe/rxe"
	"github.com/gorxe/gorxe/wire"
)

// The tests run in a bubble of package synctest, where time passes only when everybody
// waits. Managers are joined by a fabric that carries their datagrams.

// fabric carries datagrams between ports by GID.
type fabric struct {
	t     *testing.T
	mu    sync.Mutex
	ports []*port
	sent  []string
	// lose says which datagrams get lost; nil: none.
	lose func(m wire.CMMessage) bool
}

// port is a device's port on a fabric. It is the device's GSI.
type port struct {
	f     *fabric
	mu    sync.Mutex
	info  rocev2.PortInfo
	agent gsi.Agent
	// lanes are those of a gsi.Mux: for messages of connections, and for others.
	lanes   map[bool]chan received
	running sync.WaitGroup
}

type received struct {
	from rxe.AHAttr
	mad  wire.MAD
}

func newFabric(t *testing.T) *fabric { return &fabric{t: t} }

// newPort makes a port with these addresses on a network interface.
func (f *fabric) newPort(index int, addrs ...string) *port {
	p := &port{f: f, lanes: map[bool]chan received{true: make(chan received, 1024), false: make(chan received, 1024)}}
	p.info = rocev2.PortInfo{Index: index, State: rocev2.PortActive, MTU: 1500, ActiveMTU: 1024}
	for _, a := range addrs {
		p.info.GIDs = append(p.info.GIDs, wire.GIDFromAddr(netip.MustParseAddr(a)))
	}
	f.mu.Lock()
	f.ports = append(f.ports, p)
	f.mu.Unlock()
	for _, lane := range p.lanes {
		p.running.Go(func() {
			for r := range lane {
				if a := p.current(); a != nil {
					a.ReceiveMAD(r.from, wire.GSIQPN, &r.mad)
				}
			}
		})
	}
	return p
}

// receive puts a datagram into its lane.
func (p *port) receive(r received) {
	e, ok := p.current().(gsi.Expecter)
	p.lanes[ok && e.Expects(&r.mad)] <- r
}

func (p *port) current() gsi.Agent {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.agent
}

func (p *port) Register(_ wire.MADClass, a gsi.Agent) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.agent = a
}

func (p *port) Net() rocev2.PortInfo {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.info
}

// set changes the port.
func (p *port) set(change func(*rocev2.PortInfo)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change(&p.info)
}

func (p *port) Send(to rxe.AHAttr, _ wire.QPN, mad *wire.MAD) error {
	gids := p.Net().GIDs
	if int(to.SGIDIndex) >= len(gids) {
		return rxe.ErrInvalid
	}
	src := gids[to.SGIDIndex]
	m, err := wire.ParseCM(mad[:])
	if err != nil {
		p.f.t.Errorf("sent a datagram that is not a message: %v", err)
		return nil
	}
	p.f.mu.Lock()
	defer p.f.mu.Unlock()
	p.f.sent = append(p.f.sent, m.CMAttribute().String())
	if p.f.lose != nil && p.f.lose(m) {
		return nil
	}
	for _, q := range p.f.ports {
		if i := slices.Index(q.Net().GIDs, to.DGID); i >= 0 {
			q.receive(received{rxe.AHAttr{DGID: src, SGIDIndex: uint8(i), PortNum: 1}, *mad})
			return nil
		}
	}
	return nil
}

// messages returns what was sent since the last call, and empties the record.
func (f *fabric) messages() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := strings.Join(f.sent, " ")
	f.sent = nil
	return s
}

// network is a Resolver: a host in which every address is on the link.
type network struct {
	mu      sync.Mutex
	local   []netip.Addr
	routes  map[netip.Addr]error // destinations that have no route, and why
	silent  map[netip.Addr]bool  // neighbors that do not answer
	waiting map[netip.Addr]func()
	follows map[netip.Addr]func() // neighbors that are followed; the last one counts
	groups  []string
	src     netip.Addr // of routes to other hosts
	index   int        // of their interface
	v6only  bool
	ports   [2]uint16
}

func newNetwork(src string, index int, local ...string) *network {
	n := &network{src: netip.MustParseAddr(src), index: index, ports: [2]uint16{40000, 40015},
		routes: make(map[netip.Addr]error), silent: make(map[netip.Addr]bool), waiting: make(map[netip.Addr]func()),
		follows: make(map[netip.Addr]func())}
	for _, a := range append(local, src) {
		n.local = append(n.local, netip.MustParseAddr(a))
	}
	return n
}

func (n *network) Route(q route.Query) (route.Route, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	dst := q.Dst.WithZone("")
	if err := n.routes[dst]; err != nil {
		return route.Route{}, err
	}
	r := route.Route{Src: q.Src, NextHop: dst, Interface: n.index}
	if slices.Contains(n.local, dst) {
		r.Local, r.Interface = true, 1
		if !r.Src.IsValid() {
			r.Src = dst
		}
	}
	if !r.Src.IsValid() {
		r.Src = n.src
	}
	return r, nil
}

func (n *network) Neighbor(r route.Route, done func()) (bool, func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.silent[r.NextHop] {
		return true, func() {}
	}
	n.waiting[r.NextHop] = done
	return false, func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		delete(n.waiting, r.NextHop)
	}
}

func (n *network) Follow(r route.Route, dst netip.Addr, moved func()) (cancel func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if r.Local || r.NextHop != dst.WithZone("") {
		return func() {}
	}
	n.follows[r.NextHop] = moved
	return func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		delete(n.follows, r.NextHop)
	}
}

// move gives a neighbor another link-layer address. It reports whether that is followed.
func (n *network) move(ip string) bool {
	n.mu.Lock()
	moved := n.follows[netip.MustParseAddr(ip)]
	n.mu.Unlock()
	if moved != nil {
		moved()
	}
	return moved != nil
}

// answer is what a silent neighbor says at last.
func (n *network) answer(ip string) {
	n.mu.Lock()
	done := n.waiting[netip.MustParseAddr(ip)]
	n.mu.Unlock()
	done()
}

func (n *network) Local(ip netip.Addr) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Contains(n.local, ip.WithZone(""))
}

type membership func()

func (f membership) Close() error { f(); return nil }

func (n *network) Join(index int, group netip.Addr) (io.Closer, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.groups = append(n.groups, group.String())
	return membership(func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.groups = slices.DeleteFunc(n.groups, func(g string) bool { return g == group.String() })
	}), nil
}

func (n *network) PortRange() (low, high uint16) { return n.ports[0], n.ports[1] }
func (n *network) IPv6Only() bool                { return n.v6only }

// host is a Manager with one device, and what belongs to it.
type host struct {
	*Manager
	t      *testing.T
	f      *fabric
	net    *network
	port   *port
	dev    *Device
	budget *quota.Budget
	owner  *Owner
	root   bool
}

// guids gives every device of a test another GUID.
var guids uint64

// newHost makes a host with one device with these addresses on interface 2. The first is
// the source of its packets.
func newHost(t *testing.T, f *fabric, addrs ...string) *host {
	h := &host{t: t, f: f, net: newNetwork(addrs[0], 2, append(addrs[1:], "127.0.0.1", "::1")...), budget: quota.New(quota.Cost{})}
	h.Manager = New(Config{Resolver: h.net})
	h.owner = &Owner{Privileged: func() bool { return h.root }, PID: 1, Budget: h.budget}
	h.port = f.newPort(2, addrs...)
	h.dev = h.add("rxe0", h.port)
	return h
}

func (h *host) add(name string, p *port) *Device {
	guids++
	d := &Device{Name: name, GUID: guids, Mux: p, Net: p.Net}
	if err := h.AddDevice(d); err != nil {
		h.t.Fatal(err)
	}
	return d
}

// close ends a host, and checks that nothing is left of it.
func (h *host) close() {
	h.Close()
	if used := h.budget.Used(); used != (quota.Cost{}) {
		h.t.Errorf("the owner still pays for %+v", used)
	}
	p := &h.ports
	if n := len(p.owners) + len(p.uses) + len(p.held) + len(h.idsOf); n != 0 {
		h.t.Errorf("%d ports are still taken, %v, %v ids", len(p.owners), p.held, h.idsOf)
	}
	for space, set := range p.taken {
		if *set != (portSet{}) {
			h.t.Errorf("ports of space %v are still marked", space)
		}
	}
}

// bubble runs a test with a fabric. Ports end with it.
func bubble(t *testing.T, test func(t *testing.T, f *fabric)) {
	synctest.Test(t, func(t *testing.T) {
		f := newFabric(t)
		test(t, f)
		for _, p := range f.ports {
			for _, lane := range p.lanes {
				close(lane)
			}
			p.running.Wait()
		}
	})
}

// user is a program's end of an ID: it queues events.
type user struct {
	*ID
	h      *host
	mu     *sync.Mutex
	events *[]*Event
	full   bool // the backlog of a listener
}

func (h *host) user(space wire.PortSpace) *user {
	typ := rxe.QPRC
	if space == wire.PortSpaceUDP || space == wire.PortSpaceIPoIB {
		typ = rxe.QPUD
	}
	return h.userOf(space, typ)
}

// userOf makes a user whose queue pairs have a type.
func (h *host) userOf(space wire.PortSpace, typ rxe.QPType) *user {
	u := &user{h: h, mu: new(sync.Mutex), events: new([]*Event)}
	id, err := h.NewID(h.owner, space, typ, u.handle)
	if err != nil {
		h.t.Fatal(err)
	}
	u.ID = id
	return u
}

func (u *user) handle(ev *Event) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if ev.Kind == ConnectRequest && u.full {
		return false
	}
	if ev.Child != nil {
		child := &user{ID: ev.Child, h: u.h, mu: u.mu, events: u.events}
		ev.Child.SetHandler(child.handle)
	}
	*u.events = append(*u.events, ev)
	return true
}

// names waits until nothing happens any more, and returns the events since the last call.
func (u *user) names() string {
	synctest.Wait()
	u.mu.Lock()
	defer u.mu.Unlock()
	var s []string
	for _, ev := range *u.events {
		s = append(s, ev.Kind.String())
	}
	*u.events = nil
	return strings.Join(s, " ")
}

// next waits until nothing happens any more, and returns the only event.
func (u *user) next(kind EventKind) *Event {
	u.h.t.Helper()
	synctest.Wait()
	u.mu.Lock()
	defer u.mu.Unlock()
	var s []string
	for _, ev := range *u.events {
		s = append(s, ev.Kind.String())
	}
	if len(s) != 1 || (*u.events)[0].Kind != kind {
		u.h.t.Fatalf("events are %q, want only %v", s, kind)
	}
	ev := (*u.events)[0]
	*u.events = nil
	return ev
}

func (u *user) wants(state State) {
	u.h.t.Helper()
	if s := u.State(); s != state {
		u.h.t.Fatalf("state is %v, want %v", s, state)
	}
}

// child returns the user's end of a new connection.
func (u *user) child(ev *Event) *user {
	return &user{ID: ev.Child, h: u.h, mu: u.mu, events: u.events}
}

// is checks the errno of an operation. EINVAL comes with its reason.
func is(t *testing.T, err error, want unix.Errno) {
	t.Helper()
	if want == 0 && err == nil {
		return
	}
	var e unix.Errno
	if !errors.As(err, &e) || e != want {
		t.Errorf("error is %v, want %v", err, want)
	}
	var r *refusal.Refusal
	if e == unix.EINVAL && (!errors.As(err, &r) || r.Why == "" || r.Fix == "") {
		t.Errorf("%v has no reason", err)
	}
}

// at returns an address with a port.
func at(s string) Addr { return Addr{AddrPort: netip.MustParseAddrPort(s)} }

const (
	second = time.Second
	minute = time.Minute
)

// resolved returns an ID whose route to an address is resolved.
func (h *host) resolved(space wire.PortSpace, dst string) *user {
	h.t.Helper()
	u := h.user(space)
	must.OK(h.t, u.ResolveAddr(Addr{}, at(dst), second))
	u.next(AddrResolved)
	must.OK(h.t, u.ResolveRoute(second))
	u.next(RouteResolved)
	return u
}

// listening returns a listener.
func (h *host) listening(space wire.PortSpace, addr string) *user {
	h.t.Helper()
	u := h.user(space)
	must.OK(h.t, u.Bind(at(addr)))
	must.OK(h.t, u.Listen())
	return u
}

// connected connects two hosts, and returns both ends.
func connected(client *host, l *user, dst string) (active, passive *user) {
	t := client.t
	t.Helper()
	active = client.resolved(wire.PortSpaceTCP, dst)
	must.OK(t, active.Connect(&ConnParams{QPN: 0x11, RetryCount: 7, RNRRetryCount: 7, ResponderResources: 1, InitiatorDepth: 2}))
	passive = l.child(l.next(ConnectRequest))
	must.OK(t, passive.Accept(&ConnParams{QPN: 0x22, ResponderResources: 2, InitiatorDepth: 1}))
	active.next(ConnectResponse)
	must.OK(t, active.EstablishActive())
	l.next(Established)
	return active, passive
}
