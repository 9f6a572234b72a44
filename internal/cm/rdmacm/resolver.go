package rdmacm

import (
	"container/heap"
	"io"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/cm/route"
	"github.com/gorxe/gorxe/rxe"
)

// Resolver knows the host's network: a *route.Resolver. Its methods may take their time,
// except for PortRange and IPv6Only. The Manager calls them with nothing locked.
type Resolver interface {
	// Route returns how packets reach an address; the error is a unix.Errno.
	Route(q route.Query) (route.Route, error)
	// Neighbor finds out whether the next hop of a route answers. It returns true if the
	// kernel knows that it does. Otherwise it asks the network. When the hop answers,
	// Neighbor calls done once, from another goroutine, unless cancel was called before.
	Neighbor(r route.Route, done func()) (known bool, cancel func())
	// Follow calls moved, from another goroutine, each time that a destination on a link has
	// got another link-layer address, unless cancel was called before.
	Follow(r route.Route, dst netip.Addr, moved func()) (cancel func())
	// Local reports whether an address is one of this host; zones count.
	Local(ip netip.Addr) bool
	// Join makes the host a member of a multicast group on a network interface.
	Join(index int, group netip.Addr) (io.Closer, error)
	// PortRange returns the ports that are chosen automatically.
	PortRange() (low, high uint16)
	// IPv6Only reports whether the wildcard address of IPv6 excludes IPv4 by default
	// (net.ipv6.bindv6only).
	IPv6Only() bool
}

// query is an address resolution that waits for a neighbor.
type query struct {
	id       *ID
	route    route.Route
	cancel   func()
	deadline rxe.Time
	index    int  // in the heap
	answered bool // the neighbor has answered
}

// awaitNeighbor waits until the next hop of a route answers, or the time is over. The ID is
// in StateAddrQuery. ENODEV if it or its device has gone since then. Manager.mu is not held.
func (id *ID) awaitNeighbor(way route.Route, timeout time.Duration) error {
	m := id.m
	q := &query{id: id, route: way}
	unfollow := id.follow(way)
	known, cancel := m.resolver.Neighbor(way, func() {
		m.mu.Lock()
		defer m.unlock()
		q.answered = true
		if id.query == q {
			m.later(id, func() { q.finish(nil) })
		}
	})
	m.mu.Lock()
	defer m.unlock()
	if id.state != StateAddrQuery {
		cancel()
		unfollow()
		return unix.ENODEV
	}
	id.unfollow = unfollow
	q.cancel, q.deadline = cancel, m.now()+rxe.Time(timeout)
	id.query = q
	heap.Push(&m.queries, q)
	if known || q.answered {
		m.later(id, func() { q.finish(nil) })
	}
	return nil
}

// cancelQuery forgets the resolution that is under way, if any. Manager.mu is held.
func (id *ID) cancelQuery() {
	q := id.query
	if q == nil {
		return
	}
	id.query = nil
	heap.Remove(&id.m.queries, q.index)
	q.cancel()
}

// finish ends the resolution. Manager.mu is held, by a goroutine that may call handlers.
func (q *query) finish(err error) {
	if q.id.query != q { // it was canceled, or has timed out
		return
	}
	q.id.cancelQuery()
	q.id.addressResolved(q.route, err)
}

// queryHeap holds the resolutions under way. The first one times out next.
type queryHeap []*query

func (h queryHeap) Len() int           { return len(h) }
func (h queryHeap) Less(i, j int) bool { return h[i].deadline < h[j].deadline }
func (h queryHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

// Push implements heap.Interface.
func (h *queryHeap) Push(x any) {
	q := x.(*query)
	q.index = len(*h)
	*h = append(*h, q)
}

// Pop implements heap.Interface.
func (h *queryHeap) Pop() any {
	old := *h
	q := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	return q
}

func (h queryHeap) deadline() (rxe.Time, bool) {
	if len(h) == 0 {
		return 0, false
	}
	return h[0].deadline, true
}

// expire ends the resolutions that have taken too long. Manager.mu is held, by a goroutine
// that may call handlers.
func (h *queryHeap) expire(now rxe.Time) {
	for len(*h) > 0 && (*h)[0].deadline <= now {
		(*h)[0].finish(unix.ETIMEDOUT)
	}
}
