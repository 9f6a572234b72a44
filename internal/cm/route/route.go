package route

import (
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Query asks how packets get to Dst.
type Query struct {
	Src       netip.Addr // not valid: the kernel chooses
	Dst       netip.Addr
	Interface int // index of the interface to use; 0: any
}

// Route is how packets get to an address.
type Route struct {
	Src       netip.Addr // source address; a link-local one has its zone
	NextHop   netip.Addr // the gateway, or the destination
	Interface int        // index of the outgoing interface
	HopLimit  uint8      // 0: the default
	// Local means that the destination is this host.
	Local bool
	// Direct means that there is no neighbor to resolve: the destination is this host, or
	// a group.
	Direct bool
}

// Route looks a route up. The error is the kernel's unix.Errno: ENETUNREACH, EHOSTUNREACH,
// EACCES, and others. It is an error if Src is not an address of this host.
func (r *Resolver) Route(q Query) (Route, error) {
	opts := &netlink.RouteGetOptions{OifIndex: q.Interface}
	if q.Src.IsValid() && !q.Src.IsUnspecified() {
		opts.SrcAddr = q.Src.WithZone("").AsSlice()
	}
	found, err := r.handle.RouteGetWithOptions(q.Dst.WithZone("").AsSlice(), opts)
	if err != nil {
		return Route{}, errno(err)
	}
	if len(found) == 0 {
		return Route{}, unix.ENETUNREACH
	}
	f := &found[0]
	out := Route{NextHop: q.Dst.WithZone(""), Interface: f.LinkIndex, HopLimit: uint8(f.Hoplimit), Local: f.Type == unix.RTN_LOCAL}
	if gw, ok := gateway(f); ok {
		out.NextHop = gw
	}
	src, ok := netip.AddrFromSlice(f.Src)
	switch {
	case ok:
		out.Src = src.Unmap()
	case q.Src.IsValid() && !q.Src.IsUnspecified():
		out.Src = q.Src.WithZone("")
	case out.Local:
		out.Src = q.Dst.WithZone("")
	default:
		return Route{}, unix.EADDRNOTAVAIL
	}
	zone := out.Interface
	if out.Local && q.Interface != 0 {
		zone = q.Interface // the kernel says lo, which does not have the address
	}
	out.Src = WithZone(out.Src, zone)
	out.Direct = f.Type != unix.RTN_UNICAST
	return out, nil
}

// gateway returns the next hop of a route, if it is not the destination.
func gateway(f *netlink.Route) (netip.Addr, bool) {
	if gw, ok := netip.AddrFromSlice(f.Gw); ok && !gw.IsUnspecified() {
		return gw.Unmap(), true
	}
	if via, ok := f.Via.(*netlink.Via); ok { // a gateway of the other IP version
		if gw, ok := netip.AddrFromSlice(via.Addr); ok {
			return gw, true
		}
	}
	return netip.Addr{}, false
}

// Local reports whether an address is one of this host. A zone names the interface that
// must have it.
func (r *Resolver) Local(ip netip.Addr) bool {
	found, err := r.Route(Query{Dst: ip, Interface: ZoneIndex(ip)})
	return err == nil && found.Local
}
