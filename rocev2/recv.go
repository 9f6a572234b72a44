package rocev2

import (
	"net/netip"
	"os"
	"sync"
	"syscall"

	"github.com/gorxe/gorxe/wire"
	"golang.org/x/sys/unix"
)

const (
	// recvBatchLen is how many datagrams one recvmmsg call takes. With GRO one
	// may hold dozens of packets; senders that leave the UDP checksum out, as
	// kernel rdma_rxe does, are not coalesced and need the batch.
	recvBatchLen = 16
	// recvBufferLen holds the largest datagram that GRO makes.
	recvBufferLen = 65536

	// flowCacheLen bounds the flows whose ICRC state is remembered, maxPeers the
	// addresses whose habits are.
	flowCacheLen = 64
	maxPeers     = 4096
)

// receiver owns one receiving socket and the goroutine that reads it. It is
// bound to one address, so what it receives was sent to that address.
type receiver struct {
	port  *Port
	file  *os.File
	raw   syscall.RawConn
	addr  netip.Addr // the address it is bound to, unicast or multicast
	room  int        // bytes of SO_RCVBUF
	done  sync.WaitGroup
	batch recvBatch

	out         []wire.Datagram
	flows       [flowCacheLen]flow
	peers       map[netip.Addr]*wire.DFHint
	lastDropped uint32
}

// flow is what the receiver remembers about packets of one source address and
// port; a collision in the cache only costs computing it again.
type flow struct {
	src  netip.Addr
	port uint16
	icrc wire.ICRCState
	hint *wire.DFHint
}

// recvSlot is the memory that one message points to.
type recvSlot struct {
	control [6 * cmsgSpace]byte
	name    sockaddr
	iov     unix.Iovec
}

type recvBatch struct {
	n     int // messages received
	errno unix.Errno
	msgs  [recvBatchLen]mmsghdr
	slots [recvBatchLen]recvSlot
	buf   []byte
}

// openReceiver binds the RoCEv2 port on addr.
func (p *Port) openReceiver(addr netip.Addr) (*receiver, error) {
	fd, err := unix.Socket(family(addr), unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.IPPROTO_UDP)
	if err != nil {
		return nil, &PortError{Op: "create", Object: "receiving socket on " + addr.String(),
			Kind: permissionKind(err), Cause: os.NewSyscallError("socket", err)}
	}
	if err := setReceiveOptions(fd, addr); err != nil {
		unix.Close(fd)
		return nil, &PortError{Op: "configure", Object: "receiving socket on " + addr.String(),
			Kind: permissionKind(err), Cause: err}
	}
	if !p.cfg.NoGRO {
		if err := unix.SetsockoptInt(fd, unix.IPPROTO_UDP, unix.UDP_GRO, 1); err != nil && !p.groOff.Swap(true) {
			p.log.Warn("no UDP receive offload: receiving packet by packet, which is slower",
				"interface", p.name, "reason", err)
		}
	}
	room := setBuffer(fd, unix.SO_RCVBUF, unix.SO_RCVBUFFORCE, p.cfg.SocketBuffer)
	if err := unix.Bind(fd, bindAddr(addr, p.cfg.Port, p.scope(addr))); err != nil {
		unix.Close(fd)
		return nil, bindError(addr, p.cfg.Port, os.NewSyscallError("bind", err))
	}
	// A file over a non-blocking descriptor waits in the runtime's poller: the
	// goroutine parks, and Close wakes it.
	file := os.NewFile(uintptr(fd), "udp "+addr.String())
	raw, err := file.SyscallConn()
	if err != nil {
		file.Close()
		return nil, &PortError{Op: "configure", Object: "receiving socket on " + addr.String(), Cause: err}
	}
	r := newReceiver(p, addr)
	r.file, r.raw, r.room = file, raw, room
	r.batch.buf = make([]byte, recvBatchLen*recvBufferLen)
	return r, nil
}

func newReceiver(p *Port, addr netip.Addr) *receiver {
	return &receiver{port: p, addr: addr, peers: make(map[netip.Addr]*wire.DFHint)}
}

func setReceiveOptions(fd int, addr netip.Addr) error {
	tryInt(fd, unix.SOL_SOCKET, unix.SO_RXQ_OVFL, 1)
	if addr.IsMulticast() {
		// Several devices of a host may listen to one group.
		if err := setInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1, "SO_REUSEADDR"); err != nil {
			return err
		}
	}
	if addr.Is4() {
		// Only groups that this very socket joined, not every one of the host's.
		tryInt(fd, unix.IPPROTO_IP, unix.IP_MULTICAST_ALL, 0)
		if err := setInt(fd, unix.IPPROTO_IP, unix.IP_RECVTOS, 1, "IP_RECVTOS"); err != nil {
			return err
		}
		return setInt(fd, unix.IPPROTO_IP, unix.IP_RECVTTL, 1, "IP_RECVTTL")
	}
	const ipv6MulticastAll = 29 // linux/in6.h; since 4.20
	tryInt(fd, unix.IPPROTO_IPV6, ipv6MulticastAll, 0)
	if err := setInt(fd, unix.IPPROTO_IPV6, unix.IPV6_V6ONLY, 1, "IPV6_V6ONLY"); err != nil {
		return err
	}
	// rdma_rxe and many NICs send UDP checksum 0 over IPv6 as well, which a
	// socket refuses unless told otherwise (RFC 6936).
	if err := setInt(fd, unix.IPPROTO_UDP, unix.UDP_NO_CHECK6_RX, 1, "UDP_NO_CHECK6_RX"); err != nil {
		return err
	}
	if err := setInt(fd, unix.IPPROTO_IPV6, unix.IPV6_RECVTCLASS, 1, "IPV6_RECVTCLASS"); err != nil {
		return err
	}
	return setInt(fd, unix.IPPROTO_IPV6, unix.IPV6_RECVHOPLIMIT, 1, "IPV6_RECVHOPLIMIT")
}

func (r *receiver) start() {
	r.done.Add(1)
	go func() {
		defer r.done.Done()
		r.run()
	}()
}

// stop ends the goroutine and returns when its last call of the Receiver has.
func (r *receiver) stop() {
	r.file.Close()
	r.done.Wait()
}

// run receives until the socket is closed.
func (r *receiver) run() {
	b := &r.batch
	receive := func(fd uintptr) bool {
		b.n, b.errno = recvmmsg(int(fd), b.msgs[:])
		return b.errno != unix.EAGAIN
	}
	b.n = recvBatchLen
	for {
		b.reset()
		if r.raw.Read(receive) != nil {
			return // closed
		}
		if b.errno != 0 {
			b.n = 0
			r.port.counters.ReceiveErrors.Add(1)
			continue
		}
		r.port.counters.ReceiveCalls.Add(1)
		r.deliver()
	}
}

// reset makes the messages that the last call filled ready to be filled again.
func (b *recvBatch) reset() {
	for i := range b.n {
		s := &b.slots[i]
		b.msgs[i].setBuffers(&s.name, uint32(unix.SizeofSockaddrInet6), &s.iov,
			b.buf[i*recvBufferLen:][:recvBufferLen], s.control[:])
	}
}

// deliver checks the packets of the batch and hands the good ones over.
func (r *receiver) deliver() {
	b := &r.batch
	r.out = r.out[:0]
	for i := range b.n {
		m, s := &b.msgs[i], &b.slots[i]
		meta := parseControl(s.control[:min(int(m.hdr.Controllen), len(s.control))])
		if meta.hasDropped && meta.dropped != r.lastDropped {
			r.port.counters.ReceiveQueueDrop.Add(uint64(meta.dropped - r.lastDropped))
			r.lastDropped = meta.dropped
		}
		if m.hdr.Flags&unix.MSG_TRUNC != 0 {
			r.port.counters.Truncated.Add(1)
			continue
		}
		src, srcPort := readSockaddr(&s.name)
		r.accept(b.buf[i*recvBufferLen:][:m.n], meta, src, srcPort)
	}
	if len(r.out) > 0 {
		r.port.cfg.Receiver(r.out)
	}
}

// accept splits one datagram into packets and checks each.
func (r *receiver) accept(data []byte, meta rxMeta, src netip.Addr, srcPort uint16) {
	c := &r.port.counters
	if r.addr.IsMulticast() && r.port.owns(src) {
		return // our own packet: copies to this device's QPs are made by the engine
	}
	f := r.flowOf(src, srcPort)
	var (
		packets, octets uint64
		ids             idSequence
	)
	for seg, rest := nextSegment(data, meta.segment); ; seg, rest = nextSegment(rest, meta.segment) {
		id, df, ok := ids.check(f, seg)
		switch {
		case ok:
			packets++
			octets += uint64(len(seg))
			r.out = append(r.out, wire.Datagram{
				Data: seg[:len(seg)-icrcLen], Src: src, Dst: r.addr, SrcPort: srcPort,
				TrafficClass: meta.trafficClass, HopLimit: meta.hopLimit,
			})
		case len(seg) < minPacket:
			c.Malformed.Add(1)
		default:
			c.ICRCErrors.Add(1)
		}
		if tap := r.port.cfg.Tap; tap != nil {
			tap.received(seg, src, r.addr, srcPort, r.port.cfg.Port, meta, id, df || !ok)
		}
		if len(rest) == 0 {
			break
		}
	}
	c.ReceivedPackets.Add(packets)
	c.ReceivedBytes.Add(octets)
}

// idSequence guesses the IPv4 identifications of packets that GRO joined: one
// more each where the sender used GSO, all the same with many NICs. A right
// guess saves solving for the identification, which costs as much as the CRC of
// a short packet; a wrong one costs that CRC again.
type idSequence struct {
	guessing   bool
	next, step uint16
}

// check is wire.ICRCState.CheckUnknownID, helped by the packets before.
func (s *idSequence) check(f *flow, pkt []byte) (id uint16, df, ok bool) {
	if s.guessing && f.icrc.Check(pkt, s.next, true) {
		id = s.next
		s.next += s.step
		return id, true, true
	}
	id, df, ok = f.icrc.CheckUnknownID(pkt, f.hint)
	if ok {
		s.step = 1
		if s.guessing && id+1 == s.next {
			s.step = 0 // the same as the one before
		}
		s.guessing, s.next = true, id+s.step
	}
	return id, df, ok
}

// flowOf returns what is remembered about a source, computing it if need be.
func (r *receiver) flowOf(src netip.Addr, srcPort uint16) *flow {
	f := &r.flows[srcPort%flowCacheLen]
	if f.port == srcPort && f.src == src {
		return f
	}
	hint := r.peers[src]
	if hint == nil {
		if len(r.peers) >= maxPeers {
			clear(r.peers)
		}
		hint = new(wire.DFHint)
		r.peers[src] = hint
	}
	*f = flow{
		src: src, port: srcPort, hint: hint,
		icrc: wire.NewICRC(&wire.Route{Src: src, Dst: r.addr, SrcPort: srcPort}, r.port.cfg.Port),
	}
	return f
}
