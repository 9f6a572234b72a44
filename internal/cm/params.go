package cm

import (
	"github.com/gorxe/gorxe/rxe"
	"github.com/gorxe/gorxe/wire"
)

// ConnectParams is what Connect asks a peer for.
type ConnectParams struct {
	User    any // of the connection: see Limits; compared
	Service uint64
	Path    rxe.AHAttr // to the peer: DGID, and SGIDIndex of SGID
	SGID    wire.GID
	PKey    wire.PKey // 0: the default partition

	QPN         wire.QPN
	QPType      rxe.QPType // RC or UC; 0: RC
	StartingPSN wire.PSN   // of the first packet that the peer sends; 0: a random one
	PathMTU     rxe.MTU

	ResponderResources uint8 // READs and atomics that the queue pair answers at a time
	InitiatorDepth     uint8 // READs and atomics that it has outstanding
	RetryCount         uint8 // at most 7
	RNRRetryCount      uint8 // at most 7
	FlowControl        bool
	SRQ                bool

	// PacketLifetime is how long a packet may take, 4.096 µs times 2 to this power. The
	// local ACK timeout is made from it. 0 means 16, which makes the timeout 17.
	PacketLifetime uint8
	// PrivateData is at most 92 bytes, with the RDMA IP CM header.
	PrivateData []byte
}

// LookupParams is what Lookup asks a peer for.
type LookupParams struct {
	User        any // as of ConnectParams
	Service     uint64
	Path        rxe.AHAttr
	PKey        wire.PKey // 0: the default partition
	PrivateData []byte    // at most 216 bytes, with the RDMA IP CM header
}

// AcceptParams is how Accept answers. For a SIDR_REQ only QPN, QKey, Info and
// PrivateData have a meaning.
type AcceptParams struct {
	QPN         wire.QPN
	StartingPSN wire.PSN // of the first packet that the peer sends; 0: the one that QPAttr returned

	ResponderResources uint8
	InitiatorDepth     uint8
	RNRRetryCount      uint8 // at most 7
	FlowControl        bool
	SRQ                bool

	QKey uint32
	Info []byte // additional information, at most 72 bytes

	PrivateData []byte // at most 196 bytes, or 136 for a SIDR_REQ
}

// qpParams is what the two sides agree on for their queue pairs.
type qpParams struct {
	typ                rxe.QPType
	localQPN           wire.QPN
	mtu                rxe.MTU
	rqPSN, sqPSN       wire.PSN // the peer starts with rqPSN
	responderResources uint8    // of this side
	initiatorDepth     uint8    // of this side
	retryCount         uint8
	rnrRetryCount      uint8
	ackTimeout         uint8
}

// Transport types of a REQ (IBA 12.6.5).
const (
	transportRC       = 0
	transportUC       = 1
	transportExtended = 3

	extendedXRC = 1
)

// qpTypeOf returns the type of queue pair that a REQ asks this side for, or 0 for a
// transport that does not exist.
func qpTypeOf(req wire.CMREQ) rxe.QPType {
	switch req.TransportType() {
	case transportRC:
		return rxe.QPRC
	case transportUC:
		return rxe.QPUC
	case transportExtended:
		if req.ExtendedTransportType() == extendedXRC {
			return rxe.QPXRCTgt
		}
	}
	return 0
}

// drawPSN returns the chosen PSN, or a random one if that is 0.
func (m *Machine) drawPSN(chosen wire.PSN) wire.PSN {
	if chosen != 0 {
		return chosen & wire.PSNMask
	}
	return wire.PSN(m.cfg.Random()) & wire.PSNMask
}

// defaultPKey returns the chosen P_Key, or that of the default partition if it is 0.
func defaultPKey(chosen wire.PKey) wire.PKey {
	if chosen != 0 {
		return chosen
	}
	return wire.DefaultPKey
}
