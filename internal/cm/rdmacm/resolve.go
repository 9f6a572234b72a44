package rdmacm

import (
	"errors"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/cm/route"
	"github.com/gorxe/gorxe/rocev2"
	"github.com/gorxe/gorxe/wire"
)

// ResolveAddr finds the device and the route to a destination (rdma_resolve_addr). The
// source may be the zero Addr. Errors of routing are returned at once. Otherwise
// AddrResolved or AddrError follows. The status of AddrError is -ETIMEDOUT if the next
// hop does not answer in time, and -ENODEV if packets leave from an address that no
// device has.
func (id *ID) ResolveAddr(src, dst Addr, timeout time.Duration) error {
	src, dst = src.numbered(), dst.numbered()
	q, err := id.beginResolution(src, dst, id.m.hostHas(src))
	if err != nil || q == nil {
		return err
	}
	// The kernel may take its time: nothing is locked.
	way, err := id.m.resolver.Route(*q)
	if err != nil {
		id.m.mu.Lock()
		defer id.m.unlock()
		if id.state == StateAddrQuery {
			id.state = StateAddrBound
		}
		return err
	}
	return id.awaitNeighbor(way, timeout)
}

// beginResolution sets the addresses, and returns what the kernel has to be asked; nil if
// nothing. While it is asked, the state is StateAddrQuery, in which other calls fail.
func (id *ID) beginResolution(src, dst Addr, ours bool) (*route.Query, error) {
	id.m.mu.Lock()
	defer id.m.unlock()
	if err := id.prepareSource(src, dst, ours); err != nil {
		return nil, err
	}
	id.state = StateAddrQuery
	q, err := id.routeQuery()
	if err != nil {
		id.state = StateAddrBound
	}
	return q, err
}

// prepareSource binds an ID that is not bound, and sets the destination
// (resolve_prepare_src).
func (id *ID) prepareSource(src, dst Addr, ours bool) error {
	if id.state == StateAddrBound {
		id.dst = dst
	} else {
		if src.family() == famNone {
			src = unspecified(dst.family())
			// A link-local destination says which interface is meant.
			if scope, err := linkLocalScope(dst); err == nil && scope != 0 && id.state == StateIdle {
				id.scope = scope
			}
		}
		if err := id.bind(src, dst, ours); err != nil {
			return err
		}
	}
	if id.src.family() != dst.family() {
		return refuse(unix.EINVAL, "dst_addr", "has another address family than the source", "use one family")
	}
	return nil
}

// routeQuery returns the question for the route (addr_resolve). Nil means that the way
// leads to this host, and is known. Manager.mu is held.
func (id *ID) routeQuery() (*route.Query, error) {
	switch {
	case id.dst.family() == famIB: // no RoCE port has such an address
		return nil, refuse(unix.ENODEV, "dst_addr", "is of AF_IB, which RoCE ports lack", "use IPv4 or IPv6")
	case id.dst.Addr().Is4In6(): // as if no IPv6 route led there
		return nil, refuse(unix.ENETUNREACH, "dst_addr", "is IPv4 in the form of IPv6", "use AF_INET")
	case id.dst.isAny():
		return nil, id.resolveLoopback()
	}
	q := &route.Query{Dst: id.dst.Addr(), Interface: id.scope}
	if !id.src.isZero() {
		q.Src = id.src.Addr()
	}
	if scope, err := linkLocalScope(id.dst); err == nil && scope != 0 {
		q.Interface = scope
	}
	return q, nil
}

// resolveLoopback resolves a loopback address, or the unspecified one, which means this
// host. Linux's RoCE devices do not support that. Here a loopback address is an ordinary
// address if a device has it. Otherwise it stands for the address of the first device
// that is active. ENODEV if there is none.
func (id *ID) resolveLoopback() error {
	src, dst, ok := id.m.loopback(id)
	if !ok {
		return refuse(unix.ENODEV, "dst_addr", "means this host, and no port is active", "see gorxe status")
	}
	id.dst = id.dst.withIP(dst)
	r := route.Route{Src: src, Local: true}
	id.m.later(id, func() { id.addressResolved(r, nil) })
	return nil
}

var localhost = netip.AddrFrom4([4]byte{127, 0, 0, 1})

// loopback chooses the addresses of a connection within this host.
func (m *Manager) loopback(id *ID) (src, dst netip.Addr, ok bool) {
	dst = id.dst.Addr()
	asked := !id.dst.isZero() // the program named a loopback address
	own := func(d *Device, ip netip.Addr) (netip.Addr, netip.Addr, bool) {
		if asked && ip.IsLoopback() && (!d.IsLo || dst != localhost) {
			return ip, dst, true
		}
		return ip, ip, true
	}
	if id.dev != nil {
		return own(id.dev, id.src.Addr())
	}
	if d := m.deviceAt(id.owner, id.src.Addr(), 0); d != nil && id.src.isLoopback() {
		return own(d, id.src.Addr())
	}
	if asked && m.deviceAt(id.owner, dst, 0) != nil {
		return dst, dst, true
	}
	var first netip.Addr
	var at *Device
	for _, d := range m.devices {
		info := d.Net()
		if info.State != rocev2.PortActive || !id.owner.has(d) {
			continue
		}
		for _, g := range info.GIDs {
			ip := g.Addr()
			switch {
			case g.IsZero() || ip.Is4() != dst.Is4():
			case ip.IsLoopback():
				return own(d, ip)
			case !first.IsValid() || first.IsLinkLocalUnicast() && !ip.IsLinkLocalUnicast():
				first, at = route.WithZone(ip, info.Index), d
			}
		}
	}
	if !first.IsValid() {
		return netip.Addr{}, netip.Addr{}, false
	}
	return own(at, first)
}

// addressResolved ends a resolution (addr_handler). Manager.mu is held, by a goroutine
// that may call handlers.
func (id *ID) addressResolved(r route.Route, err error) {
	if id.state != StateAddrQuery {
		return
	}
	if err == nil && id.dev == nil {
		err = id.acquireFor(r)
	}
	if err != nil {
		id.state = StateAddrBound
		id.event(&Event{Kind: AddrError, Status: status(err)})
		return
	}
	id.src = id.src.withIP(r.Src)
	id.hop = r.HopLimit
	id.state = StateAddrResolved
	id.event(&Event{Kind: AddrResolved})
}

// acquireFor finds the device that has the source address of a route.
func (id *ID) acquireFor(r route.Route) error {
	if id.space == wire.PortSpaceIPoIB {
		return errIPoIB
	}
	index := r.Interface
	if r.Local {
		// Packets to this host leave no interface. Linux takes the one that has the
		// destination; the source's works as well.
		index = 0
	}
	if id.dev = id.m.deviceAt(id.owner, r.Src, index); id.dev == nil {
		return unix.ENODEV
	}
	return nil
}

// status returns the status of an event for an error.
func status(err error) int32 {
	var e unix.Errno
	if errors.As(err, &e) {
		return -int32(e)
	}
	return -int32(unix.EIO)
}

// ResolveRoute makes the path record, and RouteResolved follows (rdma_resolve_route). A
// RoCE device asks no subnet administrator. EINVAL without a timeout or if the address is
// not resolved, ENODEV if the network interface is gone.
func (id *ID) ResolveRoute(timeout time.Duration) error {
	id.m.mu.Lock()
	defer id.m.unlock()
	if timeout == 0 {
		return refuse(unix.EINVAL, "timeout_ms", "is 0", "give some milliseconds")
	}
	if id.state != StateAddrResolved {
		return id.wrongState("wait for ADDR_RESOLVED, and resolve the route once")
	}
	info := id.dev.Net()
	if info.MTU == 0 {
		return errNoLink
	}
	p := id.pathRecord(&info)
	if p.MTU == 0 {
		return errSmallMTU
	}
	id.state = StateRouteQuery
	id.m.later(id, func() {
		if id.state != StateRouteQuery {
			return
		}
		id.paths = []PathRecord{p}
		id.state = StateRouteResolved
		id.event(&Event{Kind: RouteResolved})
	})
	return nil
}

// SetPath replaces ResolveRoute: it sets the path of an ID whose address is resolved, and
// RouteResolved follows (rdma_set_ib_path).
func (id *ID) SetPath(p PathRecord) error {
	id.m.mu.Lock()
	defer id.m.unlock()
	if id.dev == nil || id.state != StateAddrResolved {
		return id.wrongState("wait for ADDR_RESOLVED")
	}
	id.paths = []PathRecord{p}
	id.state = StateRouteResolved
	id.post(&Event{Kind: RouteResolved})
	return nil
}
