package rocev2

import (
	"net/netip"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/gorxe/gorxe/internal/standby"
	"golang.org/x/sys/unix"
)

// Config.Receiver may be caught: the engine writes to memory of programs, which
// may be such that a write never returns.
const (
	// callLimit is how long one call may take before it is suspected to be caught,
	// and another goroutine receives in its stead. A batch takes well under a
	// millisecond.
	callLimit = 20 * time.Millisecond
	// maxReaders bounds the goroutines, and with them threads and buffers of 1 MiB,
	// that one socket may have in such calls. Programs of several users may hold up
	// some each (interpose.Held).
	maxReaders = 128
	// closePatience is how long Close and the removal of an address wait for a
	// call to return.
	closePatience = time.Second
	// receiveRoom is how many times Config.SocketBuffer a receiving socket has: what
	// does not fit is lost, for good if no window bounds the sender (UC).
	receiveRoom = 4
)

// receiver owns one receiving socket. It is bound to one address, so what it
// receives was sent to that address. One reader at a time reads it.
type receiver struct {
	port *Port
	file *os.File
	raw  syscall.RawConn
	addr netip.Addr // the address it is bound to, unicast or multicast
	room int        // bytes of SO_RCVBUF
	role *standby.Role

	readers     atomic.Int32 // that there have been
	lastDropped uint32       // SO_RXQ_OVFL's count so far; the current reader's
}

// openReceiver binds the RoCEv2 port on addr.
func (p *Port) openReceiver(addr netip.Addr) (*receiver, error) {
	fd, err := unix.Socket(family(addr), unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.IPPROTO_UDP)
	if err != nil {
		return nil, &PortError{Op: "create", Object: "receiving socket on " + addr.String(),
			Kind: permissionKind(err), Cause: os.NewSyscallError("socket", err)}
	}
	if err := setReceiveOptions(fd, addr); err != nil {
		unix.Close(fd)
		return nil, &PortError{Op: "configure", Object: "receiving socket on " + addr.String(),
			Kind: permissionKind(err), Cause: err}
	}
	if !p.cfg.NoGRO {
		if err := unix.SetsockoptInt(fd, unix.IPPROTO_UDP, unix.UDP_GRO, 1); err != nil && !p.groOff.Swap(true) {
			p.log.Warn("no UDP receive offload: receiving packet by packet, which is slower",
				"interface", p.name, "reason", err)
		}
	}
	room := setBuffer(fd, unix.SO_RCVBUF, unix.SO_RCVBUFFORCE, receiveRoom*p.cfg.SocketBuffer)
	if err := unix.Bind(fd, bindAddr(addr, p.cfg.Port, p.scope(addr))); err != nil {
		unix.Close(fd)
		return nil, bindError(addr, p.cfg.Port, os.NewSyscallError("bind", err))
	}
	// A file over a non-blocking descriptor waits in the runtime's poller: the
	// goroutine parks, and Close wakes it.
	file := os.NewFile(uintptr(fd), "udp "+addr.String())
	raw, err := file.SyscallConn()
	if err != nil {
		file.Close()
		return nil, &PortError{Op: "configure", Object: "receiving socket on " + addr.String(), Cause: err}
	}
	return &receiver{port: p, file: file, raw: raw, addr: addr, room: room}, nil
}

func setReceiveOptions(fd int, addr netip.Addr) error {
	tryInt(fd, unix.SOL_SOCKET, unix.SO_RXQ_OVFL, 1)
	if addr.IsMulticast() {
		// Several devices of a host may listen to one group.
		if err := setInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1, "SO_REUSEADDR"); err != nil {
			return err
		}
	}
	if addr.Is4() {
		// Only groups that this very socket joined, not every one of the host's.
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
	r.role = r.port.watch.Start(maxReaders, func(h *standby.Worker) {
		if r.readers.Add(1) > 1 {
			r.port.counters.ReceiverTakeovers.Add(1)
		}
		newReader(r).run(h)
	})
}

// stop closes the socket and returns when the last call of Config.Receiver has,
// or at the deadline if that is caught; then it says so in the log.
func (r *receiver) stop(deadline time.Time) {
	r.file.Close()
	if r.role != nil && !r.role.Stop(time.Until(deadline)) {
		r.port.log.Warn("a packet's memory does not answer: left the receiver waiting for it",
			"interface", r.port.name, "address", r.addr)
	}
}
