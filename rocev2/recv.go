package rocev2

import (
	"net/netip"

	"github.com/gorxe/gorxe/internal/sched/standby"
	"github.com/gorxe/gorxe/internal/sys/mmsg"
	"github.com/gorxe/gorxe/wire"
	"golang.org/x/sys/unix"
)

// reader reads a receiver's socket. It has its own goroutine and buffers.
type reader struct {
	rx    *receiver
	port  *Port
	addr  netip.Addr // the receiver's
	batch recvBatch

	out     []wire.Datagram
	managed int // packets to QP 1, good and bad
	flows   [flowCacheLen]flow
	peers   map[netip.Addr]*wire.DFHint

	wait waiting
}

func newReader(rx *receiver) *reader {
	return &reader{rx: rx, port: rx.port, addr: rx.addr, peers: make(map[netip.Addr]*wire.DFHint)}
}

// flow is what a reader keeps about packets of one source address and port. If two
// flows have the same place in the cache, it is computed again.
type flow struct {
	src  netip.Addr
	port uint16
	icrc wire.ICRCState
	hint *wire.DFHint
}

// recvSlot is the memory that one message points to, apart from its packets.
type recvSlot struct {
	control [recvCmsgs * cmsgSpace]byte
	name    sockaddr
	iov     [1]unix.Iovec
}

type recvBatch struct {
	want  int // messages to ask for: the first of msgs
	n     int // messages received
	errno unix.Errno
	msgs  [recvBatchLen]mmsg.Header
	slots [recvBatchLen]recvSlot
	buf   []byte
}

// run receives until the socket is closed, or until another reader has replaced this
// one during a call of Config.Receiver.
func (r *reader) run(h *standby.Worker) {
	b := &r.batch
	b.buf = make([]byte, recvBatchLen*recvBufferLen)
	b.n, b.want = recvBatchLen, recvBatchLen
	if r.wait.begin(r.rx.socket, r.port.cfg.Threads, b) != nil {
		return // closed
	}
	defer r.wait.end()
	for {
		b.reset()
		if r.wait.receive() != nil {
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

// reset prepares the messages that the last call filled for the next call.
func (b *recvBatch) reset() {
	for i := range b.n {
		s := &b.slots[i]
		mmsg.SetIovec(&s.iov[0], b.buf[i*recvBufferLen:][:recvBufferLen])
		setMessage(&b.msgs[i], &s.name, uint32(unix.SizeofSockaddrInet6), s.iov[:], s.control[:])
	}
}

// ask sets how many messages to ask for next. octets is the length of all messages of the last
// call. The next ones are assumed to be as long.
func (b *recvBatch) ask(octets int) {
	mean := octets/b.n + 1
	b.want = min(max(recvBatchBytes/mean, 1), recvBatchLen)
}

// deliver checks the packets of the batch and passes the good ones to
// Config.Receiver. It reports whether this is still the socket's reader.
func (r *reader) deliver(h *standby.Worker) bool {
	b := &r.batch
	r.out = r.out[:0]
	octets := 0
	for i := range b.n {
		m, s := &b.msgs[i], &b.slots[i]
		octets += int(m.N)
		meta := parseControl(s.control[:min(int(m.Hdr.Controllen), len(s.control))])
		if m.Hdr.Flags&unix.MSG_TRUNC != 0 {
			r.port.counters.Truncated.Add(1)
			continue
		}
		src, srcPort := readSockaddr(&s.name)
		r.accept(b.buf[i*recvBufferLen:][:m.N], meta, src, srcPort)
	}
	b.ask(octets)
	if r.managed > 0 {
		r.port.filter.management(r.rx, r.managed)
		r.managed = 0
	}
	if len(r.out) == 0 {
		return true
	}
	h.Enter()
	r.port.cfg.Receiver(r.out)
	return h.Leave()
}

// accept splits one datagram into packets and checks each.
func (r *reader) accept(buf []byte, meta rxMeta, src netip.Addr, srcPort uint16) {
	c := &r.port.counters
	if r.addr.IsMulticast() && r.port.owns(src) {
		return // sent by this port: the engine copies it to the device's own queue pairs
	}
	f := r.flowOf(src, srcPort)
	var (
		packets, octets uint64
		ids             idSequence
	)
	for pkt, rest := nextPacket(buf, meta.segment); ; pkt, rest = nextPacket(rest, meta.segment) {
		if isManagement(pkt) {
			r.managed++
		}
		id, df, ok := ids.check(f, pkt)
		switch {
		case ok:
			packets++
			octets += uint64(len(pkt))
			r.out = append(r.out, wire.Datagram{
				Data: pkt[:len(pkt)-icrcLen], Src: src, Dst: r.addr, SrcPort: srcPort,
				TrafficClass: meta.trafficClass, HopLimit: meta.hopLimit,
			})
		case len(pkt) < minPacket:
			c.Malformed.Add(1)
		default:
			c.ICRCErrors.Add(1)
		}
		if tap := r.port.tap.Load(); tap != nil {
			tap.received(pkt, src, r.addr, srcPort, r.port.cfg.Port, meta, id, df || !ok)
		}
		if len(rest) == 0 {
			break
		}
	}
	c.ReceivedPackets.Add(packets)
	c.ReceivedBytes.Add(octets)
}

// idSequence guesses the IPv4 identifications of packets that GRO joined. They grow
// by one if the sender used GSO, and many network cards send the same one always. A
// right guess saves computing the identification, which costs as much as the CRC of
// a short packet. A wrong guess costs one more CRC.
type idSequence struct {
	guessing   bool
	next, step uint16
}

// check is wire.ICRCState.CheckUnknownID, with a guess from the packets before.
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
			s.step = 0 // the same as that of the packet before
		}
		s.guessing, s.next = true, id+s.step
	}
	return id, df, ok
}

// flowOf returns the flow of a source, and computes it if necessary.
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
