package rdmacm

import (
	"fmt"
	"net/netip"

	"github.com/gorxe/gorxe/rxe"
	"github.com/gorxe/gorxe/wire"
)

// EventKind is enum rdma_cm_event_type.
type EventKind uint32

const (
	AddrResolved    EventKind = 0
	AddrError       EventKind = 1
	RouteResolved   EventKind = 2
	RouteError      EventKind = 3
	ConnectRequest  EventKind = 4
	ConnectResponse EventKind = 5
	ConnectError    EventKind = 6
	Unreachable     EventKind = 7
	Rejected        EventKind = 8
	Established     EventKind = 9
	Disconnected    EventKind = 10
	DeviceRemoval   EventKind = 11
	MulticastJoin   EventKind = 12
	MulticastError  EventKind = 13
	AddrChange      EventKind = 14
	TimewaitExit    EventKind = 15
)

var eventNames = [...]string{
	"ADDR_RESOLVED", "ADDR_ERROR", "ROUTE_RESOLVED", "ROUTE_ERROR", "CONNECT_REQUEST", "CONNECT_RESPONSE",
	"CONNECT_ERROR", "UNREACHABLE", "REJECTED", "ESTABLISHED", "DISCONNECTED", "DEVICE_REMOVAL", "MULTICAST_JOIN",
	"MULTICAST_ERROR", "ADDR_CHANGE", "TIMEWAIT_EXIT",
}

func (k EventKind) String() string {
	if int(k) < len(eventNames) {
		return eventNames[k]
	}
	return fmt.Sprintf("event %d", uint32(k))
}

// Event is what a handler is called with (struct rdma_cm_event).
type Event struct {
	Kind EventKind
	// Status is 0 or a negative errno. For Rejected and Unreachable it may be the peer's
	// reason.
	Status int32
	ID     *ID
	// Child is the new ID of a ConnectRequest; ID is the listener.
	Child *ID
	// Conn is set for events of a connection, UD for those of datagrams.
	Conn *ConnEvent
	UD   *UDEvent
	// Multicast is what MulticastJoin and MulticastError are about.
	Multicast *Multicast
	// of Rejected: the address that did it; not valid for one of InfiniBand
	Peer netip.AddrPort
}

// ConnEvent is struct rdma_conn_param of an event. The depths are the receiver's: what
// the peer calls its initiator depth is ResponderResources here.
type ConnEvent struct {
	PrivateData        []byte // of a fixed length: zeros follow what the peer sent
	ResponderResources uint8
	InitiatorDepth     uint8
	FlowControl        bool
	RetryCount         uint8
	RNRRetryCount      uint8
	SRQ                bool
	QPN                wire.QPN
}

// UDEvent is struct rdma_ud_param of an event.
type UDEvent struct {
	PrivateData []byte
	AH          rxe.AHAttr
	QPN         wire.QPN
	QKey        uint32
}

// ConnParams is what Connect and Accept take (struct rdma_conn_param).
type ConnParams struct {
	PrivateData        []byte
	ResponderResources uint8
	InitiatorDepth     uint8
	FlowControl        bool
	RetryCount         uint8
	RNRRetryCount      uint8
	SRQ                bool
	QPN                wire.QPN
	QKey               uint32 // UD; 0: that of the port space
}
