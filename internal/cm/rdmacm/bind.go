package rdmacm

import (
	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/cm/route"
	"github.com/gorxe/gorxe/wire"
)

// Bind gives the ID a source address and a port (rdma_bind_addr).
func (id *ID) Bind(a Addr) error {
	a = a.numbered()
	ours := id.m.hostHas(a)
	id.m.mu.Lock()
	defer id.m.unlock()
	return id.bind(a, Addr{}, ours)
}

// hostHas reports whether an address is one of this host. It asks the kernel about an
// address that no device has, so Manager.mu is not held.
func (m *Manager) hostHas(a Addr) bool {
	if a.AFIB != nil || a.isAny() {
		return false // nobody wants to know
	}
	m.mu.Lock()
	dev := m.withAddress(a.Addr(), 0)
	m.mu.Unlock()
	return dev != nil || m.resolver.Local(a.Addr())
}

// bind is rdma_bind_addr_dst. The caller says whether the host has the source address
// (hostHas). Manager.mu is held.
func (id *ID) bind(src, dst Addr, ours bool) error {
	if src.family() == famNone {
		return refuse(unix.EAFNOSUPPORT, "addr", "has no address family of RDMA CM", "use IPv4 or IPv6")
	}
	if id.state != StateIdle {
		return id.wrongState("bind or resolve a new id")
	}
	before := id.binding
	if err := id.bindTo(src, dst, ours); err != nil {
		id.binding = before
		return err
	}
	id.state = StateAddrBound
	return nil
}

// binding is what Bind sets. If Bind fails, it does not change.
type binding struct {
	dev      *Device // nil: none yet, or all
	src, dst Addr
	scope    int // the network interface that the program has named; 0: none
	afOnly   bool
}

func (id *ID) bindTo(src, dst Addr, ours bool) error {
	scope, err := linkLocalScope(src)
	if err != nil {
		return err
	}
	if scope != 0 {
		id.scope = scope
	}
	id.src, id.dst = src, dst
	if dst.family() == famNone {
		id.dst = unspecified(src.family())
	}
	// A loopback address is a wildcard, unless a device has it.
	if !src.isAny() || src.isLoopback() && src.AFIB == nil && id.m.deviceAt(id.owner, src.Addr(), 0) != nil {
		if err := id.acquire(ours); err != nil {
			return err
		}
	}
	if !id.afSet {
		id.afOnly = src.family() == famIPv4 || src.family() == famIPv6 && id.m.resolver.IPv6Only()
	}
	space, err := id.portSpace()
	if err != nil {
		return err
	}
	return id.m.ports.take(id, space)
}

// linkLocalScope returns the network interface that the zone of a link-local address
// names; 0 for other addresses. A link-local address must have a zone
// (cma_check_linklocal).
func linkLocalScope(a Addr) (int, error) {
	if a.family() != famIPv6 || !a.Addr().IsLinkLocalUnicast() {
		return 0, nil
	}
	scope := route.ZoneIndex(a.Addr())
	if scope == 0 {
		return 0, refuse(unix.EINVAL, "addr", "is link-local and names no interface", "set sin6_scope_id")
	}
	return scope, nil
}

// acquire finds the device of the source address (cma_translate_addr and
// cma_acquire_dev_by_src_ip).
func (id *ID) acquire(ours bool) error {
	if id.src.AFIB != nil { // only InfiniBand ports have such addresses
		return refuse(unix.ENODEV, "addr", "is of AF_IB, which RoCE ports lack", "use IPv4 or IPv6")
	}
	dev := id.m.deviceAt(id.owner, id.src.Addr(), id.scope)
	switch {
	case id.src.Addr().Is4In6(): // no interface has it, although a GID looks like it
		return refuse(unix.EADDRNOTAVAIL, "addr", "is IPv4 in the form of IPv6", "use AF_INET")
	case dev == nil && id.scope == 0 && !ours:
		return refuse(unix.EADDRNOTAVAIL, "addr", "is of no interface of this host", "choose an address that gorxe status lists")
	case id.space == wire.PortSpaceIPoIB:
		return errIPoIB
	case dev == nil:
		return refuse(unix.ENODEV, "addr", "is of an interface that has no device", "choose an address that gorxe status lists")
	}
	id.dev = dev
	return nil
}

// portSpace returns the port space in which the ID takes a port. With AF_IB the service
// ID names it (cma_select_ib_ps). Bits of the service ID that the program left out are
// filled in.
func (id *ID) portSpace() (wire.PortSpace, error) {
	ib := id.src.AFIB
	if ib == nil {
		return id.space, nil
	}
	const spaceMask = ^uint64(0xffff)
	mask := ib.Mask & spaceMask
	for _, space := range []wire.PortSpace{wire.PortSpaceIB, wire.PortSpaceTCP, wire.PortSpaceUDP} {
		of := wire.ServiceID(space, 0)
		if (id.space == wire.PortSpaceIB || id.space == space) && ib.ServiceID&mask == of&mask {
			bound := *ib
			bound.ServiceID = of | uint64(id.src.port())
			bound.Mask |= spaceMask
			id.src.AFIB = &bound
			return space, nil
		}
	}
	return 0, refuse(unix.EPROTONOSUPPORT, "addr", "has a service ID of another port space", "use the service ID of the id's port space")
}

// service returns the service ID of an address in the ID's port space
// (rdma_get_service_id).
func (id *ID) service(a *Addr) uint64 {
	if a.AFIB != nil {
		return a.AFIB.ServiceID
	}
	return wire.ServiceID(id.space, a.port())
}
