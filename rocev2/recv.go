package rocev2

import (
	"net/netip"

	"github.com/gorxe/gorxe/internal/standby"
	"github.com/gorxe/gorxe/wire"
	"golang.org/x/sys/unix"
)

const (
	// recvBatchLen is how many datagrams one recvmmsg call takes. With GRO one
	// may hold dozens of packets; senders that leave the UDP checksum out, as
	// kernel rdma_rxe does, are not coalesced and need the batch.
	recvBatchLen = 16
	// recvBatchBytes is how much one call should take, which is less when GRO does
	// its work: the caches must still hold it when it is checked and copied.
	recvBatchBytes = 256 << 10
	// recvBufferLen holds the largest datagram that GRO makes.
	recvBufferLen = 65536

	// flowCacheLen bounds the flows whose ICRC state is remembered, maxPeers the
	// addresses whose habits are.
	flowCacheLen = 64
	maxPeers     = 4096
)

// reader reads a receiver's socket, in a goroutine and with buffers of its own.
type reader struct {
	rx    *receiver
	port  *Port
	addr  netip.Addr // the receiver's
	batch recvBatch

	out   []wire.Datagram
	flows [flowCacheLen]flow
	peers map[netip.Addr]*wire.DFHint
}

func newReader(rx *receiver) *reader {
	return &reader{rx: rx, port: rx.port, addr: rx.addr, peers: make(map[netip.Addr]*wire.DFHint)}
}

// flow is what a reader remembers about packets of one source address and
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
	iov     [1]unix.Iovec
}

type recvBatch struct {
	want  int // messages to ask for: the first of msgs
	n     int // messages received
	errno unix.Errno
	msgs  [recvBatchLen]mmsghdr
	slots [recvBatchLen]recvSlot
	buf   []byte
}

// run receives until the socket is closed, or until another reader has taken
// over while Config.Receiver was called.
func (r *reader) run(h *standby.Worker) {
	b := &r.batch
	b.buf = make([]byte, recvBatchLen*recvBufferLen)
	receive := func(fd uintptr) bool {
		b.n, b.errno = recvmmsg(int(fd), b.msgs[:b.want])
		return b.errno != unix.EAGAIN
	}
	b.n, b.want = recvBatchLen, recvBatchLen
	for {
		b.reset()
		if r.rx.raw.Read(receive) != nil {
			return // closed
		}
		if b.errno != 0 {
			b.n = 0
			r.port.counters.ReceiveErrors.Add(1)
			continue
		}
		r.port.counters.ReceiveCalls.Add(1)
		if !r.deliver(h) {
			return
		}
	}
}

// reset makes the messages that the last call filled ready to be filled again.
func (b *recvBatch) reset() {
	for i := range b.n {
		s := &b.slots[i]
		setIovec(&s.iov[0], b.buf[i*recvBufferLen:][:recvBufferLen])
		b.msgs[i].set(&s.name, uint32(unix.SizeofSockaddrInet6), s.iov[:], s.control[:])
	}
}

// ask decides how many messages to ask for next: if they are like those of the
// last call, which had that many bytes, they make a batch.
func (b *recvBatch) ask(octets int) {
	mean := octets/b.n + 1
	b.want = min(max(recvBatchBytes/mean, 1), recvBatchLen)
}

// deliver checks the packets of the batch and hands the good ones over. It
// reports whether this is still the socket's reader.
func (r *reader) deliver(h *standby.Worker) bool {
	b := &r.batch
	r.out = r.out[:0]
	octets := 0
	for i := range b.n {
		m, s := &b.msgs[i], &b.slots[i]
		octets += int(m.n)
		meta := parseControl(s.control[:min(int(m.hdr.Controllen), len(s.control))])
		if meta.hasDropped && meta.dropped != r.rx.lastDropped {
			r.port.counters.ReceiveQueueDrop.Add(uint64(meta.dropped - r.rx.lastDropped))
			r.rx.lastDropped = meta.dropped
		}
		if m.hdr.Flags&unix.MSG_TRUNC != 0 {
			r.port.counters.Truncated.Add(1)
			continue
		}
		src, srcPort := readSockaddr(&s.name)
		r.accept(b.buf[i*recvBufferLen:][:m.n], meta, src, srcPort)
	}
	b.ask(octets)
	if len(r.out) == 0 {
		return true
	}
	h.Enter()
	r.port.cfg.Receiver(r.out)
	return h.Leave()
}

// accept splits one datagram into packets and checks each.
func (r *reader) accept(data []byte, meta rxMeta, src netip.Addr, srcPort uint16) {
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
func (r *reader) flowOf(src netip.Addr, srcPort uint16) *flow {
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
