package rdmacm

import (
	"net/netip"
	"strconv"

	"github.com/gorxe/gorxe/internal/cm/route"
	"github.com/gorxe/gorxe/wire"
)

// Addr is the address of an ID: an IP address and a port, or an AF_IB address. An IPv6
// zone is the name or the number of an interface. The zero Addr is no address.
type Addr struct {
	netip.AddrPort
	// Flow is sin6_flowinfo, in host order.
	Flow uint32
	// AFIB, if set, is the address; AddrPort is not used.
	AFIB *SockaddrIB
}

// SockaddrIB is struct sockaddr_ib, in host order.
type SockaddrIB struct {
	PKey      wire.PKey
	FlowInfo  uint32
	GID       wire.GID
	ServiceID uint64
	Mask      uint64 // of the service ID
	ScopeID   uint64
}

// family is the address family of an Addr.
type family uint8

const (
	famNone family = 0
	famIPv4 family = 2
	famIPv6 family = 10
	famIB   family = 27
)

func (a *Addr) family() family {
	switch {
	case a.AFIB != nil:
		return famIB
	case a.Addr().Is4():
		return famIPv4
	case a.Addr().Is6():
		return famIPv6
	}
	return famNone
}

// isZero reports whether a is the unspecified address of its family (cma_zero_addr). For
// IPv4 it is any address of 0.0.0.0/8.
func (a *Addr) isZero() bool {
	switch a.family() {
	case famIB:
		return a.AFIB.GID.IsZero()
	case famIPv4:
		return a.Addr().As4()[0] == 0
	case famIPv6:
		return a.Addr().WithZone("").IsUnspecified()
	case famNone:
	}
	return true
}

// isLoopback reports whether a is a loopback address (cma_loopback_addr).
func (a *Addr) isLoopback() bool {
	if a.family() == famIB {
		return a.AFIB.GID.Addr().Is6() && a.AFIB.GID.Addr().IsLoopback()
	}
	return !a.Addr().Is4In6() && a.Addr().IsLoopback()
}

// isAny reports whether a binds to all devices (cma_any_addr).
func (a *Addr) isAny() bool { return a.isZero() || a.isLoopback() }

// port returns the port, which an AF_IB address has in its service ID.
func (a *Addr) port() uint16 {
	if a.AFIB != nil {
		return uint16(a.AFIB.ServiceID & a.AFIB.Mask)
	}
	return a.Port()
}

// withPort returns a with another port.
func (a Addr) withPort(port uint16) Addr {
	if a.AFIB != nil {
		ib := *a.AFIB
		ib.ServiceID = ib.ServiceID&^0xffff | uint64(port)
		ib.Mask |= 0xffff
		a.AFIB = &ib
		return a
	}
	a.AddrPort = netip.AddrPortFrom(a.Addr(), port)
	return a
}

// withIP returns a with another IP address.
func (a Addr) withIP(ip netip.Addr) Addr {
	a.AddrPort = netip.AddrPortFrom(ip, a.Port())
	return a
}

// same reports whether two addresses are equal, except for the port (cma_addr_cmp). Zones
// of link-local addresses count.
func (a *Addr) same(b *Addr) bool {
	if a.family() != b.family() {
		return false
	}
	if a.AFIB != nil {
		return a.AFIB.GID == b.AFIB.GID
	}
	x, y := a.Addr(), b.Addr()
	if !x.Is6() || !x.IsLinkLocalUnicast() {
		return x.WithZone("") == y.WithZone("")
	}
	return x.WithZone("") == y.WithZone("") && route.ZoneIndex(x) == route.ZoneIndex(y)
}

// gid returns the GID of the address.
func (a *Addr) gid() wire.GID {
	if a.AFIB != nil {
		return a.AFIB.GID
	}
	return wire.GIDFromAddr(a.Addr())
}

// numbered returns a with the number of an interface as its zone, in place of the name. It
// may ask the kernel.
func (a Addr) numbered() Addr {
	if a.AFIB != nil || a.Addr().Zone() == "" {
		return a
	}
	return a.withIP(a.Addr().WithZone(strconv.Itoa(route.ZoneIndex(a.Addr()))))
}

// unspecified returns the unspecified address of a family, with port 0.
func unspecified(f family) Addr {
	switch f {
	case famIPv6:
		return Addr{AddrPort: netip.AddrPortFrom(netip.IPv6Unspecified(), 0)}
	case famIB:
		return Addr{AFIB: new(SockaddrIB)}
	case famIPv4, famNone:
	}
	return Addr{AddrPort: netip.AddrPortFrom(netip.IPv4Unspecified(), 0)}
}

func (a Addr) String() string {
	if a.AFIB != nil {
		return a.AFIB.GID.String() + " service 0x" + strconv.FormatUint(a.AFIB.ServiceID, 16)
	}
	return a.AddrPort.String()
}
