package sim

import (
	"math/rand/v2"
	"net/netip"
	"runtime"
	"testing"
	"time"

	"github.com/gorxe/gorxe/internal/cm"
	"github.com/gorxe/gorxe/internal/test/seeds"
	"github.com/gorxe/gorxe/internal/test/simnet"
	"github.com/gorxe/gorxe/rxe"
	"github.com/gorxe/gorxe/wire"
)

// mesh is a set of nodes of which each two have a connection. All connect at once. Messages go from
// machine to machine without packets, so that the memory is that of the connection managers.
type mesh struct {
	net         *simnet.Network // the clock
	rng         *rand.Rand
	loss        float64
	nodes       []*node
	conns       int // what the nodes ask for; each has two ends
	messages    int
	established int // ends
	last        rxe.Time
}

// node is a connection manager and the program of which it has the connections.
type node struct {
	mesh  *mesh
	addr  netip.Addr
	m     *cm.Machine
	ends  []*cm.Conn
	qpn   wire.QPN
	alarm rxe.Time // when the clock calls; 0: never
}

// meshLatency is one way.
const meshLatency = 50 * time.Microsecond

func newMesh(nodes int, loss float64) *mesh {
	m := &mesh{net: simnet.New(simnet.Config{}), rng: rand.New(rand.NewPCG(1, 0xc2)), loss: loss}
	for i := range nodes {
		n := &node{mesh: m, addr: netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}), qpn: 0x100}
		n.m = cm.New(cm.Config{GUID: 1 + uint64(i), Random: m.rng.Uint32, Send: n.send})
		_, err := n.m.Listen(service, n.request)
		must(err)
		m.nodes = append(m.nodes, n)
	}
	return m
}

// nodeAt returns the node at an address of newMesh.
func (m *mesh) nodeAt(a netip.Addr) *node {
	b := a.As4()
	return m.nodes[int(b[1])<<16|int(b[2])<<8|int(b[3])]
}

func (n *node) send(to rxe.AHAttr, mad *wire.MAD) {
	m := n.mesh
	m.messages++
	if m.rng.Float64() < m.loss {
		return
	}
	copied, peer, from := *mad, m.nodeAt(to.DGID.Addr()), rxe.AHAttr{DGID: wire.GIDFromAddr(n.addr), HopLimit: 64, PortNum: 1}
	m.net.After(meshLatency, func() {
		peer.m.Receive(m.net.Now(), from, &copied)
		peer.arm()
	})
}

// arm sets the clock, unless it calls early enough.
func (n *node) arm() {
	at, ok := n.m.Deadline()
	if !ok || n.alarm != 0 && n.alarm <= at {
		return
	}
	n.alarm = at
	n.mesh.net.At(at, func() {
		if n.alarm != at {
			return
		}
		n.alarm = 0
		n.m.Expire(n.mesh.net.Now())
		n.arm()
	})
}

func (n *node) nextQPN() wire.QPN {
	n.qpn++
	return n.qpn
}

// connect asks a peer for a connection.
func (n *node) connect(to *node) {
	c, err := n.m.Connect(n.mesh.net.Now(), &cm.ConnectParams{
		User: n, Service: service, Path: rxe.AHAttr{DGID: wire.GIDFromAddr(to.addr), HopLimit: 64}, SGID: wire.GIDFromAddr(n.addr),
		QPN: n.nextQPN(), PathMTU: 1024, ResponderResources: 16, InitiatorDepth: 16, RetryCount: 7, RNRRetryCount: 7,
	}, nil)
	must(err)
	n.mesh.conns++
	n.take(c)
	n.arm()
}

// request is the listener's handler: it accepts.
func (n *node) request(now rxe.Time, c *cm.Conn, _ *cm.Request) cm.Verdict {
	taken, ok := c.Admit(n, n)
	if !ok {
		return taken
	}
	n.take(c)
	must(c.Accept(now, &cm.AcceptParams{QPN: n.nextQPN(), ResponderResources: 16, InitiatorDepth: 16, RNRRetryCount: 7}))
	return taken
}

// take adds a connection to those of the node.
func (n *node) take(c *cm.Conn) {
	n.ends = append(n.ends, c)
	c.SetHandler(func(now rxe.Time, ev *cm.Event) { n.handle(now, c, ev.Kind) })
}

func (n *node) handle(now rxe.Time, c *cm.Conn, kind cm.EventKind) {
	switch kind {
	case cm.EventReply:
		must(c.Ready(now))
		n.ready()
	case cm.EventReady:
		n.ready()
	case cm.EventDisconnect:
		must(c.Disconnect(now))
	case cm.EventDisconnected:
	case cm.EventTimewaitExit:
		c.Destroy(now)
	default:
		failf("%v: event %v", n.addr, kind)
	}
}

func (n *node) ready() {
	n.mesh.established++
	n.mesh.last = n.mesh.net.Now()
}

// meshLimit bounds the simulated time of both halves of a run. A message that is lost is repeated
// after 4 s, and an end waits in timewait for less than a minute.
const meshLimit = rxe.Time(5 * time.Minute)

// connectAll connects each two nodes and reports whether all connections are established.
func (m *mesh) connectAll() bool {
	for i, n := range m.nodes {
		for _, peer := range m.nodes[i+1:] {
			n.connect(peer)
		}
	}
	m.net.Drain(meshLimit)
	return m.established == 2*m.conns
}

// disconnectAll ends all connections, and fails if a machine remembers one.
func (m *mesh) disconnectAll() {
	now := m.net.Now()
	for _, n := range m.nodes {
		for _, c := range n.ends {
			if c.Active() {
				must(c.Disconnect(now))
			}
		}
		n.arm()
	}
	m.net.Drain(now + meshLimit)
	for _, n := range m.nodes {
		if u := n.m.Usage(); u != (cm.Usage{}) {
			failf("%v: left are %+v", n.addr, u)
		}
	}
}

// cost is what a run has taken, for each connection.
type cost struct {
	messages float64 // until all were established
	bytes    float64 // that both ends keep
	mallocs  float64 // of the whole run
}

// heap returns the bytes in use, and the number of allocations up to now.
func heap() (inUse, mallocs uint64) {
	var s runtime.MemStats
	runtime.GC()
	runtime.GC() // what a sync.Pool held before the first one
	runtime.ReadMemStats(&s)
	return s.HeapAlloc, s.Mallocs
}

func runMesh(t *testing.T, nodes int, loss float64) (c cost) {
	t.Helper()
	if err := seeds.Run(func() { c = costOfMesh(t, nodes, loss) }); err != nil {
		t.Fatalf("%d nodes: %v", nodes, err)
	}
	return c
}

func costOfMesh(t *testing.T, nodes int, loss float64) (c cost) {
	t.Helper()
	before, mallocsBefore := heap()
	began := time.Now()
	m := newMesh(nodes, loss)
	if !m.connectAll() {
		t.Fatalf("%d nodes: of %d ends %d are established", nodes, 2*m.conns, m.established)
	}
	took := time.Since(began)
	established, _ := heap()
	n := float64(m.conns)
	c.messages, c.bytes = float64(m.messages)/n, float64(int64(established-before))/n
	m.disconnectAll()
	_, mallocs := heap()
	c.mallocs = float64(mallocs-mallocsBefore) / n
	t.Logf("%d nodes, %v lost: %d connections in %v of simulated time, in %v here; %d MiB in use; for each: %+v",
		nodes, loss, m.conns, time.Duration(m.last), took, (established-before)>>20, c)
	return c
}

// TestMesh: each two of many nodes connect to each other at once, also if messages are lost, and
// each connection costs what it costs with few nodes. GORXE_NODES is the number of nodes
// (make scale: 1,000).
func TestMesh(t *testing.T) {
	const few = 24
	many := int(seeds.Number(t, "GORXE_NODES", 96))
	if many <= few {
		t.Fatalf("GORXE_NODES=%d: it must be more than %d", many, few)
	}
	for _, loss := range []float64{0, 0.05} {
		small, large := runMesh(t, few, loss), runMesh(t, many, loss)
		if loss == 0 && large.messages != 3 {
			t.Errorf("%v messages for a connection, and not REQ, REP and RTU", large.messages)
		}
		for _, c := range []struct {
			what         string
			small, large float64
		}{
			{"messages", small.messages, large.messages}, {"bytes", small.bytes, large.bytes}, {"allocations", small.mallocs, large.mallocs},
		} {
			if c.large > 1.25*c.small {
				t.Errorf("%v lost: %d nodes take %.1f %s for a connection, and %d take %.1f", loss, many, c.large, c.what, few, c.small)
			}
		}
	}
}
