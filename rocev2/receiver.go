package rocev2

import (
	"cmp"
	"net/netip"
	"os"
	"sync/atomic"
	"time"

	"github.com/gorxe/gorxe/internal/sched/standby"
	"golang.org/x/sys/unix"
)

// receiver owns one receiving socket. The socket is bound to one address, so every
// packet that it receives was sent to that address. One reader at a time reads it.
type receiver struct {
	*socket
	port *Port
	addr netip.Addr // the address it is bound to, unicast or multicast
	room int        // bytes of SO_RCVBUF
	role *standby.Role

	readers atomic.Int32 // started so far
	// packets that the socket had dropped when countDrops looked; under drops.mu
	dropped uint32
}

// openReceiver binds the RoCEv2 port on addr.
func (p *Port) openReceiver(addr netip.Addr) (*receiver, error) {
	fd, err := unix.Socket(family(addr), unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.IPPROTO_UDP)
	if err != nil {
		return nil, &PortError{Op: "create", Object: "receiving socket on " + addr.String(),
			Kind: permissionKind(err), Cause: os.NewSyscallError("socket", err)}
	}
	if err := cmp.Or(setReceiveOptions(fd, addr), p.cfg.Threads.prepare(fd)); err != nil {
		unix.Close(fd)
		return nil, &PortError{Op: "configure", Object: "receiving socket on " + addr.String(),
			Kind: permissionKind(err), Cause: err}
	}
	if !p.cfg.NoGRO {
		if err := unix.SetsockoptInt(fd, unix.IPPROTO_UDP, unix.UDP_GRO, 1); err != nil && !p.groOff.Swap(true) {
			p.log.Warn("no UDP receive offload: receiving packet by packet, which is slower",
				"interface", p.at.Load().name, "reason", err)
		}
	}
	room := setBuffer(fd, unix.SO_RCVBUF, unix.SO_RCVBUFFORCE, receiveRoom*p.cfg.SocketBuffer)
	p.filter.prepare(fd, addr) // before the first packet
	if err := unix.Bind(fd, bindAddr(addr, p.cfg.Port, p.scope(addr))); err != nil {
		unix.Close(fd)
		return nil, bindError(addr, p.cfg.Port, os.NewSyscallError("bind", err))
	}
	sock, err := openSocket(fd, "udp "+addr.String())
	if err != nil {
		return nil, &PortError{Op: "configure", Object: "receiving socket on " + addr.String(), Cause: err}
	}
	rx := &receiver{socket: sock, port: p, addr: addr, room: room}
	p.filter.join(rx)
	return rx, nil
}

func setReceiveOptions(fd int, addr netip.Addr) error {
	if addr.IsMulticast() {
		// Several devices of a host may listen to one group.
		if err := setInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1, "SO_REUSEADDR"); err != nil {
			return err
		}
	}
	if addr.Is4() {
		// Only groups that this socket joined, not all groups of the host.
		tryInt(fd, unix.IPPROTO_IP, unix.IP_MULTICAST_ALL, 0)
		if err := setInt(fd, unix.IPPROTO_IP, unix.IP_RECVTOS, 1, "IP_RECVTOS"); err != nil {
			return err
		}
		return setInt(fd, unix.IPPROTO_IP, unix.IP_RECVTTL, 1, "IP_RECVTTL")
	}
	const ipv6MulticastAll = 29 // linux/in6.h; since 4.20
	tryInt(fd, unix.IPPROTO_IPV6, ipv6MulticastAll, 0)
	if err := setInt(fd, unix.IPPROTO_IPV6, unix.IPV6_V6ONLY, 1, "IPV6_V6ONLY"); err != nil {
		return err
	}
	// rdma_rxe and many NICs send UDP checksum 0 over IPv6 as well, which a
	// socket refuses unless told otherwise (RFC 6936).
	if err := setInt(fd, unix.IPPROTO_UDP, unix.UDP_NO_CHECK6_RX, 1, "UDP_NO_CHECK6_RX"); err != nil {
		return err
	}
	if err := setInt(fd, unix.IPPROTO_IPV6, unix.IPV6_RECVTCLASS, 1, "IPV6_RECVTCLASS"); err != nil {
		return err
	}
	return setInt(fd, unix.IPPROTO_IPV6, unix.IPV6_RECVHOPLIMIT, 1, "IPV6_RECVHOPLIMIT")
}

func (r *receiver) start() {
	r.role = r.port.watch.Start(standby.MaxBlocked, func(h *standby.Worker) {
		if r.readers.Add(1) > 1 {
			r.port.counters.ReceiverTakeovers.Add(1)
		}
		newReader(r).run(h)
	})
}

// close closes the socket.
func (r *receiver) close() {
	r.port.countDrops() // for the last time
	r.port.filter.leave(r)
	r.socket.close()
}

// stop closes the socket, and waits until the last call of Config.Receiver returns.
// If the call is still blocked at the deadline, stop logs that and returns.
func (r *receiver) stop(deadline time.Time) {
	r.close()
	if r.role != nil && !r.role.Stop(time.Until(deadline)) {
		r.port.log.Warn("a program's memory does not answer; the goroutine that writes to it is left behind",
			"interface", r.port.at.Load().name, "address", r.addr)
	}
}
