package rocev2

import (
	"errors"
	"math/rand/v2"
	"net/netip"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// The range of UDP source ports: the upper two bits are set and 14 bits vary, as with
// Linux and network cards. The specification leaves the range open, but requires one
// port for packets that must stay in order (IBA A17.3.2.1, A17.9.4).
const (
	sourcePortFirst = 0xC000
	sourcePortCount = 0x4000
)

// endpoint is everything the port holds for one of its addresses.
type endpoint struct {
	addr  netip.Addr
	rx    *receiver
	fds   []int    // sending sockets, one for each of ports
	ports []uint16 // in order of creation; never changes
	noGSO bool     // this kernel has no UDP_SEGMENT
}

// socketFor returns the index of the socket that stands for the source port of a
// route. It is always the same one, so that a flow keeps its path.
func (e *endpoint) socketFor(want uint16) int {
	return int(want) % len(e.ports)
}

// openEndpoint binds the sockets of one address. It binds the receiving socket first,
// because users meet only the conflicts of that one.
func (p *Port) openEndpoint(addr netip.Addr) (*endpoint, error) {
	rx, err := p.openReceiver(addr)
	if err != nil {
		return nil, err
	}
	e := &endpoint{addr: addr, rx: rx, noGSO: p.cfg.NoGSO}
	for range p.cfg.SourcePorts {
		fd, port, err := p.openSource(addr)
		if err != nil {
			e.closeSources()
			rx.close()
			return nil, err
		}
		e.fds = append(e.fds, fd)
		e.ports = append(e.ports, port)
	}
	if !e.noGSO {
		_, err := unix.GetsockoptInt(e.fds[0], unix.IPPROTO_UDP, unix.UDP_SEGMENT)
		e.noGSO = err != nil
	}
	if e.noGSO {
		p.degradeGSO("the kernel has no UDP_SEGMENT")
	}
	return e, nil
}

func (e *endpoint) closeSources() {
	for _, fd := range e.fds {
		unix.Close(fd)
	}
}

// openSource makes a sending socket on a free port of the RoCEv2 range.
func (p *Port) openSource(addr netip.Addr) (fd int, port uint16, err error) {
	fail := func(fd int, what string, err error) (int, uint16, error) {
		if fd >= 0 {
			unix.Close(fd)
		}
		return -1, 0, &PortError{Op: what, Object: "sending socket on " + addr.String(),
			Kind: permissionKind(err), Cause: err}
	}
	fd, err = unix.Socket(family(addr), unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.IPPROTO_UDP)
	if err != nil {
		return fail(-1, "create", os.NewSyscallError("socket", err))
	}
	if err := p.setSourceOptions(fd, addr); err != nil {
		return fail(fd, "configure", err)
	}
	// Try every port once, from a random one on, so that several devices spread over
	// the range.
	start := rand.IntN(sourcePortCount)
	for i := range sourcePortCount {
		port = uint16(sourcePortFirst + (start+i)%sourcePortCount)
		err = unix.Bind(fd, bindAddr(addr, port, p.scope(addr)))
		if err == nil {
			return fd, port, nil
		}
		if !errors.Is(err, unix.EADDRINUSE) {
			break
		}
	}
	return fail(fd, "bind", os.NewSyscallError("bind", err))
}

// setSourceOptions sets don't-fragment always, so that the IPv4 identification is the
// index of the segment (see the package documentation).
func (p *Port) setSourceOptions(fd int, addr netip.Addr) error {
	// No peer sends to these sockets, so packets that arrive get no memory.
	tryInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, 0)
	setBuffer(fd, unix.SO_SNDBUF, unix.SO_SNDBUFFORCE, p.cfg.SocketBuffer)
	if addr.Is4() {
		if err := setInt(fd, unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_DO, "IP_MTU_DISCOVER"); err != nil {
			return err
		}
		if p.cfg.NoGSO {
			// RoCEv2 may leave the UDP checksum out (the ICRC covers the packet),
			// which saves a pass over the data; the kernel refuses it with GSO.
			tryInt(fd, unix.SOL_SOCKET, unix.SO_NO_CHECK, 1)
		}
		mreq := &unix.IPMreqn{Address: addr.As4(), Ifindex: int32(p.at.Load().index)}
		err := unix.SetsockoptIPMreqn(fd, unix.IPPROTO_IP, unix.IP_MULTICAST_IF, mreq)
		if errors.Is(err, unix.ENOPROTOOPT) {
			return nil // qemu-user does not know the option: the host's route decides
		}
		return os.NewSyscallError("IP_MULTICAST_IF", err)
	}
	if err := setInt(fd, unix.IPPROTO_IPV6, unix.IPV6_V6ONLY, 1, "IPV6_V6ONLY"); err != nil {
		return err
	}
	if err := setInt(fd, unix.IPPROTO_IPV6, unix.IPV6_MTU_DISCOVER, unix.IPV6_PMTUDISC_DO, "IPV6_MTU_DISCOVER"); err != nil {
		return err
	}
	// Send the flow label of the address; without this option the label is 0.
	const ipv6FlowinfoSend = 33 // linux/in6.h
	tryInt(fd, unix.IPPROTO_IPV6, ipv6FlowinfoSend, 1)
	return setInt(fd, unix.IPPROTO_IPV6, unix.IPV6_MULTICAST_IF, p.at.Load().index, "IPV6_MULTICAST_IF")
}

func setInt(fd, level, opt, value int, name string) error {
	return os.NewSyscallError("setsockopt "+name, unix.SetsockoptInt(fd, level, opt, value))
}

// tryInt sets an option that the kernel may lack.
func tryInt(fd, level, opt, value int) { _ = unix.SetsockoptInt(fd, level, opt, value) }

// setBuffer asks for a socket buffer, beyond the administrator's limit if this
// process may exceed it, and returns the size that the kernel gave.
func setBuffer(fd, opt, force, size int) int {
	if unix.SetsockoptInt(fd, unix.SOL_SOCKET, force, size) != nil {
		tryInt(fd, unix.SOL_SOCKET, opt, size)
	}
	got, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, opt)
	if err != nil {
		return 0
	}
	return got
}

func family(addr netip.Addr) int {
	if addr.Is4() {
		return unix.AF_INET
	}
	return unix.AF_INET6
}

func bindAddr(addr netip.Addr, port uint16, scope uint32) unix.Sockaddr {
	if addr.Is4() {
		return &unix.SockaddrInet4{Addr: addr.As4(), Port: int(port)}
	}
	return &unix.SockaddrInet6{Addr: addr.As16(), Port: int(port), ZoneId: scope}
}

// scope returns the IPv6 scope of an address: the interface for a link-local one.
func (p *Port) scope(addr netip.Addr) uint32 {
	if addr.Is6() && (addr.IsLinkLocalUnicast() || addr.IsLinkLocalMulticast() || addr.IsInterfaceLocalMulticast()) {
		return uint32(p.at.Load().index)
	}
	return 0
}

// bindError explains a refused bind of the RoCEv2 port.
func bindError(addr netip.Addr, port uint16, err error) error {
	e := &PortError{Op: "bind", Object: "UDP port " + strconv.Itoa(int(port)) + " on " + addr.String(), Addr: addr, Cause: err}
	switch {
	case errors.Is(err, unix.EADDRINUSE):
		e.Kind = ErrPortTaken
		e.Hint = "by another gorxe, or by the kernel's rdma_rxe (see `rdma link`, remove it with `rdma link delete`); " +
			"stop that one, or give this device another address"
	case errors.Is(err, unix.EADDRNOTAVAIL):
		e.Kind = ErrNoAddress
		e.Hint = "assign the address to an interface, or choose another (`ip address`)"
	case permissionKind(err) != nil:
		e.Kind = ErrPermission
		e.Hint = "a security policy or a container's restriction forbids it"
	}
	return e
}
