package rocev2

import (
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

	// A full socket buffer means that the interface is the bottleneck. Waiting
	// this long for room paces the sender; after that the packets are lost, as
	// on any congested path, and the transport recovers.
	sendWaitMillis = 10
)

// Send transmits the packets of each burst and fills in their ICRC. The packets of
// one flow leave in order; those of flows with different source ports need not.
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
	s := p.sends.Get().(*sends)
	var failed error
	for i := range bursts {
		if err := p.addBurst(s, &bursts[i]); err != nil && failed == nil {
			failed = err
		}
	}
	for _, b := range s.used {
		p.flush(b)
	}
	s.used, s.from = s.used[:0], nil
	p.sends.Put(s)
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

// addBurst distributes one burst over messages.
func (p *Port) addBurst(s *sends, burst *wire.Burst) error {
	r := burst.Route
	src, dst := r.Src.Unmap(), r.Dst.Unmap()
	e := s.endpoint(p, src)
	if e == nil || dst.Is4() != src.Is4() || !dst.IsValid() {
		p.counters.SendDropUnreachable.Add(uint64(burst.N()))
		return &PortError{Op: "send from", Object: src.String() + " to " + dst.String(), Kind: ErrNoAddress,
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
		return &PortError{Op: "send from", Object: src.String(), Kind: ErrConfig,
			Hint: "a packet is shorter than a BTH and an ICRC"}
	}
	b := s.batch(e, e.socketFor(r.SrcPort))
	perCall := p.packetsPerCall(e, seg)
	for len(rest) > 0 {
		if b.pieces == len(b.iovs) {
			p.flush(b)
		}
		c := b.last()
		if c == nil || !c.takes(r, dst, seg, perCall) {
			if b.n == sendBatchLen {
				p.flush(b)
			}
			c = b.add(r, src, dst, seg, p.cfg.Port)
		}
		piece := rest[:min((perCall-c.n)*seg, len(rest))]
		rest = rest[len(piece):]
		p.seal(c, piece, c.n)
		b.extend(c, piece)
	}
	return nil
}

// seal writes the ICRCs of packets that are about to be added to c, the first of
// which will be its segment i.
func (p *Port) seal(c *chunk, piece []byte, i int) {
	for ; len(piece) > 0; i++ {
		pkt := piece[:min(c.seg, len(piece))]
		piece = piece[len(pkt):]
		// Segment i of a GSO send carries identification i (doc.go).
		c.icrc.Put(pkt, uint16(i))
		if p.cfg.Tap != nil {
			p.cfg.Tap.sent(c, pkt, uint16(i), p.cfg.Port)
		}
	}
}

// packetsPerCall is how many packets of seg bytes one message may carry.
func (p *Port) packetsPerCall(e *endpoint, seg int) int {
	if e.noGSO || p.gsoOff.Load() {
		return 1
	}
	return max(1, min(maxGSOBytes/seg, int(p.segmentLimit.Load())))
}

// prepare describes a chunk, whose packets are in iovs, to the kernel.
func (p *Port) prepare(m *mmsghdr, s *sendSlot, c *chunk, iovs []unix.Iovec) {
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
	m.set(&s.name, nameLen, iovs, control)
}

// flush sends what the batch holds and leaves it empty.
func (p *Port) flush(b *sendBatch) {
	for i := range b.n {
		c := &b.chunks[i]
		p.prepare(&b.msgs[i], &b.slots[i], c, b.iovs[c.from:c.to])
	}
	waited := false
	for done := 0; done < b.n; {
		n, errno := sendmmsg(b.fd, b.msgs[done:b.n])
		p.counters.SendCalls.Add(1)
		for i := done; i < done+n; i++ {
			p.counters.SentPackets.Add(uint64(b.chunks[i].n))
			p.counters.SentBytes.Add(uint64(b.chunks[i].bytes))
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
	b.clear()
}

// sendFailed deals with a message that the kernel refused.
func (p *Port) sendFailed(b *sendBatch, c *chunk, errno unix.Errno) {
	if c.n > 1 {
		switch errno {
		case unix.EIO, unix.EOPNOTSUPP, unix.ENOPROTOOPT:
			// EIO: a device on the path cannot do the checksum of the segments.
			p.degradeGSO(errno.Error())
			p.sendSingly(b, c)
			return
		case unix.EINVAL, unix.EMSGSIZE:
			// Too many segments for this kernel, or the size is above the path's
			// MTU, which the last packet may yet fit.
			if errno == unix.EINVAL && c.n > oldMaxSegments {
				p.segmentLimit.Store(oldMaxSegments)
			}
			p.sendSingly(b, c)
			return
		}
	}
	p.countDrop(errno, c.n)
}

// sendSingly sends the packets of a refused GSO send one by one: each carries
// identification 0 now, which the ICRC covers.
func (p *Port) sendSingly(b *sendBatch, c *chunk) {
	for i := c.from; i < c.to; i++ {
		piece := iovBytes(&b.iovs[i])
		for len(piece) > 0 {
			pkt := piece[:min(c.seg, len(piece))]
			piece = piece[len(pkt):]
			p.sendOne(b.fd, c, pkt)
		}
	}
}

func (p *Port) sendOne(fd int, c *chunk, pkt []byte) {
	var (
		slot sendSlot
		msg  [1]mmsghdr
		iovs [1]unix.Iovec
	)
	one := *c
	one.n = 1
	p.seal(&one, pkt, 0)
	setIovec(&iovs[0], pkt)
	p.prepare(&msg[0], &slot, &one, iovs[:])
	_, errno := sendmmsg(fd, msg[:])
	p.counters.SendCalls.Add(1)
	if errno != 0 {
		p.countDrop(errno, 1)
		return
	}
	p.counters.SentPackets.Add(1)
	p.counters.SentBytes.Add(uint64(len(pkt)))
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
