package conformance

import (
	"fmt"
	"net/netip"
	"time"

	"github.com/gorxe/gorxe/rocev2/capture"
	"github.com/gorxe/gorxe/wire"
)

// Flow is the packets from one address to one queue pair of another: one
// direction of a connection, or datagrams.
type Flow struct {
	ID       int // from 1, in order of appearance
	Kind     capture.Kind
	Service  wire.Service // of its first packet
	Src, Dst netip.Addr
	QPN      wire.QPN // the destination

	// Peer is the opposite direction of a connection, and Peer.QPN the queue pair
	// that sends here. It is nil while it is not known for certain.
	Peer *Flow
	// SourceQPN is the sender of the last datagram.
	SourceQPN wire.QPN

	Stats FlowStats

	key         flowKey
	dir         *direction
	forgotten   bool       // by the checker, to bound memory
	req         *requests  // nil until there is one
	resp        *responses // nil until there is one
	pair        pairing
	port        uint16 // the UDP source port
	portChanged bool
	manyCNPs    bool
	lastCNP     int64 // nanoseconds
	rate        rateState
	depth       int // READs and atomics that may be outstanding, if pair.agreed
	// seq is when the flow last had a packet, for eviction.
	seq uint64
}

// FlowStats are the statistics of a flow.
//
// Fields: one for each number in a report.
type FlowStats struct {
	First, Last time.Time
	FirstPacket int
	Packets     uint64
	Bytes       uint64 // of payload
	Requests    uint64
	Responses   uint64
	Messages    uint64 // whose last packet was seen

	Retransmissions uint64
	Duplicates      uint64 // the same packet twice
	Late            uint64 // filled a gap
	Gaps            uint64
	Missing         uint64 // PSNs never seen

	ACKs, NAKs, RNRs uint64
	// NAKCodes counts NAKs by what they say.
	NAKCodes [nakCodes]uint64
	// Timeouts counts how often the requester went back although no NAK told it to: its timer had
	// expired, or the NAK is not in the capture.
	Timeouts uint64
	// GaveUp counts the lives of the queue pair whose last request was sent again and not
	// acknowledged.
	GaveUp    uint64
	Rejects   uint64 // REJ messages of the connection manager
	CNPs      uint64
	CNPGap    time.Duration // the shortest between two of them
	Marked    uint64        // CE in the IP header
	Truncated uint64

	PathMTU                     int // inferred; 0 for unknown
	PKey                        wire.PKey
	QKey                        uint32 // of datagrams, the last seen
	MaxReads                    int    // most READs and atomics known to be outstanding at once
	Notes, Warnings, Violations uint64
}

// nakCodes is one more than the highest code of a NAK (IBA 9.7.5.2.2).
const nakCodes = int(wire.NAKInvalidRD) + 1

func (f *Flow) String() string {
	from := ""
	switch {
	case f.Peer != nil:
		from = fmt.Sprintf(" qp 0x%06x", uint32(f.Peer.QPN))
	case f.Service == wire.ServiceUD:
		from = fmt.Sprintf(" qp 0x%06x", uint32(f.SourceQPN))
	}
	return fmt.Sprintf("%v %v%s > %v qp 0x%06x", f.Service, f.Src, from, f.Dst, uint32(f.QPN))
}

// flowKey names a flow.
type flowKey struct {
	src, dst [16]byte
	qpn      wire.QPN
	kind     capture.Kind
}

// hosts names the flows between two addresses in one direction.
type hosts struct {
	src, dst [16]byte
	kind     capture.Kind
}

func (k flowKey) hosts() hosts { return hosts{k.src, k.dst, k.kind} }

// direction is what is known of the flows between two addresses in one direction.
type direction struct {
	flows        int
	unpaired     []*Flow // those whose opposite is not known
	marked, cnps uint64
}

func (c *Checker) direction(h hosts) *direction {
	d := c.between[h]
	if d == nil {
		d = new(direction)
		c.between[h] = d
	}
	return d
}

// opposite returns the direction that is opposite to that of f.
func (c *Checker) opposite(f *Flow) *direction { return c.direction(f.key.hosts().reversed()) }

func (h hosts) reversed() hosts { return hosts{h.dst, h.src, h.kind} }

// doubtful reports whether some packets of a connection were cut, and could not be
// checked for damage. Verdicts that rest on them may be wrong.
func (f *Flow) doubtful() bool {
	return f != nil && (f.Stats.Truncated > 0 || f.Peer != nil && f.Peer.Stats.Truncated > 0)
}
