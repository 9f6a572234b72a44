package trap

import (
	"encoding/binary"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/kernel"
	"github.com/gorxe/gorxe/internal/quota"
	"github.com/gorxe/gorxe/internal/trap/filter"
	"github.com/gorxe/gorxe/internal/trap/handover"
	"github.com/gorxe/gorxe/internal/trap/procfs"
	"github.com/gorxe/gorxe/internal/trap/procmem"
	"github.com/gorxe/gorxe/internal/trap/usersock"
)

// netlinkSender sends the answers to the session's programs. Its socket is opened with the
// first one of a program.
type netlinkSender struct {
	mu     sync.Mutex
	sender *usersock.Sender
	closed bool
}

// open returns the sender, for a program that gets a socket.
func (n *netlinkSender) open(b *quota.Budget) (*usersock.Sender, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case n.closed:
		return nil, unix.ENODEV
	case n.sender != nil:
		return n.sender, nil
	}
	var err error
	n.sender, err = usersock.NewSender(b)
	return n.sender, err
}

// get returns the sender, nil if no program has a socket.
func (n *netlinkSender) get() *usersock.Sender {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.sender
}

func (n *netlinkSender) close() {
	n.mu.Lock()
	s := n.sender
	n.closed = true
	n.mu.Unlock()
	if s != nil {
		s.Close()
	}
}

// socket answers socket(AF_NETLINK, type, NETLINK_RDMA) with a socket of NETLINK_USERSOCK, on
// which the program's sends are trapped. A program that asks has a libibverbs whose doorbells
// need not be trapped (ringsDirectly), whatever the answer.
func (r *receiver) socket() verdict {
	p, err := r.caller.owner()
	if err != nil {
		return fail(handover.NoNetlink)
	}
	p.modern.Store(true)
	if r.s.cfg.Netlink == nil {
		return fail(handover.NoNetlink)
	}
	if _, err := r.s.netlink.open(r.s.cfg.Budget); err != nil {
		return fail(handover.NoNetlink) // a sandbox forbids AF_NETLINK
	}
	typ := int(int32(r.arg(1)))
	fd, err := usersock.Open(typ &^ unix.SOCK_CLOEXEC)
	if err != nil {
		return failed(err)
	}
	defer unix.Close(fd)
	return r.installNetlink(fd, typ&unix.SOCK_CLOEXEC != 0)
}

// installNetlink gives the program a socket. Its number is one where every write is trapped.
func (r *receiver) installNetlink(fd int, cloexec bool) verdict {
	return r.installAt(fd, cloexec, func(end uint32) (uint32, bool) {
		return r.freeFD([]filter.Range{r.s.cfg.FDs.Trapped()}, bounds{end: end}, r.unused)
	})
}

// netlinkSocket is a program's socket. There is no table of them: a call on a descriptor finds
// out what it refers to.
type netlinkSocket struct {
	sender *usersock.Sender
	port   uint32
	fd     int // this process's descriptor of it; -1 if it may not have one
}

func (n *netlinkSocket) close() {
	if n.fd >= 0 {
		unix.Close(n.fd)
	}
}

// netlinkOn finds the caller's socket behind a descriptor. The caller of netlinkOn closes it.
func (r *receiver) netlinkOn(fd int32) (*netlinkSocket, bool) {
	if !r.s.cfg.FDs.Contains(uint32(fd)) {
		return nil, false
	}
	n := &netlinkSocket{sender: r.s.netlink.get(), fd: -1}
	if n.sender == nil {
		return nil, false
	}
	if link, err := procfs.Readlink(r.procFD(fd)); err == nil && !strings.HasPrefix(link, "socket:[") {
		return nil, false
	}
	owner, err := r.caller.owner()
	if err != nil {
		return nil, false
	}
	if n.fd, err = unix.PidfdGetfd(owner.pidfd, int(fd), 0); err != nil {
		n.fd = -1
		if !procmem.Forbidden(err) {
			return nil, false
		}
		return n, r.netlinkByInode(fd, n)
	}
	if usersock.Is(n.fd) {
		if n.port, err = usersock.Port(n.fd); err == nil {
			return n, true
		}
	}
	n.close()
	return nil, false
}

// netlinkByInode is for processes whose descriptors this one may not copy. It finds sockets that
// have a port, which those of libnl and libmnl get from bind.
func (r *receiver) netlinkByInode(fd int32, n *netlinkSocket) (ok bool) {
	id, err := r.fileID(fd)
	if err != nil {
		return false
	}
	n.port, ok = usersock.PortOf(id.Ino)
	return ok
}

// dupNetlink gives a copy of a socket a number at which its calls are trapped, too.
func (r *receiver) dupNetlink(cloexec bool) verdict {
	n, ok := r.netlinkOn(r.fd(0))
	if !ok {
		return pass
	}
	defer n.close()
	if n.fd < 0 {
		return fail(unix.EMFILE) // as of a device, see StatKeeper
	}
	return r.installNetlink(n.fd, cloexec)
}

// maxNetlinkRequest bounds what a program sends in one call.
const maxNetlinkRequest = 64 << 10

// sent answers a call that sends data to an address.
func (r *receiver) sentNetlink(n *netlinkSocket, data, addr []byte) unix.Errno {
	if errno := checkNetlinkAddr(addr); errno != 0 {
		return errno
	}
	if len(data) == 0 {
		return unix.ENODATA
	}
	owner, err := r.caller.owner()
	if err != nil {
		return unix.ECONNREFUSED
	}
	req := kernel.NetlinkRequest{Data: data, Port: n.port, Dumping: n.sender.Waits(n.port)}
	if n.fd >= 0 {
		req.CapAck = usersock.Option(n.fd, unix.NETLINK_CAP_ACK)
		req.ExtAck = usersock.Option(n.fd, unix.NETLINK_EXT_ACK)
	}
	errno := unix.Errno(0)
	who := Credentials{PID: owner.tgid, UID: owner.uid, GID: owner.gid}
	r.s.cfg.Netlink.Netlink(who, &req, func(datagram []byte, dump bool) {
		if errno == 0 && n.sender.Send(n.port, datagram, dump) != nil {
			errno = unix.ENOBUFS
		}
	})
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

// sendto answers sendto and send.
func (r *receiver) sendto() verdict {
	n, ok := r.netlinkOn(r.fd(0))
	if !ok {
		return pass
	}
	defer n.close()
	addr, errno := r.readAddr(r.arg(4), uint32(r.arg(5)))
	if errno != 0 {
		return fail(errno)
	}
	return r.sendPiece(n, r.arg(1), r.arg(2), addr)
}

// sendPiece sends one piece of the program's memory.
func (r *receiver) sendPiece(n *netlinkSocket, at, size uint64, addr []byte) verdict {
	if size > maxNetlinkRequest {
		return fail(unix.EMSGSIZE)
	}
	data := make([]byte, size)
	if r.caller.Read(at, data) != nil {
		return fail(unix.EFAULT)
	}
	if errno := r.sentNetlink(n, data, addr); errno != 0 {
		return fail(errno)
	}
	return value(int64(size))
}

// writeNetlink answers write on a socket.
func (r *receiver) writeNetlink() verdict {
	n, ok := r.netlinkOn(r.fd(0))
	if !ok {
		return pass
	}
	defer n.close()
	return r.sendPiece(n, r.arg(1), r.arg(2), nil)
}

// writevNetlink answers writev on a socket.
func (r *receiver) writevNetlink() verdict {
	n, ok := r.netlinkOn(r.fd(0))
	if !ok {
		return pass
	}
	defer n.close()
	data, errno := r.gather(r.arg(1), r.arg(2))
	if errno == 0 {
		errno = r.sentNetlink(n, data, nil)
	}
	if errno != 0 {
		return fail(errno)
	}
	return value(int64(len(data)))
}

const (
	maxPieces = 1024 // UIO_MAXIOV
	sizeofIov = 16
)

// gather reads the pieces of a vector of struct iovec.
func (r *receiver) gather(at, pieces uint64) ([]byte, unix.Errno) {
	if pieces > maxPieces {
		return nil, unix.EMSGSIZE
	}
	vector := make([]byte, pieces*sizeofIov)
	if r.caller.Read(at, vector) != nil {
		return nil, unix.EFAULT
	}
	var data []byte
	for ; len(vector) > 0; vector = vector[sizeofIov:] {
		base, size := binary.NativeEndian.Uint64(vector), binary.NativeEndian.Uint64(vector[8:])
		if size > uint64(maxNetlinkRequest-len(data)) {
			return nil, unix.EMSGSIZE
		}
		end := len(data)
		data = append(data, make([]byte, size)...)
		if r.caller.Read(base, data[end:]) != nil {
			return nil, unix.EFAULT
		}
	}
	return data, 0
}

// Of struct msghdr and struct mmsghdr.
const (
	sizeofMsghdr  = 56
	sizeofMmsghdr = 64
	msgNamelen    = 8
	msgIov        = 16
	msgIovlen     = 24
	mmsgLen       = 56
)

// sendHeader sends what the struct msghdr at an address names.
func (r *receiver) sendHeader(n *netlinkSocket, at uint64) (size int, errno unix.Errno) {
	var h [sizeofMsghdr]byte
	if r.caller.Read(at, h[:]) != nil {
		return 0, unix.EFAULT
	}
	addr, errno := r.readAddr(binary.NativeEndian.Uint64(h[:]), binary.NativeEndian.Uint32(h[msgNamelen:]))
	if errno != 0 {
		return 0, errno
	}
	data, errno := r.gather(binary.NativeEndian.Uint64(h[msgIov:]), binary.NativeEndian.Uint64(h[msgIovlen:]))
	if errno != 0 {
		return 0, errno
	}
	return len(data), r.sentNetlink(n, data, addr)
}

func (r *receiver) sendmsg() verdict {
	n, ok := r.netlinkOn(r.fd(0))
	if !ok {
		return pass
	}
	defer n.close()
	size, errno := r.sendHeader(n, r.arg(1))
	if errno != 0 {
		return fail(errno)
	}
	return value(int64(size))
}

// sendmmsg sends several messages. After one that fails, the others are not sent.
func (r *receiver) sendmmsg() verdict {
	n, ok := r.netlinkOn(r.fd(0))
	if !ok {
		return pass
	}
	defer n.close()
	count := min(uint64(uint32(r.arg(2))), maxPieces)
	for i := range count {
		at := r.arg(1) + i*sizeofMmsghdr
		size, errno := r.sendHeader(n, at)
		if errno == 0 {
			errno = r.store(at+mmsgLen, binary.NativeEndian.AppendUint32(nil, uint32(size))).errno
		}
		switch {
		case errno != 0 && i == 0:
			return fail(errno)
		case errno != 0:
			return value(int64(i))
		}
	}
	return value(int64(count))
}

// recvfrom answers a receive that asks for the sender's address. What this process sends comes
// from port 0 then, as from the kernel: vishvananda/netlink takes nothing else. Without a datagram
// the kernel answers, or waits.
func (r *receiver) recvfrom() verdict {
	flags := int(int32(r.arg(3)))
	if r.arg(4) == 0 || flags&^(unix.MSG_PEEK|unix.MSG_TRUNC|unix.MSG_DONTWAIT) != 0 {
		return pass
	}
	n, ok := r.netlinkOn(r.fd(0))
	if !ok {
		return pass
	}
	defer n.close()
	if n.fd < 0 {
		return pass
	}
	buf := make([]byte, min(r.arg(2), maxNetlinkRequest))
	got, from, err := unix.Recvfrom(n.fd, buf, flags|unix.MSG_DONTWAIT)
	switch {
	case err == unix.EAGAIN:
		return pass
	case err != nil:
		return failed(err)
	}
	if v := r.store(r.arg(1), buf[:min(got, len(buf))]); v.errno != 0 {
		return v
	}
	sender, _ := from.(*unix.SockaddrNetlink)
	if sender == nil {
		return value(int64(got))
	}
	if sender.Pid == n.sender.Port() {
		sender.Pid = 0
	}
	if errno := r.storeAddr(sender, r.arg(4), r.arg(5)); errno != 0 {
		return fail(errno)
	}
	return value(int64(got))
}

// storeAddr is net/socket.c: move_addr_to_user.
func (r *receiver) storeAddr(sa *unix.SockaddrNetlink, at, sizeAt uint64) unix.Errno {
	var size [4]byte
	if r.caller.Read(sizeAt, size[:]) != nil {
		return unix.EFAULT
	}
	room := int32(binary.NativeEndian.Uint32(size[:]))
	if room < 0 {
		return unix.EINVAL
	}
	b := binary.NativeEndian.AppendUint16(make([]byte, 0, unix.SizeofSockaddrNetlink), unix.AF_NETLINK)
	b = binary.NativeEndian.AppendUint16(b, 0)
	b = binary.NativeEndian.AppendUint32(b, sa.Pid)
	b = binary.NativeEndian.AppendUint32(b, sa.Groups)
	if v := r.store(at, b[:min(int(room), len(b))]); v.errno != 0 {
		return v.errno
	}
	return r.store(sizeAt, binary.NativeEndian.AppendUint32(nil, unix.SizeofSockaddrNetlink)).errno
}
