package trap

import (
	"encoding/binary"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/trap/nlsocket"
)

// sendto answers sendto and send.
func (r *receiver) sendto(s *nlsocket.Socket) verdict {
	addr, errno := r.readAddr(r.arg(4), uint32(r.arg(5)))
	if errno != 0 {
		return fail(errno)
	}
	return r.sendPiece(s, addr)
}

// sendPiece sends one piece of the program's memory: arguments 1 and 2.
func (r *receiver) sendPiece(s *nlsocket.Socket, addr []byte) verdict {
	at, size := r.arg(1), r.arg(2)
	if size > maxNetlinkRequest {
		return fail(unix.EMSGSIZE)
	}
	data := make([]byte, size)
	if r.caller.Read(at, data) != nil {
		return fail(unix.EFAULT)
	}
	if errno := r.sendNetlink(s, data, addr); errno != 0 {
		return fail(errno)
	}
	return value(int64(size))
}

// sendPieces answers writev.
func (r *receiver) sendPieces(s *nlsocket.Socket) verdict {
	data, errno := r.gather(r.arg(1), r.arg(2))
	if errno == 0 {
		errno = r.sendNetlink(s, data, nil)
	}
	if errno != 0 {
		return fail(errno)
	}
	return value(int64(len(data)))
}

// A piece is one of struct iovec.
type piece struct{ at, size uint64 }

const (
	maxPieces = 1024 // linux/uio.h: UIO_MAXIOV
	sizeofIov = 16   // struct iovec
)

// pieces reads a vector of struct iovec.
func (r *receiver) pieces(at, n uint64) ([]piece, unix.Errno) {
	if n > maxPieces {
		return nil, unix.EMSGSIZE
	}
	vector := make([]byte, n*sizeofIov)
	if r.caller.Read(at, vector) != nil {
		return nil, unix.EFAULT
	}
	list := make([]piece, n)
	for i := range list {
		iov := vector[i*sizeofIov:]
		list[i] = piece{binary.NativeEndian.Uint64(iov), binary.NativeEndian.Uint64(iov[8:])}
	}
	return list, 0
}

// gather reads what the pieces of a vector have.
func (r *receiver) gather(at, n uint64) ([]byte, unix.Errno) {
	list, errno := r.pieces(at, n)
	if errno != 0 {
		return nil, errno
	}
	var data []byte
	for _, p := range list {
		if p.size > uint64(maxNetlinkRequest-len(data)) {
			return nil, unix.EMSGSIZE
		}
		end := len(data)
		data = append(data, make([]byte, p.size)...)
		if r.caller.Read(p.at, data[end:]) != nil {
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
	msgControllen = 40
	msgFlags      = 48
	mmsgLen       = 56
)

// sendHeader sends what the struct msghdr at an address names.
func (r *receiver) sendHeader(s *nlsocket.Socket, at uint64) (size int64, err error) {
	var h [sizeofMsghdr]byte
	if r.caller.Read(at, h[:]) != nil {
		return 0, unix.EFAULT
	}
	addr, errno := r.readAddr(binary.NativeEndian.Uint64(h[:]), binary.NativeEndian.Uint32(h[msgNamelen:]))
	if errno != 0 {
		return 0, errno
	}
	data, errno := r.gather(binary.NativeEndian.Uint64(h[msgIov:]), binary.NativeEndian.Uint64(h[msgIovlen:]))
	if errno == 0 {
		errno = r.sendNetlink(s, data, addr)
	}
	if errno != 0 {
		return 0, errno
	}
	return int64(len(data)), nil
}

func (r *receiver) sendmsg(s *nlsocket.Socket) verdict { return verdictOf(r.sendHeader(s, r.arg(1))) }

// sendmmsg sends several messages.
func (r *receiver) sendmmsg(s *nlsocket.Socket) verdict {
	return r.severalHeaders(func(at uint64) (int64, error) { return r.sendHeader(s, at) })
}

// severalHeaders answers sendmmsg and recvmmsg: one is called for each struct msghdr. After one
// that fails, it is not called for the others.
func (r *receiver) severalHeaders(one func(at uint64) (size int64, err error)) verdict {
	count := min(uint64(uint32(r.arg(2))), maxPieces)
	for i := range count {
		at := r.arg(1) + i*sizeofMmsghdr
		size, err := one(at)
		if err == nil {
			err = r.caller.Write(at+mmsgLen, binary.NativeEndian.AppendUint32(nil, uint32(size)))
		}
		switch {
		case err != nil && i == 0:
			return verdictOf(0, err)
		case err != nil:
			return value(int64(i))
		}
	}
	return value(int64(count))
}
