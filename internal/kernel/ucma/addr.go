package ucma

import (
	"encoding/binary"
	"net/netip"
	"strconv"

	"github.com/gorxe/gorxe/internal/cm/rdmacm"
	"github.com/gorxe/gorxe/internal/kernel/uapi"
	"github.com/gorxe/gorxe/wire"
)

// sizeOf returns the size of an address of a family; 0 if there is no such family
// (addr.c: rdma_addr_size).
func sizeOf(sockaddr []byte) int {
	size := 0
	switch family(sockaddr) {
	case uapi.AFInet:
		size = uapi.SizeofSockaddrIn
	case uapi.AFInet6:
		size = uapi.SizeofSockaddrIn6
	case uapi.AFIB:
		size = uapi.SizeofSockaddrIB
	}
	if size > len(sockaddr) {
		return 0 // an AF_IB address in a sockaddr_in6
	}
	return size
}

func family(sockaddr []byte) uint16 { return binary.NativeEndian.Uint16(sockaddr) }

// parse returns an address, whose family sizeOf knows.
func parse(b []byte) rdmacm.Addr {
	port := binary.BigEndian.Uint16(b[2:])
	switch family(b) {
	case uapi.AFInet:
		return rdmacm.Addr{AddrPort: netip.AddrPortFrom(netip.AddrFrom4([4]byte(b[4:8])), port)}
	case uapi.AFInet6:
		ip := netip.AddrFrom16([16]byte(b[8:24]))
		if scope := binary.NativeEndian.Uint32(b[24:]); scope != 0 && ip.Is6() && !ip.Is4In6() {
			ip = ip.WithZone(strconv.FormatUint(uint64(scope), 10))
		}
		return rdmacm.Addr{AddrPort: netip.AddrPortFrom(ip, port), Flow: binary.BigEndian.Uint32(b[4:])}
	default:
		return rdmacm.Addr{AFIB: &rdmacm.SockaddrIB{
			PKey: wire.PKey(port), FlowInfo: binary.BigEndian.Uint32(b[4:]), GID: wire.GID(b[8:24]),
			ServiceID: binary.BigEndian.Uint64(b[24:]), Mask: binary.BigEndian.Uint64(b[32:]),
			ScopeID: binary.NativeEndian.Uint64(b[40:]),
		}}
	}
}

// parseSized returns an address with its size, which must be that of its family. EINVAL.
func parseSized(a *uapi.SockaddrStorage, size uint16) (rdmacm.Addr, error) {
	if size == 0 || int(size) != sizeOf(a[:]) {
		return rdmacm.Addr{}, errAddrSize
	}
	return parse(a[:]), nil
}

// parseIP returns an IP address. EINVAL if it is something else.
func parseIP(a *uapi.SockaddrIn6) (rdmacm.Addr, error) {
	if sizeOf(a[:]) == 0 {
		return rdmacm.Addr{}, errAddrSize
	}
	return parse(a[:]), nil
}

// sockaddr returns an address as the kernel writes it, and its size. The zero Addr is all
// zeros.
func sockaddr(a rdmacm.Addr) (b uapi.SockaddrStorage, size int) {
	ip := a.Addr()
	switch {
	case a.AFIB != nil:
		return sockaddrIB(a.AFIB), uapi.SizeofSockaddrIB
	case ip.Is4():
		binary.NativeEndian.PutUint16(b[:], uapi.AFInet)
		binary.BigEndian.PutUint16(b[2:], a.Port())
		copy(b[4:], ip.AsSlice())
		return b, uapi.SizeofSockaddrIn
	case ip.Is6():
		binary.NativeEndian.PutUint16(b[:], uapi.AFInet6)
		binary.BigEndian.PutUint16(b[2:], a.Port())
		binary.BigEndian.PutUint32(b[4:], a.Flow)
		copy(b[8:], ip.AsSlice())
		binary.NativeEndian.PutUint32(b[24:], scopeOf(ip.Zone()))
		return b, uapi.SizeofSockaddrIn6
	default:
		return b, 0
	}
}

func sockaddrIB(a *rdmacm.SockaddrIB) (b uapi.SockaddrStorage) {
	binary.NativeEndian.PutUint16(b[:], uapi.AFIB)
	binary.BigEndian.PutUint16(b[2:], uint16(a.PKey))
	binary.BigEndian.PutUint32(b[4:], a.FlowInfo)
	copy(b[8:], a.GID[:])
	binary.BigEndian.PutUint64(b[24:], a.ServiceID)
	binary.BigEndian.PutUint64(b[32:], a.Mask)
	binary.NativeEndian.PutUint64(b[40:], a.ScopeID)
	return b
}

// sockaddrIn6 is sockaddr for the commands without AF_IB.
func sockaddrIn6(a rdmacm.Addr) (b uapi.SockaddrIn6) {
	full, _ := sockaddr(a)
	copy(b[:], full[:])
	return b
}

// scopeOf returns the index of the interface that a zone numbers; 0 without one.
func scopeOf(zone string) uint32 {
	n, _ := strconv.ParseUint(zone, 10, 32)
	return uint32(n)
}
