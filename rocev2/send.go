package rocev2

import (
	"net/netip"

	"github.com/gorxe/gorxe/wire"
	"golang.org/x/sys/unix"
)

const (
	// maxGSOBytes is what one GSO send may carry. With the headers, Ethernet
	// included, it stays below 65,536, above which the kernel would segment in
	// software before the device sees it (netif_skb_features).
	maxGSOBytes = 65535 - 14 - ipv6HeaderLen - udpHeaderLen

	// Segments per GSO send: UDP_MAX_SEGMENTS of Linux 6.9, and of those before.
	maxSegments    = 128
	oldMaxSegments = 64

	ipv4HeaderLen = 20
	ipv6HeaderLen = 40
	udpHeaderLen  = 8

	// sendBatchLen is how many messages one sendmmsg call takes.
	sendBatchLen = 32

	// A full socket buffer means that the interface is the bottleneck. Waiting
	// this long for room paces the sender; after that the packets are lost, as
	// on any congested path, and the transport recovers.
	sendWaitMillis = 10
)

// chunk is the packets of one message: a single packet, or a GSO send.
type chunk struct {
	icrc     wire.ICRCState
	buf      []byte
	seg      int // bytes per packet; the last may be shorter
	n        int // packets
	src, dst netip.Addr
	srcPort  uint16
	route    *wire.Route
}

func (c *chunk) packet(i int) []byte {
	return c.buf[i*c.seg : min((i+1)*c.seg, len(c.buf))]
}

// sendSlot is the memory that one message points to.
type sendSlot struct {
	control [3 * cmsgSpace]byte
	name    sockaddr
	iov     unix.Iovec
}

// sendBatch is the messages of one sendmmsg call, all for the same socket.
type sendBatch struct {
	fd     int
	n      int
	msgs   [sendBatchLen]mmsghdr
	slots  [sendBatchLen]sendSlot
	chunks [sendBatchLen]chunk
}

// Send transmits the packets of each burst, in order, and fills in their ICRC.
// The buffers are the caller's again when it returns. It may be called from
// several goroutines.
//
// Like the network itself it gives no guarantee: a packet that the kernel does
// not take is dropped and counted (Counters), and is no error, for the transport
// retransmits. Errors are for what no retransmission mends: ErrClosed,
// ErrNoAddress for a Route.Src that is not in the GID table, ErrConfig for a
// malformed burst. The other bursts are sent all the same.
//
// The UDP source port that a packet gets is SourcePort(Route), one of a small
// pool, rather than Route.SrcPort itself.
func (p *Port) Send(bursts []wire.Burst) error {
	p.mu.RLock()
	defer p.mu.RUnlock()
	if p.closed {
		return &PortError{Op: "send on", Object: p.name, Kind: ErrClosed}
	}
	b := p.batches.Get().(*sendBatch)
	var failed error
	for i := range bursts {
		if err := p.addBurst(b, &bursts[i]); err != nil && failed == nil {
			failed = err
		}
	}
	p.flush(b)
	p.batches.Put(b)
	return failed
}

// SourcePort is the UDP source port that packets of a route leave from, or 0 if
// its source address is not one of the port's.
func (p *Port) SourcePort(r *wire.Route) uint16 {
	p.mu.RLock()
	defer p.mu.RUnlock()
	e := p.endpoints[r.Src.Unmap()]
	if e == nil {
		return 0
	}
	return e.ports[e.socketFor(r.SrcPort)]
}

// addBurst cuts one burst into messages.
func (p *Port) addBurst(b *sendBatch, burst *wire.Burst) error {
	c := chunk{route: burst.Route, src: burst.Route.Src.Unmap(), dst: burst.Route.Dst.Unmap()}
	e := p.endpoints[c.src]
	if e == nil || c.dst.Is4() != c.src.Is4() || !c.dst.IsValid() {
		p.counters.SendDropUnreachable.Add(uint64(burst.N()))
		return &PortError{Op: "send from", Object: c.src.String() + " to " + c.dst.String(), Kind: ErrNoAddress,
			Hint: "the source must be in the port's GID table, and of the destination's IP version"}
	}
	seg, rest := burst.Seg, burst.Buf
	if seg <= 0 || seg > len(rest) {
		seg = len(rest)
	}
	if len(rest) == 0 {
		return nil
	}
	if last := len(rest) % seg; seg < minPacket || last != 0 && last < minPacket {
		p.counters.SendDropOther.Add(uint64(burst.N()))
		return &PortError{Op: "send from", Object: c.src.String(), Kind: ErrConfig,
			Hint: "a packet is shorter than a BTH and an ICRC"}
	}

	socket := e.socketFor(c.route.SrcPort)
	if b.n > 0 && b.fd != e.fds[socket] {
		p.flush(b)
	}
	b.fd = e.fds[socket]
	c.srcPort = e.ports[socket]
	c.icrc = wire.NewICRC(&wire.Route{Src: c.src, Dst: c.dst, SrcPort: c.srcPort}, p.cfg.Port)
	perCall := p.packetsPerCall(e, seg)
	for len(rest) > 0 {
		c.buf = rest[:min(perCall*seg, len(rest))]
		rest = rest[len(c.buf):]
		c.seg, c.n = seg, (len(c.buf)+seg-1)/seg
		if b.n == sendBatchLen {
			p.flush(b)
		}
		b.chunks[b.n] = c
		p.prepare(&b.msgs[b.n], &b.slots[b.n], &b.chunks[b.n])
		b.n++
	}
	return nil
}

// packetsPerCall is how many packets of seg bytes one message may carry.
func (p *Port) packetsPerCall(e *endpoint, seg int) int {
	if e.noGSO || p.gsoOff.Load() {
		return 1
	}
	return max(1, min(maxGSOBytes/seg, int(p.segmentLimit.Load())))
}

// prepare seals the packets of a chunk and describes them to the kernel.
func (p *Port) prepare(m *mmsghdr, s *sendSlot, c *chunk) {
	for i := range c.n {
		// Segment i of a GSO send carries identification i (doc.go).
		c.icrc.Put(c.packet(i), uint16(i))
		if p.cfg.Tap != nil {
			p.cfg.Tap.sent(c, i, p.cfg.Port)
		}
	}
	control := s.control[:0]
	if c.n > 1 {
		control = appendCmsg(control, unix.IPPROTO_UDP, unix.UDP_SEGMENT, uint32(c.seg), 2)
	}
	r := c.route
	if c.src.Is4() {
		if r.TrafficClass != 0 {
			control = appendCmsg(control, unix.IPPROTO_IP, unix.IP_TOS, uint32(r.TrafficClass), 4)
		}
		if r.HopLimit != 0 { // 0 asks for the system's default
			control = appendCmsg(control, unix.IPPROTO_IP, unix.IP_TTL, uint32(r.HopLimit), 4)
		}
	} else {
		if r.TrafficClass != 0 {
			control = appendCmsg(control, unix.IPPROTO_IPV6, unix.IPV6_TCLASS, uint32(r.TrafficClass), 4)
		}
		if r.HopLimit != 0 {
			control = appendCmsg(control, unix.IPPROTO_IPV6, unix.IPV6_HOPLIMIT, uint32(r.HopLimit), 4)
		}
	}
	nameLen := putSockaddr(&s.name, c.dst, p.cfg.Port, r.FlowLabel, p.scope(c.dst))
	m.setBuffers(&s.name, nameLen, &s.iov, c.buf, control)
}

// flush sends what the batch holds and leaves it empty.
func (p *Port) flush(b *sendBatch) {
	waited := false
	for done := 0; done < b.n; {
		n, errno := sendmmsg(b.fd, b.msgs[done:b.n])
		p.counters.SendCalls.Add(1)
		for i := done; i < done+n; i++ {
			p.counters.SentPackets.Add(uint64(b.chunks[i].n))
			p.counters.SentBytes.Add(uint64(len(b.chunks[i].buf)))
		}
		done += n
		switch {
		case errno == 0:
		case errno == unix.EAGAIN && !waited:
			waited = true
			waitWritable(b.fd)
		default:
			p.sendFailed(b, &b.chunks[done], errno)
			done++
		}
	}
	clear(b.chunks[:b.n]) // keep no reference to the caller's memory
	for i := range b.n {
		b.slots[i].iov.Base = nil
	}
	b.n = 0
}

// sendFailed deals with a message that the kernel refused.
func (p *Port) sendFailed(b *sendBatch, c *chunk, errno unix.Errno) {
	if c.n > 1 {
		switch errno {
		case unix.EIO, unix.EOPNOTSUPP, unix.ENOPROTOOPT:
			// EIO: a device on the path cannot do the checksum of the segments.
			p.degradeGSO(errno.Error())
			p.sendSingly(b.fd, c)
			return
		case unix.EINVAL, unix.EMSGSIZE:
			// Too many segments for this kernel, or the size is above the path's
			// MTU, which the last packet may yet fit.
			if errno == unix.EINVAL && c.n > oldMaxSegments {
				p.segmentLimit.Store(oldMaxSegments)
			}
			p.sendSingly(b.fd, c)
			return
		}
	}
	p.countDrop(errno, c.n)
}

// sendSingly sends the packets of a refused GSO send one by one: each carries
// identification 0 now, which the ICRC covers.
func (p *Port) sendSingly(fd int, c *chunk) {
	var (
		slot sendSlot
		msg  [1]mmsghdr
	)
	for i := range c.n {
		one := *c
		one.buf = c.packet(i)
		one.seg, one.n = len(one.buf), 1
		p.prepare(&msg[0], &slot, &one)
		_, errno := sendmmsg(fd, msg[:])
		p.counters.SendCalls.Add(1)
		if errno != 0 {
			p.countDrop(errno, 1)
			continue
		}
		p.counters.SentPackets.Add(1)
		p.counters.SentBytes.Add(uint64(len(one.buf)))
	}
}

func (p *Port) countDrop(errno unix.Errno, packets int) {
	c := &p.counters.SendDropOther
	switch errno {
	case unix.EAGAIN, unix.ENOBUFS, unix.ENOMEM:
		c = &p.counters.SendDropNoBuffer
	case unix.EMSGSIZE:
		c = &p.counters.SendDropTooBig
	case unix.ENETUNREACH, unix.EHOSTUNREACH, unix.ENETDOWN, unix.EADDRNOTAVAIL, unix.ENODEV:
		c = &p.counters.SendDropUnreachable
	case unix.EPERM, unix.EACCES:
		c = &p.counters.SendDropDenied
	}
	c.Add(uint64(packets))
}

// degradeGSO switches GSO off for good, and says so once.
func (p *Port) degradeGSO(why string) {
	if !p.gsoOff.Swap(true) {
		p.log.Warn("no UDP segmentation offload: sending packet by packet, which is slower",
			"interface", p.name, "reason", why)
	}
}

// waitWritable waits until the socket has room again, but not for long.
func waitWritable(fd int) {
	fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}
	_, _ = unix.Poll(fds, sendWaitMillis) // on failure the next send says why
}
