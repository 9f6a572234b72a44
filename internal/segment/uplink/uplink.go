package uplink

import (
	"net"
	"os"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/segment/ether"
	"github.com/gorxe/gorxe/internal/sys/mmsg"
)

// Uplink is a packet socket on an interface.
type Uplink struct {
	file *os.File
	conn conn

	// ReceiveDrops counts frames that were lost: too long, or not to be cut to the length that the
	// network has.
	ReceiveDrops atomic.Uint64
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

// Send implements segment.Sender.
func (u *Uplink) Send(frames [][]byte) (taken int) {
	var head [headSize]byte // nothing is left to the kernel
	return mmsg.SendFrames(u.conn, head[:], frames, 0)
}

// Receive implements segment.Uplink.
func (u *Uplink) Receive(arrive func(frame []byte)) {
	r := receiver{u: u, arrive: arrive, in: mmsg.NewInbox(headSize+frameRoom, auxRoom, vlanSize)}
	go r.run()
}

// Close implements segment.Uplink.
func (u *Uplink) Close() { u.file.Close() }

// receiver receives frames, in one goroutine.
type receiver struct {
	u       *Uplink
	arrive  func([]byte)
	in      *mmsg.Inbox
	segment []byte
}

// run receives until the end.
func (r *receiver) run() {
	for {
		n, err := r.in.Wait(r.u.conn)
		if err != nil && err != unix.ENETDOWN {
			return
		}
		for i := range n {
			r.take(r.in.Message(i))
		}
	}
}

// take takes a message.
func (r *receiver) take(message, aux []byte, whole bool) {
	if !whole || len(message) < headSize {
		r.u.ReceiveDrops.Add(1)
		return
	}
	head, frame := parseHead(message), message[headSize:]
	if tag, ok := parseAux(aux); ok && len(frame) >= ether.HeaderSize {
		frame = insert(frame, tag)
	}
	r.finish(frame, head)
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
func insert(frame []byte, t tag) []byte {
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
		r.segment = make([]byte, frameRoom+vlanSize)
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
