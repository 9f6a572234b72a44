package interop

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"sync"
	"time"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
	"github.com/google/gopacket/pcapgo"
	"github.com/gorxe/gorxe/wire"
	"golang.org/x/sys/unix"
)

// capture records what is on the tap. A packet is queued on its socket before
// the call that sent it returns, or before its receiver sees it: so when a case
// has ended all of its packets are there to be taken.
type capture struct {
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

func startCapture(device string) (*capture, error) {
	all := int(binary.BigEndian.Uint16([]byte{unix.ETH_P_ALL & 0xff, unix.ETH_P_ALL >> 8})) // network order
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("capture: %w", err)
	}
	var index int
	if index, err = interfaceIndex(device); err == nil {
		// Without the right to force it the size is less, and the loss is told.
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
	c := &capture{fd: fd, end: make(chan struct{}), buf: make([]byte, 1<<16)}
	go c.run()
	return c, nil
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

func (c *capture) run() {
	for {
		select {
		case <-c.end:
			unix.Close(c.fd)
			return
		default:
		}
		poll := []unix.PollFd{{Fd: int32(c.fd), Events: unix.POLLIN}}
		if _, err := unix.Poll(poll, 200); err != nil && err != unix.EINTR {
			return
		}
		c.mu.Lock()
		c.drain()
		c.mu.Unlock()
	}
}

// drain empties the socket. c.mu is held.
func (c *capture) drain() {
	var control [128]byte
	for {
		n, controlled, _, from, err := unix.Recvmsg(c.fd, c.buf, control[:], unix.MSG_TRUNC)
		if err != nil {
			if err != unix.EAGAIN && err != unix.EINTR {
				c.err = err
			}
			if err != unix.EINTR {
				return
			}
			continue
		}
		if n > len(c.buf) {
			c.err = fmt.Errorf("a frame of %d bytes: segmentation is offloaded", n)
			continue
		}
		link, ok := from.(*unix.SockaddrLinklayer)
		c.packets = append(c.packets, packet{
			at: timestamp(control[:controlled]), sent: ok && link.Pkttype == unix.PACKET_OUTGOING, data: append([]byte(nil), c.buf[:n]...),
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

// take returns what came since the last time.
func (c *capture) take() ([]packet, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.drain()
	packets, err := c.packets, c.err
	c.packets, c.err = nil, nil
	stats, statErr := unix.GetsockoptTpacketStats(c.fd, unix.SOL_PACKET, unix.PACKET_STATISTICS)
	switch {
	case err != nil:
	case statErr != nil:
		err = statErr
	case stats.Drops > 0:
		err = fmt.Errorf("the capture lacks %d packets", stats.Drops)
	}
	return packets, err
}

func (c *capture) close() { close(c.end) }

// save writes frames to a pcapng file.
func save(path string, packets []packet) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	w, err := pcapgo.NewNgWriter(file, layers.LinkTypeEthernet)
	if err != nil {
		file.Close()
		return err
	}
	for _, p := range packets {
		info := gopacket.CaptureInfo{Timestamp: p.at, CaptureLength: len(p.data), Length: len(p.data)}
		if err := w.WritePacket(info, p.data); err != nil {
			file.Close()
			return err
		}
	}
	return errors.Join(w.Flush(), file.Close())
}

// roce is a RoCEv2 packet as it was on the cable.
type roce struct {
	route wire.Route
	ipID  uint16
	df    bool
	sum   uint16 // UDP checksum
	bth   []byte // from BTH through ICRC
}

var errFragment = errors.New("a fragment")

// parseRoCE returns nil for a frame that carries something else.
func parseRoCE(frame []byte) (*roce, error) {
	const ethernet = 14
	if len(frame) < ethernet {
		return nil, nil
	}
	switch kind, ip := binary.BigEndian.Uint16(frame[12:]), frame[ethernet:]; kind {
	case unix.ETH_P_IP:
		return parseIPv4(ip)
	case unix.ETH_P_IPV6:
		return parseIPv6(ip)
	}
	return nil, nil
}

func parseIPv4(ip []byte) (*roce, error) {
	const header = 20
	if len(ip) < header || ip[9] != unix.IPPROTO_UDP {
		return nil, nil
	}
	p := &roce{ipID: binary.BigEndian.Uint16(ip[4:]), df: ip[6]&0x40 != 0}
	p.route.Src, p.route.Dst = netip.AddrFrom4([4]byte(ip[12:])), netip.AddrFrom4([4]byte(ip[16:]))
	if fragment := binary.BigEndian.Uint16(ip[6:]) & 0x3fff; fragment != 0 {
		return nil, errFragment
	}
	if total := int(binary.BigEndian.Uint16(ip[2:])); ip[0] != 0x45 || total < header || total > len(ip) {
		return nil, fmt.Errorf("IPv4 header: first byte %#x, total length %d of %d", ip[0], total, len(ip))
	} else {
		ip = ip[:total]
	}
	return p.udp(ip[header:])
}

func parseIPv6(ip []byte) (*roce, error) {
	const header = 40
	if len(ip) < header || ip[6] != unix.IPPROTO_UDP {
		return nil, nil
	}
	p := &roce{}
	p.route.Src, p.route.Dst = netip.AddrFrom16([16]byte(ip[8:])), netip.AddrFrom16([16]byte(ip[24:]))
	payload := int(binary.BigEndian.Uint16(ip[4:]))
	if header+payload > len(ip) {
		return nil, fmt.Errorf("IPv6 header: payload length %d of %d", payload, len(ip)-header)
	}
	return p.udp(ip[header : header+payload])
}

func (p *roce) udp(datagram []byte) (*roce, error) {
	const header = 8
	if len(datagram) < header {
		return nil, fmt.Errorf("UDP: %d bytes", len(datagram))
	}
	if binary.BigEndian.Uint16(datagram[2:]) != wire.UDPPort {
		return nil, nil
	}
	if n := int(binary.BigEndian.Uint16(datagram[4:])); n != len(datagram) {
		return nil, fmt.Errorf("UDP length %d in %d bytes", n, len(datagram))
	}
	p.route.SrcPort, p.sum = binary.BigEndian.Uint16(datagram), binary.BigEndian.Uint16(datagram[6:])
	p.bth = datagram[header:]
	return p, nil
}

// intact checks the ICRC with the IP header that the packet had, and that the
// transport headers are well-formed.
func (p *roce) intact() error {
	if len(p.bth) < wire.BTHLen+wire.ICRCLen {
		return fmt.Errorf("%d bytes after UDP", len(p.bth))
	}
	state := wire.NewICRC(&p.route, wire.UDPPort)
	if !state.Check(p.bth, p.ipID, p.df) {
		return fmt.Errorf("the ICRC is wrong (IPv4 identification %d, DF %v)", p.ipID, p.df)
	}
	_, err := wire.Parse(p.bth[:len(p.bth)-wire.ICRCLen])
	return err
}
