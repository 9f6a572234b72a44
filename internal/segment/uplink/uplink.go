package uplink

import (
	"net"
	"os"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/ether"
)

// Uplink is a packet socket on an interface.
type Uplink struct {
	file *os.File
	conn conn

	// Frames that were lost: the socket's buffer was full, the interface was down, or the frame was
	// one that cannot be cut to the length that the network has.
	SendDrops, ReceiveDrops atomic.Uint64
}

// conn is syscall.RawConn.
type conn interface {
	Control(f func(fd uintptr)) error
	Read(f func(fd uintptr) (done bool)) error
}

// Open makes a packet socket on an interface. An interface that is a loopback has none, because its
// frames would come back.
func Open(iface string) (*Uplink, error) {
	i, err := net.InterfaceByName(iface)
	if err != nil {
		return nil, err
	}
	if i.Flags&net.FlagLoopback != 0 {
		return nil, unix.EOPNOTSUPP
	}
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	if err := setUp(fd, i.Index); err != nil {
		unix.Close(fd)
		return nil, err
	}
	u := &Uplink{file: os.NewFile(uintptr(fd), "packet socket")}
	if u.conn, err = u.file.SyscallConn(); err != nil {
		u.file.Close()
		return nil, err
	}
	return u, nil
}

func setUp(fd, index int) error {
	for _, o := range []struct{ name, value int }{
		{unix.PACKET_VNET_HDR, 1},        // says what the kernel has left undone
		{unix.PACKET_AUXDATA, 1},         // has the VLAN tag, which the kernel takes away
		{unix.PACKET_IGNORE_OUTGOING, 1}, // of this socket, too
	} {
		if err := unix.SetsockoptInt(fd, unix.SOL_PACKET, o.name, o.value); err != nil {
			return os.NewSyscallError("setsockopt", err)
		}
	}
	for _, name := range []int{unix.SO_RCVBUF, unix.SO_SNDBUF} {
		unix.SetsockoptInt(fd, unix.SOL_SOCKET, name, socketBuffer) //nolint:errcheck // a smaller buffer loses more
	}
	// Adapters receive for the addresses of flow rules, too, which the interface does not know.
	all := unix.PacketMreq{Ifindex: int32(index), Type: unix.PACKET_MR_PROMISC}
	if err := unix.SetsockoptPacketMreq(fd, unix.SOL_PACKET, unix.PACKET_ADD_MEMBERSHIP, &all); err != nil {
		return os.NewSyscallError("setsockopt", err)
	}
	to := unix.SockaddrLinklayer{Protocol: networkOrder(unix.ETH_P_ALL), Ifindex: index}
	return os.NewSyscallError("bind", unix.Bind(fd, &to))
}

// networkOrder is htons.
func networkOrder(n uint16) uint16 {
	b := [2]byte{byte(n >> 8), byte(n)}
	return hostOrder.Uint16(b[:])
}

// Send implements segment.Uplink.
func (u *Uplink) Send(frame []byte) {
	var head [headSize]byte
	iov := [][]byte{head[:], frame}
	lost := true
	if u.conn.Control(func(fd uintptr) {
		_, err := unix.SendmsgBuffers(int(fd), iov, nil, nil, unix.MSG_DONTWAIT)
		lost = err != nil
	}) != nil || lost {
		u.SendDrops.Add(1)
	}
}

// Receive implements segment.Uplink.
func (u *Uplink) Receive(arrive func(frame []byte)) {
	r := receiver{u: u, arrive: arrive, buf: make([]byte, headSize+vlanSize+frameRoom), aux: make([]byte, auxRoom)}
	go func() {
		u.conn.Read(func(fd uintptr) bool { return r.run(int(fd)) }) //nolint:errcheck // it is closed
	}()
}

// Close implements segment.Uplink.
func (u *Uplink) Close() { u.file.Close() }

// receiver receives frames, in one goroutine.
type receiver struct {
	u        *Uplink
	arrive   func([]byte)
	buf, aux []byte
	segment  []byte
}

// run receives what is there, and reports false: more will come.
func (r *receiver) run(fd int) (done bool) {
	for {
		n, auxLen, flags, _, err := unix.Recvmsg(fd, r.buf, r.aux, unix.MSG_DONTWAIT)
		switch {
		case err == unix.EAGAIN:
			return false
		case err == unix.EINTR, err == unix.ENETDOWN:
			continue
		case err != nil:
			return true
		case flags&unix.MSG_TRUNC != 0 || n < headSize:
			r.u.ReceiveDrops.Add(1)
			continue
		}
		head, frame := parseHead(r.buf[:n]), r.buf[headSize:n]
		if tag, ok := parseAux(r.aux[:auxLen]); ok && len(frame) >= ether.HeaderSize {
			frame = r.insert(frame, tag)
		}
		r.finish(frame, head)
	}
}

// tcpHeaders returns how long the headers of a TCP frame are; 0: it is none.
func tcpHeaders(frame []byte) int {
	f := ether.Parse(frame)
	if f.L4 == 0 || f.Proto != ether.ProtoTCP {
		return 0
	}
	return f.L4 + int(frame[f.L4+12]>>4)*4 // RFC 9293, 3.1: the data offset
}

// insert puts a VLAN tag back, in place.
func (r *receiver) insert(frame []byte, t tag) []byte {
	n := len(frame)
	frame = frame[:n+vlanSize]
	copy(frame[macs+vlanSize:], frame[macs:n])
	copy(frame[macs:], t[:])
	return frame
}

// finish does what the kernel has left to the interface, and hands the frame on.
func (r *receiver) finish(frame []byte, h head) {
	if h.gso == unix.VIRTIO_NET_HDR_GSO_NONE {
		if h.needsSum {
			f := ether.Parse(frame)
			f.SetSums(false, true)
		}
		r.arrive(frame)
		return
	}
	if r.segment == nil {
		r.segment = make([]byte, len(r.buf))
	}
	segments, err := ether.Segments(frame, tcpHeaders(frame), int(h.size), r.segment)
	if err != nil {
		r.u.ReceiveDrops.Add(1)
		return
	}
	for s := range segments {
		r.arrive(s)
	}
}
