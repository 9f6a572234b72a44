package trap

import (
	"encoding/binary"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/kernel"
	"github.com/gorxe/gorxe/internal/trap/nlsocket"
)

// oneCall are the flags of a call without flags.
const oneCall = 0

// takeDatagram takes a datagram for a call with these flags: kernel.ErrWait if the call has to wait
// for one.
func (r *receiver) takeDatagram(s *nlsocket.Socket, flags int) ([]byte, error) {
	if flags&unix.MSG_OOB != 0 {
		return nil, unix.EOPNOTSUPP
	}
	d, err := s.Receive(flags&unix.MSG_PEEK != 0)
	if err == kernel.ErrWait && flags&unix.MSG_DONTWAIT != 0 {
		return nil, unix.EAGAIN
	}
	return d, err
}

// scatter copies a datagram into pieces of the program's memory, and returns how much fits. What
// does not fit is lost. So is a datagram that cannot be copied, as in the kernel.
func (r *receiver) scatter(d []byte, to []piece) (n int, errno unix.Errno) {
	for _, p := range to {
		part := d[n:]
		part = part[:min(uint64(len(part)), p.size)]
		if len(part) == 0 {
			continue
		}
		if errno := r.store(p.at, part).errno; errno != 0 {
			return 0, errno
		}
		n += len(part)
	}
	return n, 0
}

// recv answers a receive into pieces, whose caller does not ask for the sender's address.
func (r *receiver) recv(s *nlsocket.Socket, flags int, to ...piece) verdict {
	d, err := r.takeDatagram(s, flags)
	if err != nil {
		return verdictOf(0, err)
	}
	n, errno := r.scatter(d, to)
	if errno != 0 {
		return fail(errno)
	}
	return value(received(d, n, flags))
}

// received is what a receive returns of a datagram of which n bytes fit.
func received(d []byte, n, flags int) int64 {
	if flags&unix.MSG_TRUNC != 0 {
		return int64(len(d))
	}
	return int64(n)
}

// readPieces answers readv.
func (r *receiver) readPieces(s *nlsocket.Socket) verdict {
	to, errno := r.pieces(r.arg(1), r.arg(2))
	if errno != 0 {
		return fail(errno)
	}
	return r.recv(s, oneCall, to...)
}

// recvfrom answers recvfrom and recv. Every datagram comes from the kernel: port 0.
func (r *receiver) recvfrom(s *nlsocket.Socket) verdict {
	v := r.recv(s, int(int32(r.arg(3))), piece{r.arg(1), r.arg(2)})
	if v.kind == answered && v.errno == 0 && r.arg(4) != 0 {
		if errno := r.storeAddr(0, 0, r.arg(4), r.arg(5)); errno != 0 {
			return fail(errno)
		}
	}
	return v
}

// recvHeader receives into what the struct msghdr at an address names.
func (r *receiver) recvHeader(s *nlsocket.Socket, at uint64, flags int) (n int64, err error) {
	var h [sizeofMsghdr]byte
	if r.caller.Read(at, h[:]) != nil {
		return 0, unix.EFAULT
	}
	to, errno := r.pieces(binary.NativeEndian.Uint64(h[msgIov:]), binary.NativeEndian.Uint64(h[msgIovlen:]))
	if errno != 0 {
		return 0, errno
	}
	d, err := r.takeDatagram(s, flags)
	if err != nil {
		return 0, err
	}
	fits, errno := r.scatter(d, to)
	if errno != 0 {
		return 0, errno
	}
	// What the kernel changes in the header: the length of the address, that of control messages,
	// of which there are none, and flags (net/socket.c: ____sys_recvmsg).
	size := uint32(0)
	if name := binary.NativeEndian.Uint64(h[:]); name != 0 {
		if size, errno = r.storeName(0, 0, name, int32(binary.NativeEndian.Uint32(h[msgNamelen:]))); errno != 0 {
			return 0, errno
		}
	}
	out := uint32(flags & unix.MSG_CMSG_CLOEXEC)
	if fits < len(d) {
		out |= unix.MSG_TRUNC
	}
	binary.NativeEndian.PutUint32(h[msgNamelen:], size)
	binary.NativeEndian.PutUint64(h[msgControllen:], 0)
	binary.NativeEndian.PutUint32(h[msgFlags:], out)
	for _, field := range [][2]int{{msgNamelen, 4}, {msgControllen, 8}, {msgFlags, 4}} {
		if errno := r.store(at+uint64(field[0]), h[field[0]:field[0]+field[1]]).errno; errno != 0 {
			return 0, errno
		}
	}
	return received(d, fits, flags), nil
}

func (r *receiver) recvmsg(s *nlsocket.Socket) verdict {
	return verdictOf(r.recvHeader(s, r.arg(1), int(int32(r.arg(2)))))
}

// recvmmsg receives several messages. It waits for the first one only.
func (r *receiver) recvmmsg(s *nlsocket.Socket) verdict {
	flags := int(int32(r.arg(3))) &^ unix.MSG_WAITFORONE
	return r.severalHeaders(func(at uint64) (int64, error) {
		n, err := r.recvHeader(s, at, flags)
		flags |= unix.MSG_DONTWAIT
		return n, err
	})
}
