package interop

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
	"github.com/google/gopacket/pcapgo"
	"golang.org/x/sys/unix"
)

// recorder records the packets on the tap. The kernel queues a packet on its socket before
// the call that sent it returns, or before its receiver sees it. So when a case has ended,
// all of its packets are there.
type recorder struct {
	fd  int
	end chan struct{}

	mu      sync.Mutex
	buf     []byte
	packets []packet
	err     error
}

// packet is an Ethernet frame.
type packet struct {
	at   time.Time
	sent bool // by this machine, that is, by gorxe
	data []byte
}

func startRecorder(device string) (*recorder, error) {
	// network order
	all := int(binary.BigEndian.Uint16([]byte{unix.ETH_P_ALL & 0xff, unix.ETH_P_ALL >> 8}))
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("capture: %w", err)
	}
	var index int
	if index, err = interfaceIndex(device); err == nil {
		// Without the right to force it the buffer is smaller, and a loss is reported.
		if unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 128<<20) != nil {
			unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, 128<<20)
		}
		unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1)
		err = unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: uint16(all), Ifindex: index})
	}
	if err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("capture on %s: %w", device, err)
	}
	r := &recorder{fd: fd, end: make(chan struct{}), buf: make([]byte, 1<<16)}
	go r.run()
	return r, nil
}

func interfaceIndex(name string) (int, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	defer unix.Close(fd)
	req, err := unix.NewIfreq(name)
	if err != nil {
		return 0, err
	}
	if err := unix.IoctlIfreq(fd, unix.SIOCGIFINDEX, req); err != nil {
		return 0, err
	}
	return int(req.Uint32()), nil
}

func (r *recorder) run() {
	for {
		select {
		case <-r.end:
			unix.Close(r.fd)
			return
		default:
		}
		poll := []unix.PollFd{{Fd: int32(r.fd), Events: unix.POLLIN}}
		if _, err := unix.Poll(poll, 200); err != nil && err != unix.EINTR {
			return
		}
		r.mu.Lock()
		r.drain()
		r.mu.Unlock()
	}
}

// drain empties the socket. r.mu is held.
func (r *recorder) drain() {
	var control [128]byte
	for {
		n, controlled, _, from, err := unix.Recvmsg(r.fd, r.buf, control[:], unix.MSG_TRUNC)
		if err != nil {
			if err != unix.EAGAIN && err != unix.EINTR {
				r.err = err
			}
			if err != unix.EINTR {
				return
			}
			continue
		}
		if n > len(r.buf) {
			r.err = fmt.Errorf("a frame of %d bytes: segmentation is offloaded", n)
			continue
		}
		link, ok := from.(*unix.SockaddrLinklayer)
		r.packets = append(r.packets, packet{
			at: timestamp(control[:controlled]), sent: ok && link.Pkttype == unix.PACKET_OUTGOING, data: append([]byte(nil), r.buf[:n]...),
		})
	}
}

// timestamp is when the kernel had the packet.
func timestamp(control []byte) time.Time {
	messages, err := unix.ParseSocketControlMessage(control)
	if err != nil {
		return time.Now()
	}
	for _, m := range messages {
		if m.Header.Type == unix.SCM_TIMESTAMPNS && len(m.Data) >= 16 {
			return time.Unix(int64(binary.NativeEndian.Uint64(m.Data)), int64(binary.NativeEndian.Uint64(m.Data[8:])))
		}
	}
	return time.Now()
}

// take returns the packets since the last call.
func (r *recorder) take() ([]packet, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.drain()
	packets, err := r.packets, r.err
	r.packets, r.err = nil, nil
	stats, statErr := unix.GetsockoptTpacketStats(r.fd, unix.SOL_PACKET, unix.PACKET_STATISTICS)
	switch {
	case err != nil:
	case statErr != nil:
		err = statErr
	case stats.Drops > 0:
		err = fmt.Errorf("the capture lacks %d packets", stats.Drops)
	}
	return packets, err
}

func (r *recorder) close() { close(r.end) }

// save writes frames to a pcapng file.
func save(path string, packets []packet) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(write(file, packets), file.Close())
}

// write writes frames as pcapng.
func write(to io.Writer, packets []packet) error {
	w, err := pcapgo.NewNgWriter(to, layers.LinkTypeEthernet)
	if err != nil {
		return err
	}
	for _, p := range packets {
		info := gopacket.CaptureInfo{Timestamp: p.at, CaptureLength: len(p.data), Length: len(p.data)}
		if err := w.WritePacket(info, p.data); err != nil {
			return err
		}
	}
	return w.Flush()
}
