package rdmacm

import (
	"context"
	"net"
	"net/netip"
	"strconv"

	"github.com/gorxe/gorxe/internal/cm/rdmacm"
)

// Addr is the address of one end: an IP address, and a port of an RDMA port space.
type Addr struct{ netip.AddrPort }

// Network returns "rdma".
func (Addr) Network() string { return "rdma" }

var _ net.Addr = Addr{}

func internalAddr(a netip.AddrPort) rdmacm.Addr {
	return rdmacm.Addr{AddrPort: netip.AddrPortFrom(a.Addr().Unmap(), a.Port())}
}

// ResolveAddr returns the address that "host:port" means, such as "10.0.0.2:7471",
// "[fe80::1%eth0]:7471" or "localhost:7471" (rdma_getaddrinfo). An empty host is the
// wildcard address of IPv6, which also stands for IPv4. The port must be a number.
func ResolveAddr(ctx context.Context, address string) (Addr, error) {
	const op = "ResolveAddr"
	host, service, err := net.SplitHostPort(address)
	if err != nil {
		return Addr{}, opError(op, address, err)
	}
	port, err := strconv.ParseUint(service, 10, 16)
	if err != nil {
		return Addr{}, &OpError{Op: op, Arg: address, Why: "the port is not a number from 0 to 65535", Err: ErrInvalid}
	}
	if host == "" {
		return Addr{netip.AddrPortFrom(netip.IPv6Unspecified(), uint16(port))}, nil
	}
	if ip, err := netip.ParseAddr(host); err == nil { // with its zone, which LookupNetIP drops
		return Addr{netip.AddrPortFrom(ip.Unmap(), uint16(port))}, nil
	}
	ips, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return Addr{}, opError(op, address, err)
	}
	best := ips[0]
	for _, ip := range ips { // a host with both kinds usually has its devices on IPv4
		if ip.Unmap().Is4() {
			best = ip
			break
		}
	}
	return Addr{netip.AddrPortFrom(best.Unmap(), uint16(port))}, nil
}
