// Package udpbaseline is what plain UDP does on this machine: datagrams of one
// size from one socket to another with GSO and GRO, and nothing on top.
// Benchmarks of the device run it beside their own figures, at the same segment
// size, to say what the protocol costs. It is for benchmarks only.
package udpbaseline

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync/atomic"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

const (
	maxBytes    = 65469 // of one GSO send; see rocev2
	maxSegments = 64    // any kernel with GSO takes as many
	bufferBytes = 8 << 20
)

// End is where a socket is opened.
type End struct {
	Addr netip.Addr
	// Do calls a function where the address exists, as in another network
	// namespace; nil: here.
	Do func(func() error) error
}

// The ends of pairs that are not asked to be elsewhere.
var (
	loopbackA = End{Addr: netip.AddrFrom4([4]byte{127, 0, 255, 1})}
	loopbackB = End{Addr: netip.AddrFrom4([4]byte{127, 0, 255, 2})}
)

// Loopback are two ends on loopback addresses.
func Loopback() (a, b End) { return loopbackA, loopbackB }

// Pair is a sending and a receiving socket.
type Pair struct {
	tx, rx  *net.UDPConn
	dst     netip.AddrPort
	segment int
	window  int64 // bytes under way at most, so that no datagram is lost

	buf, oob []byte
	received atomic.Int64
	progress chan struct{} // holds a token when received has grown
	done     chan struct{}
}

// New opens a pair on loopback addresses that sends datagrams of segment bytes.
func New(segment int) (*Pair, error) { return Between(segment, loopbackA, loopbackB) }

// Between opens a pair that sends datagrams of segment bytes from one end to the
// other.
func Between(segment int, from, to End) (*Pair, error) {
	if segment < 1 || segment > maxBytes {
		return nil, fmt.Errorf("udpbaseline: segment of %d bytes is outside 1 to %d", segment, maxBytes)
	}
	p := &Pair{segment: segment, progress: make(chan struct{}, 1), done: make(chan struct{})}
	var err error
	if p.rx, err = to.listen(); err != nil {
		return nil, err
	}
	if p.tx, err = from.listen(); err != nil {
		_ = p.rx.Close()
		return nil, err
	}
	p.dst = p.rx.LocalAddr().(*net.UDPAddr).AddrPort()
	room, err := receiveRoom(p.rx)
	if err != nil {
		_ = p.tx.Close()
		_ = p.rx.Close()
		return nil, err
	}
	p.window = int64(min(room/4, 1<<20)) // the kernel counts its own overhead too
	n := max(1, min(maxBytes/segment, maxSegments))
	p.buf = make([]byte, n*segment)
	if n > 1 {
		p.oob = segmentControl(segment)
	}
	go p.receive()
	return p, nil
}

// Message is the bytes of one send call.
func (p *Pair) Message() int { return len(p.buf) }

// Close releases the sockets.
func (p *Pair) Close() {
	_ = p.tx.Close()
	_ = p.rx.Close()
	<-p.done
}

// Transfer sends total bytes, in whole segments, and returns when the last has
// been received. It does not allocate.
func (p *Pair) Transfer(total int64) error {
	end := p.received.Load() + total
	sent := end - total
	for sent < end {
		for sent-p.received.Load() >= p.window {
			<-p.progress
		}
		n := min(int64(len(p.buf)), end-sent)
		n = max(n/int64(p.segment)*int64(p.segment), min(n, int64(p.segment)))
		oob := p.oob
		if n <= int64(p.segment) {
			oob = nil
		}
		if _, _, err := p.tx.WriteMsgUDPAddrPort(p.buf[:n], oob, p.dst); err != nil {
			return fmt.Errorf("udpbaseline: %w", err)
		}
		sent += n
	}
	for p.received.Load() < end {
		<-p.progress
	}
	return nil
}

func (p *Pair) receive() {
	defer close(p.done)
	buf, oob := make([]byte, 65536), make([]byte, 64)
	for {
		n, _, _, _, err := p.rx.ReadMsgUDPAddrPort(buf, oob)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		p.received.Add(int64(n))
		select {
		case p.progress <- struct{}{}:
		default:
		}
	}
}

// Benchmark measures the transfer of message bytes per iteration.
func Benchmark(b *testing.B, segment int, message int64) {
	p, err := New(segment)
	if err != nil {
		b.Fatal(err)
	}
	defer p.Close()
	b.SetBytes(message)
	b.ReportAllocs()
	b.ResetTimer()
	if err := p.Transfer(message * int64(b.N)); err != nil {
		b.Fatal(err)
	}
}

func (e End) listen() (c *net.UDPConn, err error) {
	open := func() (err error) {
		c, err = net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(e.Addr, 0)))
		return err
	}
	if e.Do == nil {
		err = open()
	} else {
		err = e.Do(open)
	}
	if err != nil {
		return nil, fmt.Errorf("udpbaseline: %w", err)
	}
	return c, nil
}

// receiveRoom switches GRO on and makes the buffer large; it returns its size.
func receiveRoom(c *net.UDPConn) (room int, err error) {
	err = control(c, func(fd int) error {
		if err := unix.SetsockoptInt(fd, unix.IPPROTO_UDP, unix.UDP_GRO, 1); err != nil {
			return fmt.Errorf("udpbaseline: UDP_GRO: %w", err)
		}
		if unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, bufferBytes) != nil {
			_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, bufferBytes)
		}
		var err error
		room, err = unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF)
		return err
	})
	return room, err
}

func control(c syscall.Conn, fn func(fd int) error) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	if e := raw.Control(func(fd uintptr) { err = fn(int(fd)) }); e != nil {
		return e
	}
	return err
}

// segmentControl is the control message that asks for GSO. Its header is a
// length of one word, a level and a type.
func segmentControl(segment int) []byte {
	b := make([]byte, unix.CmsgSpace(2))
	if unix.SizeofCmsghdr == 16 {
		binary.NativeEndian.PutUint64(b, uint64(unix.CmsgLen(2)))
	} else {
		binary.NativeEndian.PutUint32(b, uint32(unix.CmsgLen(2)))
	}
	h := b[unix.SizeofCmsghdr-8:]
	binary.NativeEndian.PutUint32(h, unix.IPPROTO_UDP)
	binary.NativeEndian.PutUint32(h[4:], unix.UDP_SEGMENT)
	binary.NativeEndian.PutUint16(h[8:], uint16(segment))
	return b
}
