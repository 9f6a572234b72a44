package bench

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/test/netns"
)

// socketHosts are two hosts with a cable, for plain sockets that send one frame with each call.
type socketHosts struct {
	from, to *netns.Host
}

var socketFrom, socketTo = netip.MustParsePrefix("10.78.0.1/24"), netip.MustParsePrefix("10.78.0.2/24")

func newSocketHosts() (*socketHosts, error) {
	h := new(socketHosts)
	var err error
	if h.from, err = netns.New(); err != nil {
		return nil, err
	}
	if h.to, err = netns.New(); err == nil {
		err = netns.Cable(h.from, h.to, vethMTU, socketFrom, socketTo)
	}
	if err != nil {
		h.close()
		return nil, err
	}
	return h, nil
}

func (h *socketHosts) close() {
	for _, host := range []*netns.Host{h.from, h.to} {
		if host != nil {
			host.Close()
		}
	}
}

// rawSocket is a plain socket.
type rawSocket struct {
	fd       int
	overhead int // of a frame, that is not in its messages
	to       unix.Sockaddr
	head     []byte // of its messages
}

const (
	rawBuffer = 4 << 20 // as the uplink asks for
	rawType   = 0x88b5  // IEEE 802, local experiments
	rawPort   = 7000
)

// openPacket opens a packet socket on eth0.
func openPacket(h *netns.Host, _, _ netip.Addr) (s *rawSocket, err error) {
	err = h.Do(func() error {
		i, err := net.InterfaceByName("eth0")
		if err != nil {
			return err
		}
		protocol := binary.NativeEndian.Uint16(binary.BigEndian.AppendUint16(nil, rawType))
		fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, int(protocol))
		if err != nil {
			return os.NewSyscallError("socket", err)
		}
		head := append(make([]byte, 0, 14), 255, 255, 255, 255, 255, 255, 2, 0, 0, 0, 0, 1)
		s = &rawSocket{fd: fd, head: binary.BigEndian.AppendUint16(head, rawType)}
		return os.NewSyscallError("bind", unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: protocol, Ifindex: i.Index}))
	})
	return s, err
}

// openUDP opens a UDP socket. Its frames have headers of Ethernet, IPv4 and UDP.
func openUDP(h *netns.Host, at, to netip.Addr) (s *rawSocket, err error) {
	err = h.Do(func() error {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return os.NewSyscallError("socket", err)
		}
		s = &rawSocket{fd: fd, overhead: 14 + 20 + 8, to: &unix.SockaddrInet4{Port: rawPort, Addr: to.As4()}}
		return os.NewSyscallError("bind", unix.Bind(fd, &unix.SockaddrInet4{Port: rawPort, Addr: at.As4()}))
	})
	return s, err
}

// openSocket opens a socket on a host with an address, for frames to another one.
type openSocket func(h *netns.Host, at, to netip.Addr) (*rawSocket, error)

// flood sends for a time.
func (h *socketHosts) flood(open openSocket, size int, target time.Duration) (s rawSample, err error) {
	rx, err := open(h.to, socketTo.Addr(), socketFrom.Addr())
	if rx != nil {
		defer unix.Close(rx.fd)
	}
	if err != nil {
		return s, err
	}
	tx, err := open(h.from, socketFrom.Addr(), socketTo.Addr())
	if tx != nil {
		defer unix.Close(tx.fd)
	}
	if err != nil {
		return s, err
	}
	unix.SetsockoptInt(rx.fd, unix.SOL_SOCKET, unix.SO_RCVBUF, rawBuffer)                          //nolint:errcheck // fewer arrive
	unix.SetsockoptTimeval(rx.fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Usec: 300_000}) //nolint:errcheck // it has one
	type count struct {
		n         int
		took, cpu time.Duration
		err       error
	}
	received, sent := make(chan count), make(chan count)
	go func() {
		n, cpu, err := rx.receive(size)
		received <- count{n, 0, cpu, err}
	}()
	go func() {
		n, took, cpu, err := tx.send(size, target)
		sent <- count{n, took, cpu, err}
	}()
	out, in := <-sent, <-received
	if err := errors.Join(out.err, in.err); err != nil {
		return s, fmt.Errorf("after %d frames, of which %d arrived: %w", out.n, in.n, err)
	}
	return rawSample{float64(out.n) / out.took.Seconds(), float64(in.n) / float64(out.n), float64((out.cpu + in.cpu).Nanoseconds()) / 1e3 / float64(max(in.n, 1))}, nil
}

func (s *rawSocket) send(size int, target time.Duration) (n int, took, cpu time.Duration, err error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	message := append(append([]byte(nil), s.head...), make([]byte, size-s.overhead-len(s.head))...)
	start := time.Now()
	before, err := readClock(unix.CLOCK_THREAD_CPUTIME_ID)
	for err == nil && (n%256 != 0 || time.Since(start) < target) {
		if s.to == nil {
			_, err = unix.Write(s.fd, message)
		} else {
			err = unix.Sendto(s.fd, message, 0, s.to)
		}
		if err == unix.ENOBUFS { // of the interface
			err = nil
		}
		n++
	}
	took = time.Since(start)
	after, failed := readClock(unix.CLOCK_THREAD_CPUTIME_ID)
	if err == nil {
		err = failed
	}
	return n, took, after - before, err
}

// receive receives until nothing comes for a while.
func (s *rawSocket) receive(size int) (n int, cpu time.Duration, err error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	buf := make([]byte, size)
	before, err := readClock(unix.CLOCK_THREAD_CPUTIME_ID)
	if err != nil {
		return 0, 0, err
	}
	for {
		switch _, err := unix.Read(s.fd, buf); err {
		case nil:
			n++
		case unix.EINTR:
		case unix.EAGAIN:
			after, err := readClock(unix.CLOCK_THREAD_CPUTIME_ID)
			return n, after - before, err
		default:
			return n, 0, err
		}
	}
}
