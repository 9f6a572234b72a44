package cm

import (
	"fmt"

	"github.com/gorxe/gorxe/rxe"
	"github.com/gorxe/gorxe/wire"
)

// EventKind says what happened to a connection.
type EventKind uint8

// The events of a connection.
const (
	EventReply EventKind = iota // a REP came: Ready or Reject answers it
	// an RTU came, or Established was called: the connection is established
	EventReady
	EventRejected    // a REJ came
	EventUnreachable // no answer to a REQ or REP; Status is -110
	EventDisconnect  // a DREQ came: Disconnect or Destroy answers it
	// a DREP came, or none to the last DREQ; Status is then -110
	EventDisconnected
	EventTimewaitExit      // timewait is over
	EventLookupReply       // a SIDR_REP came: see SIDRStatus
	EventLookupUnreachable // no answer to a SIDR_REQ; Status is -110
)

var eventNames = [...]string{
	"reply", "ready", "rejected", "unreachable", "disconnect", "disconnected", "timewait exit", "lookup reply",
	"lookup unreachable",
}

func (k EventKind) String() string {
	if int(k) < len(eventNames) {
		return eventNames[k]
	}
	return fmt.Sprintf("EventKind(%d)", uint8(k))
}

// statusTimeout is -ETIMEDOUT.
const statusTimeout = -110

// Event says what happened to a connection. Which fields are set depends on the kind.
type Event struct {
	Kind   EventKind
	Status int32 // 0, or a negative errno

	// PrivateData is what the peer sent. It is as long as the message's field for it, and
	// nil for events without a message.
	PrivateData []byte

	// Set for a reply, from the peer's point of view.
	RemoteQPN          wire.QPN
	ResponderResources uint8
	InitiatorDepth     uint8
	RNRRetryCount      uint8
	TargetACKDelay     uint8
	FlowControl        bool
	SRQ                bool

	// Set for a rejection.
	Reason          wire.CMReason
	MessageRejected wire.CMSubject
	ARI             []byte // additional reject information

	// Set for a lookup reply, and RemoteQPN if the status is success.
	SIDRStatus wire.SIDRStatus
	QKey       uint32
	Info       []byte // additional information
}

// Request is what a listener's handler decides about: a REQ or a SIDR_REQ. It and its
// bytes are valid during the call.
type Request struct {
	Lookup bool       // a SIDR_REQ, which has From, Service, PKey and PrivateData only
	From   rxe.AHAttr // where the datagram came from, not the address in the REQ

	Service     uint64
	PKey        wire.PKey
	PrivateData []byte // with the RDMA IP CM header, if there is one

	RemoteGUID         uint64
	RemoteQPN          wire.QPN
	QPType             rxe.QPType
	StartingPSN        wire.PSN
	PathMTU            rxe.MTU
	ResponderResources uint8 // of the peer
	InitiatorDepth     uint8 // of the peer
	RetryCount         uint8
	RNRRetryCount      uint8
	FlowControl        bool
	SRQ                bool
	// Path is the primary path as the peer sees it. The Machine does not know the
	// device's GIDs: the handler must refuse a RemoteGID that the device does not have,
	// with wire.RejectPrimaryGID.
	Path wire.CMPath
}

// Verdict is what a listener's handler decides: what Admit returned, Ignore or Refuse.
type Verdict interface{ verdict() }

type silentVerdict uint8

func (silentVerdict) verdict() {}

const (
	// take means that the user owns the connection, and will call Destroy. Only Admit returns it.
	// The handler must have called SetHandler. It may have called Accept or Reject already.
	take silentVerdict = iota
	// Ignore drops the request and forgets it, as if it had been lost. If the peer sends
	// it again, it is a new request. A SIDR_REQ is refused instead, as Linux does.
	Ignore
	// drop forgets the request and answers nothing: a bound is reached. Only Admit returns it.
	drop
)

// Refuse answers a REQ with a REJ, and a SIDR_REQ with the status wire.SIDRReject.
type Refuse struct {
	Reason wire.CMReason
	ARI    []byte // additional reject information, at most 72 bytes; not for a SIDR_REQ
	Data   []byte // private data, at most 148 bytes, or 136 for a SIDR_REQ
}

func (Refuse) verdict() {}
