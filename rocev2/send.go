package rocev2

import (
	"github.com/gorxe/gorxe/internal/sys/mmsg"
	"github.com/gorxe/gorxe/wire"
	"golang.org/x/sys/unix"
)

// Limits of the kernel, and lengths of headers (RFC 791, RFC 8200, RFC 768).
const (
	// maxGSOBytes is how many bytes one GSO send may carry. With the headers,
	// Ethernet included, that is less than 65,536. Above that the kernel cuts the
	// packets in software before the network device sees them (netif_skb_features).
	maxGSOBytes = 65535 - 14 - ipv6HeaderLen - udpHeaderLen

	// Segments per GSO send: UDP_MAX_SEGMENTS of Linux 6.9, and of those before.
	maxSegments    = 128
	oldMaxSegments = 64

	ipv4HeaderLen = 20
	ipv6HeaderLen = 40
	udpHeaderLen  = 8
)

// Send fills in the ICRC of the packets of each burst and sends them. The packets of
// one flow leave in order; those of flows with different source ports need not. Send
// does not use the buffers after it returns. It may be called from several
// goroutines.
//
// Send gives no guarantee, like the network itself. A packet that the kernel refuses
// is dropped and counted (Counters), but is not an error, because the transport
// retransmits it. An error means that a retransmission would fail too: ErrClosed,
// ErrNoAddress for a Route.Src that the port does not have now, and ErrConfig for a
// malformed burst. Send still sends the other bursts.
//
// The UDP source port of a packet is SourcePort(Route), one of a small pool, and not
// Route.SrcPort itself.
func (p *Port) Send(bursts []wire.Burst) error {
	p.mu.RLock()
	defer p.mu.RUnlock()
	if p.closed {
		return &PortError{Op: "send on", Object: p.at.Load().name, Kind: ErrClosed}
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

// SourcePort returns the UDP source port of the packets of a route, or 0 if the port
// does not have its source address.
func (p *Port) SourcePort(r *wire.Route) uint16 {
	p.mu.RLock()
	defer p.mu.RUnlock()
	e := p.endpoints[r.Src.Unmap()]
	if e == nil {
		return 0
	}
	return e.ports[e.socketFor(r.SrcPort)]
}

// addBurst adds the packets of a burst to messages.
func (p *Port) addBurst(s *sends, burst *wire.Burst) error {
	r := burst.Route
	src, dst := r.Src.Unmap(), r.Dst.Unmap()
	e := s.endpoint(p, src)
	if e == nil || dst.Is4() != src.Is4() || !dst.IsValid() {
		p.counters.SendDropUnreachable.Add(uint64(burst.N()))
		return &PortError{Op: "send from", Object: src.String() + " to " + dst.String(), Kind: ErrNoAddress,
			Hint: "the source must be an address that the port has now, and have the IP version of the destination"}
	}
	size, rest := burst.Seg, burst.Buf
	if size <= 0 || size > len(rest) {
		size = len(rest)
	}
	if len(rest) == 0 {
		return nil
	}
	if last := len(rest) % size; size < minPacket || last != 0 && last < minPacket {
		p.counters.SendDropOther.Add(uint64(burst.N()))
		return &PortError{Op: "send from", Object: src.String(), Kind: ErrConfig,
			Hint: "a packet is shorter than a BTH and an ICRC"}
	}
	b := s.batch(e, e.socketFor(r.SrcPort))
	perCall := p.packetsPerCall(e, size)
	for len(rest) > 0 {
		if b.pieces == len(b.iovs) {
			p.flush(b)
		}
		c := b.last()
		if c == nil || !c.takes(burst, dst, size, perCall) {
			if b.n == sendBatchLen {
				p.flush(b)
			}
			c = b.add(burst, src, dst, size, p.cfg.Port)
		}
		piece := rest[:min((perCall-c.n)*size, len(rest))]
		rest = rest[len(piece):]
		p.seal(c, piece, c.n)
		b.extend(c, piece)
	}
	return nil
}

// seal writes the ICRCs of packets that will be added to message c; the first will be
// its segment i.
func (p *Port) seal(c *message, piece []byte, i int) {
	for ; len(piece) > 0; i++ {
		pkt := piece[:min(c.size, len(piece))]
		piece = piece[len(pkt):]
		// Segment i of a GSO send carries identification i (doc.go).
		c.icrc.Put(pkt, uint16(i))
		if c.damage != 0 {
			wire.Damage(pkt, c.damage)
		}
	}
}

// packetsPerCall returns how many packets of the given size one message may carry.
func (p *Port) packetsPerCall(e *endpoint, size int) int {
	if e.noGSO || p.gsoOff.Load() {
		return 1
	}
	return max(1, min(maxGSOBytes/size, int(p.segmentLimit.Load())))
}

// prepare fills in the kernel's form of a message, whose packets are in iovs.
func (p *Port) prepare(m *mmsg.Header, s *sendSlot, c *message, iovs []unix.Iovec) {
	control := s.control[:0]
	if c.n > 1 {
		control = appendCmsg(control, unix.IPPROTO_UDP, unix.UDP_SEGMENT, uint32(c.size), 2)
	}
	r := c.route
	if c.src.Is4() {
		if r.TrafficClass != 0 {
			control = appendCmsg(control, unix.IPPROTO_IP, unix.IP_TOS, uint32(r.TrafficClass), sizeofInt)
		}
		if r.HopLimit != 0 { // 0 asks for the system's default
			control = appendCmsg(control, unix.IPPROTO_IP, unix.IP_TTL, uint32(r.HopLimit), sizeofInt)
		}
	} else {
		if r.TrafficClass != 0 {
			control = appendCmsg(control, unix.IPPROTO_IPV6, unix.IPV6_TCLASS, uint32(r.TrafficClass), sizeofInt)
		}
		if r.HopLimit != 0 {
			control = appendCmsg(control, unix.IPPROTO_IPV6, unix.IPV6_HOPLIMIT, uint32(r.HopLimit), sizeofInt)
		}
	}
	nameLen := putSockaddr(&s.name, c.dst, p.cfg.Port, r.FlowLabel, p.scope(c.dst))
	setMessage(m, &s.name, nameLen, iovs, control)
}

// flush sends the messages of the batch and empties it.
func (p *Port) flush(b *sendBatch) {
	for i := range b.n {
		c := &b.messages[i]
		p.prepare(&b.msgs[i], &b.slots[i], c, b.iovs[c.from:c.to])
	}
	waited := false
	for done := 0; done < b.n; {
		n, errno := p.tap.Load().send(b.fd, b.msgs[done:b.n], b.messages[done:b.n], b.iovs[:], p.cfg.Port)
		p.counters.SendCalls.Add(1)
		for i := done; i < done+n; i++ {
			p.counters.SentPackets.Add(uint64(b.messages[i].n))
			p.counters.SentBytes.Add(uint64(b.messages[i].bytes))
		}
		done += n
		switch {
		case errno == 0:
		case errno == unix.EAGAIN && !waited:
			waited = true
			waitWritable(b.fd)
		default:
			p.sendFailed(b, &b.messages[done], errno)
			done++
		}
	}
	b.clear()
}

// sendFailed sends the packets of a message that the kernel refused one by one, if
// that may help, and counts them as dropped otherwise.
func (p *Port) sendFailed(b *sendBatch, c *message, errno unix.Errno) {
	if c.n > 1 {
		switch errno {
		case unix.EIO, unix.EOPNOTSUPP, unix.ENOPROTOOPT:
			// EIO: a device on the path cannot do the checksum of the segments.
			p.degradeGSO(errno.Error())
			p.sendSingly(b, c)
			return
		case unix.EINVAL, unix.EMSGSIZE:
			// Too many segments for this kernel; or packets above the path's MTU, of
			// which the last, shorter one may still fit.
			if errno == unix.EINVAL && c.n > oldMaxSegments {
				p.segmentLimit.Store(oldMaxSegments)
			}
			p.sendSingly(b, c)
			return
		}
	}
	p.countDrop(errno, c.n)
}

// sendSingly sends the packets of a refused GSO send one by one. Each now carries
// identification 0, so its ICRC is computed again.
func (p *Port) sendSingly(b *sendBatch, c *message) {
	for i := c.from; i < c.to; i++ {
		piece := mmsg.Bytes(&b.iovs[i])
		for len(piece) > 0 {
			pkt := piece[:min(c.size, len(piece))]
			piece = piece[len(pkt):]
			p.sendOne(b.fd, c, pkt)
		}
	}
}

func (p *Port) sendOne(fd int, c *message, pkt []byte) {
	var (
		slot sendSlot
		msg  [1]mmsg.Header
		iovs [1]unix.Iovec
	)
	one := [1]message{*c}
	one[0].n, one[0].from, one[0].to = 1, 0, 1
	p.seal(&one[0], pkt, 0)
	mmsg.SetIovec(&iovs[0], pkt)
	p.prepare(&msg[0], &slot, &one[0], iovs[:])
	_, errno := p.tap.Load().send(fd, msg[:], one[:], iovs[:], p.cfg.Port)
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

// degradeGSO turns GSO off for the life of the port, and logs that once.
func (p *Port) degradeGSO(why string) {
	if !p.gsoOff.Swap(true) {
		p.log.Warn("no UDP segmentation offload: sending packet by packet, which is slower",
			"interface", p.at.Load().name, "reason", why)
	}
}

// waitWritable waits a short time for the socket to have room again.
func waitWritable(fd int) {
	fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}
	_, _ = unix.Poll(fds, sendWaitMillis) // if this fails, so does the next send
}
