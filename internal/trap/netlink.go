package trap

import (
	"encoding/binary"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/kernel"
	"github.com/gorxe/gorxe/internal/kernel/tree"
	"github.com/gorxe/gorxe/internal/trap/inflight"
	"github.com/gorxe/gorxe/internal/trap/nlsocket"
)

// socket answers socket(AF_NETLINK, type, NETLINK_RDMA). A program that asks has a libibverbs whose
// doorbells need not be trapped (whyTrapped), whatever the answer.
func (r *receiver) socket() verdict {
	p, err := r.caller.owner()
	if err != nil {
		r.complainAloud(err)
		return fail(inflight.NoNetlink)
	}
	p.modern.Store(true)
	if r.s.cfg.Netlink == nil {
		return fail(inflight.NoNetlink)
	}
	typ := uint64(uint32(r.arg(1)))
	s, err := nlsocket.New(r.s.cfg.Budget, int(typ&^(unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK)))
	if err != nil {
		return failed(err)
	}
	o := &object{node: tree.NewSocket(s.ID().Ino), file: s, socket: s}
	return r.openPollable(o, s, typ) // SOCK_CLOEXEC and SOCK_NONBLOCK are the flags of open
}

// socketCall answers a call that only sockets have. Others get the kernel's ENOTSOCK.
func (r *receiver) socketCall() verdict {
	o := r.object(r.fd(0))
	if o == nil || o.socket == nil {
		return pass
	}
	return r.onFile(o)
}

// onSocket makes the call in hand on a socket.
func (r *receiver) onSocket(s *nlsocket.Socket) verdict {
	switch r.n.NR {
	case unix.SYS_WRITE:
		return r.sendPiece(s, nil)
	case unix.SYS_WRITEV:
		return r.sendPieces(s)
	case unix.SYS_SENDTO:
		return r.sendto(s)
	case unix.SYS_SENDMSG:
		return r.sendmsg(s)
	case unix.SYS_SENDMMSG:
		return r.sendmmsg(s)
	case unix.SYS_READ:
		return r.recv(s, oneCall, piece{r.arg(1), r.arg(2)})
	case unix.SYS_READV:
		return r.readPieces(s)
	case unix.SYS_RECVFROM:
		return r.recvfrom(s)
	case unix.SYS_RECVMSG:
		return r.recvmsg(s)
	case unix.SYS_RECVMMSG:
		return r.recvmmsg(s)
	case unix.SYS_BIND, unix.SYS_CONNECT:
		return r.address(s)
	case unix.SYS_GETSOCKNAME, unix.SYS_GETPEERNAME:
		return r.name(s)
	case unix.SYS_SETSOCKOPT:
		return r.setsockopt(s)
	case unix.SYS_GETSOCKOPT:
		return r.getsockopt(s)
	default: // ioctl
		return verdictOf(s.Ioctl(&r.caller, uint32(r.arg(1)), r.arg(2)))
	}
}

// sendNetlink answers a request that a program sends to an address.
func (r *receiver) sendNetlink(s *nlsocket.Socket, data, addr []byte) unix.Errno {
	if errno := checkNetlinkAddr(addr); errno != 0 {
		return errno
	}
	if len(data) == 0 {
		return unix.ENODATA
	}
	who, err := r.caller.credentials()
	if err != nil {
		return unix.ECONNREFUSED
	}
	req := kernel.NetlinkRequest{
		Data: data, Port: s.Port(), Dumping: s.Dumping(),
		CapAck: s.IsSet(unix.NETLINK_CAP_ACK), ExtAck: s.IsSet(unix.NETLINK_EXT_ACK),
	}
	errno := unix.Errno(0)
	r.s.cfg.Netlink.Netlink(who, &req, func(datagram []byte, dump bool) {
		if errno == 0 && s.Queue(datagram, dump) != nil {
			errno = unix.ENOBUFS
		}
	})
	s.Sync()
	return errno
}

// checkNetlinkAddr checks the address of a send. Only the kernel's is allowed to an ordinary
// user (af_netlink.c: netlink_sendmsg).
func checkNetlinkAddr(addr []byte) unix.Errno {
	switch {
	case len(addr) == 0:
		return 0
	case len(addr) < unix.SizeofSockaddrNetlink, binary.NativeEndian.Uint16(addr) != unix.AF_NETLINK:
		return unix.EINVAL
	case binary.NativeEndian.Uint64(addr[4:]) != 0: // port and groups
		return unix.EPERM
	default:
		return 0
	}
}

// readAddr reads the address that a call names.
func (r *receiver) readAddr(at uint64, size uint32) ([]byte, unix.Errno) {
	if at == 0 || size == 0 {
		return nil, 0
	}
	if size > unix.SizeofSockaddrAny {
		return nil, unix.EINVAL
	}
	b := make([]byte, size)
	if r.caller.Read(at, b) != nil {
		return nil, unix.EFAULT
	}
	return b, 0
}

// address answers bind and connect. Every socket is connected to the kernel, and to nothing else.
func (r *receiver) address(s *nlsocket.Socket) verdict {
	addr, errno := r.readAddr(r.arg(1), uint32(r.arg(2)))
	if errno != 0 {
		return fail(errno)
	}
	if r.n.NR == unix.SYS_CONNECT {
		if len(addr) >= 2 && binary.NativeEndian.Uint16(addr) == unix.AF_UNSPEC {
			return value(0)
		}
		if len(addr) == 0 {
			return fail(unix.EINVAL)
		}
		s.Port()
		return fail(checkNetlinkAddr(addr))
	}
	if len(addr) < unix.SizeofSockaddrNetlink || binary.NativeEndian.Uint16(addr) != unix.AF_NETLINK {
		return fail(unix.EINVAL)
	}
	groups := binary.NativeEndian.Uint32(addr[8:])
	if groups != 0 && !r.netAdmin() {
		return fail(unix.EPERM)
	}
	if err := s.Bind(binary.NativeEndian.Uint32(addr[4:]), groups); err != nil {
		return failed(err)
	}
	return value(0)
}

// netAdmin reports whether the caller has CAP_NET_ADMIN.
func (r *receiver) netAdmin() bool {
	who, err := r.caller.credentials()
	return err == nil && r.s.cfg.Netlink.NetAdmin(who)
}

// name answers getsockname and getpeername.
func (r *receiver) name(s *nlsocket.Socket) verdict {
	var port, groups uint32 // of the peer, the kernel
	if r.n.NR == unix.SYS_GETSOCKNAME {
		port, groups = s.Address()
	}
	return fail(r.storeAddr(port, groups, r.arg(1), r.arg(2)))
}

func (r *receiver) setsockopt(s *nlsocket.Socket) verdict {
	size := int32(r.arg(4))
	if size < 0 {
		return fail(unix.EINVAL)
	}
	b := make([]byte, min(size, nlsocket.OptionSize))
	if r.caller.Read(r.arg(3), b) != nil {
		return fail(unix.EFAULT)
	}
	if err := s.SetOption(int32(r.arg(1)), int32(r.arg(2)), b, r.netAdmin); err != nil {
		return failed(err)
	}
	return value(0)
}

func (r *receiver) getsockopt(s *nlsocket.Socket) verdict {
	var size [4]byte
	if r.caller.Read(r.arg(4), size[:]) != nil {
		return fail(unix.EFAULT)
	}
	room := int32(binary.NativeEndian.Uint32(size[:]))
	if room < 0 {
		return fail(unix.EINVAL)
	}
	b, err := s.Option(int32(r.arg(1)), int32(r.arg(2)))
	if err != nil {
		return failed(err)
	}
	b = b[:min(int(room), len(b))]
	if v := r.store(r.arg(3), b); v.errno != 0 {
		return v
	}
	return r.store(r.arg(4), binary.NativeEndian.AppendUint32(nil, uint32(len(b))))
}

// storeAddr stores an address as net/socket.c: move_addr_to_user.
func (r *receiver) storeAddr(port, groups uint32, at, sizeAt uint64) unix.Errno {
	var size [4]byte
	if r.caller.Read(sizeAt, size[:]) != nil {
		return unix.EFAULT
	}
	n, errno := r.storeName(port, groups, at, int32(binary.NativeEndian.Uint32(size[:])))
	if errno != 0 {
		return errno
	}
	return r.store(sizeAt, binary.NativeEndian.AppendUint32(nil, n)).errno
}

// storeName stores as much of an address as there is room for, and returns its whole length.
func (r *receiver) storeName(port, groups uint32, at uint64, room int32) (size uint32, errno unix.Errno) {
	if room < 0 {
		return 0, unix.EINVAL
	}
	b := binary.NativeEndian.AppendUint16(make([]byte, 0, unix.SizeofSockaddrNetlink), unix.AF_NETLINK)
	b = binary.NativeEndian.AppendUint16(b, 0)
	b = binary.NativeEndian.AppendUint32(b, port)
	b = binary.NativeEndian.AppendUint32(b, groups)
	return unix.SizeofSockaddrNetlink, r.store(at, b[:min(int(room), len(b))]).errno
}
