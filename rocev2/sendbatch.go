package rocev2

import (
	"net/netip"

	"github.com/gorxe/gorxe/wire"
	"golang.org/x/sys/unix"
)

// What one call of Port.Send has to send is sorted by socket, and what leaves a
// socket in turn for one destination in packets of one size is one message,
// whichever flows it is of: a thousand queue pairs that send an acknowledgement
// each then need as many system calls as there are sockets. Within a socket, and
// so within a flow, the order stays.

const (
	// sendBatchLen is how many messages one sendmmsg call takes, sendPieces how
	// many runs of packets they are gathered from.
	sendBatchLen = 32
	sendPieces   = 256
)

// chunk is the packets of one message: a single packet, or a GSO send.
type chunk struct {
	icrc     wire.ICRCState
	seg      int  // bytes per packet; the last may be shorter
	n        int  // packets
	bytes    int  // in all
	ended    bool // the last packet was shorter
	from, to int  // its pieces, in sendBatch.iovs
	src, dst netip.Addr
	srcPort  uint16
	route    *wire.Route // of its first packet; SrcPort is that flow's
}

// takes says whether packets of seg bytes may follow in the same message.
func (c *chunk) takes(r *wire.Route, dst netip.Addr, seg, perCall int) bool {
	if c.ended || c.seg != seg || c.n >= perCall {
		return false
	}
	return c.route == r || c.dst == dst && c.route.Src == r.Src && c.route.TrafficClass == r.TrafficClass &&
		c.route.HopLimit == r.HopLimit && c.route.FlowLabel == r.FlowLabel
}

// sendSlot is the memory that one message points to, but for its packets.
type sendSlot struct {
	control [3 * cmsgSpace]byte
	name    sockaddr
}

// sendBatch is the messages of one sendmmsg call, all for the same socket.
type sendBatch struct {
	fd     int
	port   uint16 // of the socket
	n      int
	pieces int
	msgs   [sendBatchLen]mmsghdr
	slots  [sendBatchLen]sendSlot
	chunks [sendBatchLen]chunk
	iovs   [sendPieces]unix.Iovec
}

// last is the message that may be extended, nil if there is none.
func (b *sendBatch) last() *chunk {
	if b.n == 0 {
		return nil
	}
	return &b.chunks[b.n-1]
}

// add begins a message.
func (b *sendBatch) add(r *wire.Route, src, dst netip.Addr, seg int, dstPort uint16) *chunk {
	c := &b.chunks[b.n]
	b.n++
	*c = chunk{
		icrc: wire.NewICRC(&wire.Route{Src: src, Dst: dst, SrcPort: b.port}, dstPort),
		seg:  seg, from: b.pieces, to: b.pieces, src: src, dst: dst, srcPort: b.port, route: r,
	}
	return c
}

// extend adds packets to the last message.
func (b *sendBatch) extend(c *chunk, piece []byte) {
	setIovec(&b.iovs[b.pieces], piece)
	b.pieces++
	c.to = b.pieces
	c.n += (len(piece) + c.seg - 1) / c.seg
	c.bytes += len(piece)
	c.ended = len(piece)%c.seg != 0
}

// clear keeps no reference to the caller's memory.
func (b *sendBatch) clear() {
	clear(b.chunks[:b.n])
	clear(b.iovs[:b.pieces])
	b.n, b.pieces = 0, 0
}

// sends is what one call of Port.Send works with: a batch for each socket in use.
type sends struct {
	used []*sendBatch // the first of all
	all  []*sendBatch
	from *endpoint // of the last burst
}

// endpoint is the one for src, nil if there is none.
func (s *sends) endpoint(p *Port, src netip.Addr) *endpoint {
	if s.from == nil || s.from.addr != src {
		s.from = p.endpoints[src]
	}
	return s.from
}

// batch is the one for a socket of e.
func (s *sends) batch(e *endpoint, socket int) *sendBatch {
	fd := e.fds[socket]
	for _, b := range s.used {
		if b.fd == fd {
			return b
		}
	}
	if len(s.used) == len(s.all) {
		s.all = append(s.all, new(sendBatch))
	}
	s.used = s.all[:len(s.used)+1]
	b := s.used[len(s.used)-1]
	b.fd, b.port = fd, e.ports[socket]
	return b
}
