package rocev2

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"io"
	"net/netip"
	"os"
	"sync"
	"time"

	"github.com/google/gopacket/layers"
	"github.com/google/gopacket/pcapgo"
	"github.com/gorxe/gorxe/internal/sys/mmsg"
	"github.com/gorxe/gorxe/wire"
	"github.com/gorxe/gorxe/wire/checksum"
	"golang.org/x/sys/unix"
)

// Tap writes packets to a pcapng file as they are, or would be, on the wire: IP
// header (link type RAW), UDP header, BTH to ICRC. A capture on the interface shows
// packets joined by offloads, and lacks those between two queue pairs of one device.
// A Tap is safe for concurrent use.
type Tap struct {
	mu     sync.Mutex
	head   []byte        // of the file: its interfaces
	buf    *bufio.Writer // nil: there is no file
	file   *tapFile      // nil if the caller owns the writer
	packet []byte
	block  []byte // that has it
	err    error
	max    uint64 // bytes of packets; 0: without limit
	bytes  uint64 // of packets, so far
	cut    uint64 // packets left out, since max was reached
	frames bool   // the file has the interface of Ethernet frames

	followers []*Follower
	work      tapWork // of the followers' comments
}

// NewTap returns a Tap that writes to w, as a capture of the interface ifname.
func NewTap(w io.Writer, ifname string) (*Tap, error) {
	head, err := tapHead(ifname)
	if err != nil {
		return nil, &PortError{Op: "write", Object: "capture of " + ifname, Cause: err}
	}
	t := &Tap{head: head, buf: bufio.NewWriterSize(w, tapBuffer)}
	_, t.err = t.buf.Write(head)
	return t, nil
}

// NewLiveTap returns a Tap without a file: it is for followers.
func NewLiveTap(ifname string) (*Tap, error) {
	head, err := tapHead(ifname)
	if err != nil {
		return nil, &PortError{Op: "write", Object: "capture of " + ifname, Cause: err}
	}
	return &Tap{head: head}, nil
}

// tapHead returns what a file has before its first packet.
func tapHead(ifname string) ([]byte, error) {
	var b bytes.Buffer
	ng, err := pcapgo.NewNgWriterInterface(&b, pcapgo.NgInterface{
		Name:       ifname,
		LinkType:   layers.LinkTypeRaw,
		SnapLength: 0, // unlimited
	}, pcapgo.NgWriterOptions{SectionInfo: pcapgo.NgSectionInfo{Application: "gorxe"}})
	if err == nil {
		err = ng.Flush()
	}
	return b.Bytes(), err
}

// Limit bounds the capture to about max bytes of packets. Later packets are left out and counted.
func (t *Tap) Limit(max uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.max = max
}

// LeftOut returns how many packets the limit has left out.
func (t *Tap) LeftOut() uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.cut
}

// Flush writes out what is buffered. It returns the first error since the Tap was
// made.
func (t *Tap) Flush() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.flush()
}

func (t *Tap) flush() error {
	if t.err == nil && t.buf != nil {
		t.err = t.buf.Flush()
	}
	return t.err
}

// Close flushes the capture and closes the file that OpenTap opened. Packets
// written later are dropped.
func (t *Tap) Close() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	err := t.flush()
	if t.err == nil {
		t.err = os.ErrClosed
	}
	if t.file != nil {
		if e := t.file.Close(); err == nil {
			err = e
		}
		t.file = nil
	}
	return err
}

// WriteOut records one packet between two queue pairs of one device, which passes no
// socket. pkt runs from BTH to ICRC; WriteOut fills in the ICRC for identification id, with
// damage (wire.Burst).
func (t *Tap) WriteOut(route *wire.Route, pkt []byte, id uint16, damage uint32) {
	t.WriteNoted(route, pkt, id, damage, "")
}

// WriteNoted is WriteOut for a packet with a note (wire.Burst), which is its comment in the file.
func (t *Tap) WriteNoted(route *wire.Route, pkt []byte, id uint16, damage uint32, note string) {
	wire.NewICRC(route, wire.UDPPort).Put(pkt, id)
	wire.Damage(pkt, damage)
	t.write(tapPacket{
		src: route.Src.Unmap(), dst: route.Dst.Unmap(), srcPort: route.SrcPort, dstPort: wire.UDPPort,
		class: route.TrafficClass, hops: route.HopLimit, label: route.FlowLabel, id: id, df: true, pkt: pkt, note: note,
	})
}

// Frame records an Ethernet frame of a raw packet queue pair, as a capture of an interface of its
// own: the file's other packets have no Ethernet header.
func (t *Tap) Frame(b []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	files := t.err == nil && t.buf != nil && !t.exceeds(len(b))
	if !files && len(t.followers) == 0 {
		return
	}
	if !t.frames {
		// A file without frames has one interface, so that it can become a pcap file.
		var described []byte
		if described, t.err = frameInterface(); t.err != nil {
			return
		}
		t.frames = true
		t.head = append(t.head, described...)
		if t.buf != nil {
			_, t.err = t.buf.Write(described)
		}
		for _, f := range t.followers {
			f.describe(described)
		}
	}
	t.record(files && t.err == nil, 1, time.Now(), b, "", "")
}

// frameInterface returns the description of the second interface, which has Ethernet frames.
func frameInterface() ([]byte, error) {
	var b bytes.Buffer
	ng, err := pcapgo.NewNgWriter(&b, layers.LinkTypeRaw)
	if err != nil {
		return nil, err
	}
	if err := ng.Flush(); err != nil {
		return nil, err
	}
	first := b.Len()
	if _, err := ng.AddInterface(pcapgo.NgInterface{Name: "raw", LinkType: layers.LinkTypeEthernet}); err != nil {
		return nil, err
	}
	err = ng.Flush()
	return b.Bytes()[first:], err
}

// exceeds counts a packet, and reports whether it is beyond the limit. t.mu is locked.
func (t *Tap) exceeds(n int) bool {
	if t.max != 0 && (t.cut > 0 || t.bytes+uint64(n) > t.max) {
		t.cut++
		return true
	}
	t.bytes += uint64(n)
	return false
}

// send is sendmmsg, and records the messages that the kernel took: one that it refuses, for example
// because it is too long, is on no wire. No other thread records meanwhile, so that in the file no
// answer comes before its request. t may be nil.
func (t *Tap) send(fd int, msgs []mmsg.Header, messages []message, iovs []unix.Iovec, dstPort uint16) (int, unix.Errno) {
	if t == nil {
		return mmsg.Send(fd, msgs, 0)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now() // another host may receive them before the call returns
	n, errno := mmsg.Send(fd, msgs, 0)
	for i := range messages[:n] {
		t.sent(&messages[i], iovs, dstPort, now)
	}
	return n, errno
}

// sent records the packets of a message; t.mu is locked. Segment i of a GSO send carries
// identification i (doc.go).
func (t *Tap) sent(c *message, iovs []unix.Iovec, dstPort uint16, at time.Time) {
	id := uint16(0)
	for i := c.from; i < c.to; i++ {
		for piece := mmsg.Bytes(&iovs[i]); len(piece) > 0; id++ {
			n := min(c.size, len(piece))
			t.put(tapPacket{
				src: c.src, dst: c.dst, srcPort: c.srcPort, dstPort: dstPort,
				class: c.route.TrafficClass, hops: c.route.HopLimit, label: c.route.FlowLabel,
				id: id, df: true, pkt: piece[:n], note: c.note,
			}, at)
			piece = piece[n:]
		}
	}
}

// received records a packet that arrived, with the identification that follows from
// its ICRC.
func (t *Tap) received(pkt []byte, src, dst netip.Addr, srcPort, dstPort uint16, m rxMeta, id uint16, df bool) {
	t.write(tapPacket{
		src: src, dst: dst, srcPort: srcPort, dstPort: dstPort,
		class: m.trafficClass, hops: m.hopLimit, id: id, df: df, pkt: pkt,
	})
}

// tapPacket is a packet, BTH to ICRC, and the fields of its IP and UDP headers.
type tapPacket struct {
	src, dst         netip.Addr
	srcPort, dstPort uint16
	class, hops      uint8
	label            uint32
	id               uint16
	df               bool
	pkt              []byte
	note             string
}

// defaultHops is the hop limit that Linux uses if the sender sets none (net/ip.h: IPDEFTTL).
const defaultHops = 64

func (t *Tap) write(p tapPacket) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.put(p, time.Now())
}

// put records a packet; t.mu is locked.
func (t *Tap) put(p tapPacket, at time.Time) {
	if p.hops == 0 {
		p.hops = defaultHops
	}
	files := t.err == nil && t.buf != nil && !t.exceeds(len(p.pkt))
	if !files && len(t.followers) == 0 {
		return
	}
	if p.src.Is4() {
		t.packet = appendIPv4(t.packet[:0], &p)
	} else {
		t.packet = appendIPv6(t.packet[:0], &p)
	}
	t.record(files, 0, at, t.packet, p.note, t.work.of(&p))
}

// record gives a packet to the file, if files is set, and with a comment for its work to the
// followers. t.mu is locked.
func (t *Tap) record(files bool, iface uint32, at time.Time, packet []byte, note, work string) {
	if files {
		t.block = appendPacket(t.block[:0], iface, at, packet, note, "")
		_, t.err = t.buf.Write(t.block)
	}
	if len(t.followers) > 0 {
		t.block = appendPacket(t.block[:0], iface, at, packet, note, work)
		for _, f := range t.followers {
			f.add(t.block)
		}
	}
}

func appendIPv4(b []byte, p *tapPacket) []byte {
	src, dst := p.src.As4(), p.dst.As4()
	b = append(b, 0x45, p.class)
	b = binary.BigEndian.AppendUint16(b, uint16(ipv4HeaderLen+udpHeaderLen+len(p.pkt)))
	b = binary.BigEndian.AppendUint16(b, p.id)
	if p.df {
		b = append(b, 0x40, 0)
	} else {
		b = append(b, 0, 0)
	}
	b = append(b, p.hops, 17, 0, 0)
	b = append(b, src[:]...)
	b = append(b, dst[:]...)
	binary.BigEndian.PutUint16(b[10:], ^checksum.Fold(checksum.Add(0, b)))
	return appendUDP(b, p, 0) // RoCEv2 over IPv4 may leave the checksum out
}

func appendIPv6(b []byte, p *tapPacket) []byte {
	src, dst := p.src.As16(), p.dst.As16()
	length := udpHeaderLen + len(p.pkt)
	b = binary.BigEndian.AppendUint32(b, 6<<28|uint32(p.class)<<20|p.label&0xfffff)
	b = binary.BigEndian.AppendUint16(b, uint16(length))
	b = append(b, 17, p.hops)
	b = append(b, src[:]...)
	b = append(b, dst[:]...)
	sum := checksum.Add(0, b[8:]) + 17 + uint64(length) // the pseudo-header
	sum += uint64(p.srcPort) + uint64(p.dstPort) + uint64(length)
	check := ^checksum.Fold(checksum.Add(sum, p.pkt))
	if check == 0 {
		check = 0xffff
	}
	return appendUDP(b, p, check)
}

func appendUDP(b []byte, p *tapPacket, check uint16) []byte {
	b = binary.BigEndian.AppendUint16(b, p.srcPort)
	b = binary.BigEndian.AppendUint16(b, p.dstPort)
	b = binary.BigEndian.AppendUint16(b, uint16(udpHeaderLen+len(p.pkt)))
	b = binary.BigEndian.AppendUint16(b, check)
	return append(b, p.pkt...)
}
