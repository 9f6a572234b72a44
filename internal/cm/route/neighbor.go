package route

import (
	"maps"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// The kernel resolves a neighbor when there is something to send to it. So a short
// datagram goes there, and the kernel reports the change of the neighbor's state.

// hop is a neighbor: an address on the link of an interface.
type hop struct {
	index int
	ip    netip.Addr
}

// waiter is a call of Neighbor that has not been answered.
type waiter struct {
	done func()
}

// Neighbor finds out whether the next hop of a route answers (addr.c: fetch_ha). It
// returns true if the kernel knows its link-layer address, or needs none. Otherwise it
// asks for it, again and again, and calls done once from another goroutine when there is
// an answer. After cancel, a call of done may still be under way, but no new one begins.
func (r *Resolver) Neighbor(way Route, done func()) (known bool, cancel func()) {
	if way.Direct {
		return true, func() {}
	}
	h := hop{way.Interface, way.NextHop.WithZone("")}
	w := &waiter{done}
	// The waiter is added before the state is read, so no change is missed.
	r.mu.Lock()
	if r.waiting[h] == nil {
		r.waiting[h] = make(map[*waiter]struct{})
	}
	r.waiting[h][w] = struct{}{}
	r.mu.Unlock()
	if r.valid(h) || !r.resolves(h.index) {
		// If it became valid just now, done may have been called, too.
		return r.forget(h, w), func() {}
	}
	r.probe(h)
	return false, func() { r.forget(h, w) }
}

// forget removes a waiter, and reports whether it was still there.
func (r *Resolver) forget(h hop, w *waiter) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, ok := r.waiting[h][w]
	delete(r.waiting[h], w)
	if len(r.waiting[h]) == 0 {
		delete(r.waiting, h)
	}
	return ok
}

// resolves reports whether an interface needs link-layer addresses.
func (r *Resolver) resolves(index int) bool {
	link, err := r.handle.LinkByIndex(index)
	if err != nil {
		return true
	}
	return link.Attrs().RawFlags&(unix.IFF_NOARP|unix.IFF_LOOPBACK) == 0
}

// nudValid are the states of a neighbor whose link-layer address is known (the kernel's
// NUD_VALID).
const nudValid = netlink.NUD_PERMANENT | netlink.NUD_NOARP | netlink.NUD_REACHABLE | netlink.NUD_PROBE |
	netlink.NUD_STALE | netlink.NUD_DELAY

// valid reports whether the kernel knows the link-layer address of a neighbor.
func (r *Resolver) valid(h hop) bool {
	_, ok := r.linkAddress(h)
	return ok
}

// linkAddress asks for the link-layer address of a neighbor; ok is false if the kernel does not
// know it.
func (r *Resolver) linkAddress(h hop) (address string, ok bool) {
	family, to := unix.AF_INET6, h.ip.AsSlice()
	if h.ip.Is4() {
		family = unix.AF_INET
	}
	req := nl.NewNetlinkRequest(unix.RTM_GETNEIGH, 0)
	req.Sockets = map[int]*nl.SocketHandle{unix.NETLINK_ROUTE: r.asks}
	req.AddData(&netlink.Ndmsg{Family: uint8(family), Index: uint32(h.index)})
	req.AddData(nl.NewRtAttr(unix.NDA_DST, to))
	msgs, err := req.Execute(unix.NETLINK_ROUTE, unix.RTM_NEWNEIGH)
	if err != nil {
		return "", false // ENOENT: nobody has asked for it yet
	}
	for _, m := range msgs {
		if n, err := netlink.NeighDeserialize(m); err == nil && n.State&nudValid != 0 {
			return string(n.HardwareAddr), true
		}
	}
	return "", false
}

// discard is the port of probes: the discard service (RFC 863).
const discard = 9

// probe sends an empty datagram to a neighbor. Errors are ignored: if the kernel cannot
// ask now, the caller's time limit ends the wait.
func (r *Resolver) probe(h hop) {
	c := r.probes[1]
	if h.ip.Is4() {
		c = r.probes[0]
	}
	if c == nil {
		return
	}
	to := &net.UDPAddr{IP: h.ip.AsSlice(), Port: discard}
	var oob []byte
	if h.ip.Is4() {
		oob = unix.PktInfo4(&unix.Inet4Pktinfo{Ifindex: int32(h.index)})
	} else {
		to.Zone = strconv.Itoa(h.index)
		oob = unix.PktInfo6(&unix.Inet6Pktinfo{Ifindex: uint32(h.index)})
	}
	c.SetWriteDeadline(time.Now().Add(time.Second)) //nolint:errcheck // the socket is open
	c.WriteMsgUDP(nil, oob, to)                     //nolint:errcheck // see above
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.onProbe != nil {
		r.onProbe(h)
	}
}

// follow receives the changes of neighbors until Close.
func (r *Resolver) follow() {
	for {
		msgs, _, err := r.events.Receive()
		switch {
		case r.closing.Load(): // with any error
			return
		case err != nil:
			r.lookAgain() // ENOBUFS: notifications were lost
			continue
		}
		for i := range msgs {
			r.changed(&msgs[i])
		}
	}
}

// changed handles a notification.
func (r *Resolver) changed(m *syscall.NetlinkMessage) {
	if m.Header.Type != unix.RTM_NEWNEIGH {
		return
	}
	n, err := netlink.NeighDeserialize(m.Data)
	if err != nil {
		return
	}
	ip, ok := netip.AddrFromSlice(n.IP)
	if !ok {
		return
	}
	h := hop{n.LinkIndex, ip.Unmap()}
	switch {
	case n.State&nudValid != 0:
		r.answer(h)
		r.moved(h, string(n.HardwareAddr))
	case n.State&netlink.NUD_FAILED != 0 && r.wanted(h):
		r.probe(h) // the time limit is the waiters'
	}
}

// wanted reports whether there is a waiter for a neighbor.
func (r *Resolver) wanted(h hop) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.waiting[h]) > 0
}

// answer calls the waiters for a neighbor.
func (r *Resolver) answer(h hop) {
	r.mu.Lock()
	waiters := r.waiting[h]
	delete(r.waiting, h)
	r.mu.Unlock()
	for w := range waiters {
		w.done()
	}
}

// lookAgain asks for the state of every neighbor that has a waiter or a follower.
func (r *Resolver) lookAgain() {
	r.mu.Lock()
	hops, followed := slices.Collect(maps.Keys(r.waiting)), slices.Collect(maps.Keys(r.followers))
	r.mu.Unlock()
	for _, h := range followed {
		if address, ok := r.linkAddress(h); ok {
			r.moved(h, address)
		}
	}
	for _, h := range hops {
		if r.valid(h) {
			r.answer(h)
		} else {
			r.probe(h)
		}
	}
}
