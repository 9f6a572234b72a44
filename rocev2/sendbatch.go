package rocev2

import (
	"net/netip"

	"github.com/gorxe/gorxe/internal/sys/mmsg"
	"github.com/gorxe/gorxe/wire"
	"golang.org/x/sys/unix"
)

// One call of Port.Send sorts its packets by socket. Consecutive packets of a socket
// with one size and one destination become one message, even if they belong to
// several flows. So a thousand queue pairs that send an acknowledgement each need
// only one system call for each socket. The order within a socket, and so within a
// flow, does not change.

// message is the packets of one message: a single packet, or a GSO send.
type message struct {
	icrc     wire.ICRCState
	damage   uint32
	note     string // for captures
	size     int    // bytes per packet; the last may be shorter
	n        int    // packets
	bytes    int    // in all
	ended    bool   // the last packet was shorter
	from, to int    // its pieces, in sendBatch.iovs
	src, dst netip.Addr
	srcPort  uint16
	route    *wire.Route // of its first packet; SrcPort is that flow's
}

// takes reports whether packets of the given size may follow in the same message.
func (c *message) takes(burst *wire.Burst, dst netip.Addr, size, perCall int) bool {
	if c.ended || c.size != size || c.n >= perCall || c.damage != burst.Damage || c.note != burst.Note {
		return false
	}
	r := burst.Route
	return c.route == r || c.dst == dst && c.route.Src == r.Src && c.route.TrafficClass == r.TrafficClass &&
		c.route.HopLimit == r.HopLimit && c.route.FlowLabel == r.FlowLabel
}

// sendSlot is the memory that one message points to, apart from its packets.
type sendSlot struct {
	control [sendCmsgs * cmsgSpace]byte
	name    sockaddr
}

// sendBatch is the messages of one sendmmsg call, all for the same socket.
type sendBatch struct {
	fd       int
	port     uint16 // of the socket
	n        int
	pieces   int
	msgs     [sendBatchLen]mmsg.Header
	slots    [sendBatchLen]sendSlot
	messages [sendBatchLen]message
	iovs     [sendPieces]unix.Iovec
}

// last returns the last message, nil if there is none.
func (b *sendBatch) last() *message {
	if b.n == 0 {
		return nil
	}
	return &b.messages[b.n-1]
}

// add begins a message.
func (b *sendBatch) add(burst *wire.Burst, src, dst netip.Addr, size int, dstPort uint16) *message {
	before := b.last()
	c := &b.messages[b.n]
	b.n++
	*c = message{
		size: size, from: b.pieces, to: b.pieces, src: src, dst: dst, srcPort: b.port, route: burst.Route,
		damage: burst.Damage, note: burst.Note,
	}
	if before != nil && before.src == src && before.dst == dst {
		c.icrc = before.icrc
	} else {
		c.icrc = wire.NewICRC(&wire.Route{Src: src, Dst: dst, SrcPort: b.port}, dstPort)
	}
	return c
}

// extend adds packets to the last message.
func (b *sendBatch) extend(c *message, piece []byte) {
	mmsg.SetIovec(&b.iovs[b.pieces], piece)
	b.pieces++
	c.to = b.pieces
	c.n += (len(piece) + c.size - 1) / c.size
	c.bytes += len(piece)
	c.ended = len(piece)%c.size != 0
}

// clear empties the batch and drops all references to the caller's memory.
func (b *sendBatch) clear() {
	clear(b.messages[:b.n])
	clear(b.iovs[:b.pieces])
	b.n, b.pieces = 0, 0
}

// sends is the state of one call of Port.Send: a batch for each socket in use.
type sends struct {
	used []*sendBatch // the first ones of all
	all  []*sendBatch
	from *endpoint // of the last burst
}

// endpoint returns the endpoint of address src, nil if there is none.
func (s *sends) endpoint(p *Port, src netip.Addr) *endpoint {
	if s.from == nil || s.from.addr != src {
		s.from = p.endpoints[src]
	}
	return s.from
}

// batch returns the batch of a socket of e.
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
