package rdmacm

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/gorxe/gorxe/internal/cm/localcm"
	"github.com/gorxe/gorxe/internal/cm/rdmacm"
	"github.com/gorxe/gorxe/rxe"
	"github.com/gorxe/gorxe/verbsapi"
	"github.com/gorxe/gorxe/verbsapi/internal/waitqueue"
	"github.com/gorxe/gorxe/wire"
)

// EventType is enum rdma_cm_event_type.
type EventType = rdmacm.EventKind

// The types of events, and what they are about: docs/verbs.md.
const (
	AddrResolved    = rdmacm.AddrResolved
	AddrError       = rdmacm.AddrError
	RouteResolved   = rdmacm.RouteResolved
	RouteError      = rdmacm.RouteError
	ConnectRequest  = rdmacm.ConnectRequest
	ConnectResponse = rdmacm.ConnectResponse
	ConnectError    = rdmacm.ConnectError
	Unreachable     = rdmacm.Unreachable
	Rejected        = rdmacm.Rejected
	Established     = rdmacm.Established
	Disconnected    = rdmacm.Disconnected
	DeviceRemoval   = rdmacm.DeviceRemoval
	MulticastJoin   = rdmacm.MulticastJoin
	MulticastError  = rdmacm.MulticastError
	AddrChange      = rdmacm.AddrChange
	TimewaitExit    = rdmacm.TimewaitExit
)

// Event says what happened to an ID (struct rdma_cm_event). It needs no acknowledgement.
type Event struct {
	Type EventType
	// Status is 0 or a negative errno. For Rejected and Unreachable it may be the peer's
	// reason: see Err.
	Status int32
	// ID is what the event is about. For a ConnectRequest it is the new ID, and Listener
	// is the one that listens.
	ID       *ID
	Listener *ID
	// Multicast is set for MulticastJoin and MulticastError.
	Multicast *Multicast

	// PrivateData is as long as the message's field for it. Zeros follow what the peer
	// sent. A ConnectRequest has 56 bytes, a ConnectResponse 196, Rejected 148. For
	// datagrams a request has 180 bytes, and the answer 136.
	PrivateData []byte
	// The depths are this end's: what the peer calls its initiator depth is
	// ResponderResources here.
	ResponderResources uint8
	InitiatorDepth     uint8
	FlowControl        bool
	RetryCount         uint8
	RNRRetryCount      uint8
	SRQ                bool
	QPN                verbsapi.QPN // the peer's; of a multicast group 0xffffff
	// AH and QKey are those of a datagram service or of a multicast group.
	AH   verbsapi.AHAttr
	QKey uint32
}

func newEvent(ev *rdmacm.Event) *Event {
	out := &Event{Type: ev.Kind, Status: ev.Status}
	if c := ev.Conn; c != nil {
		out.PrivateData, out.QPN = c.PrivateData, c.QPN
		out.ResponderResources, out.InitiatorDepth = c.ResponderResources, c.InitiatorDepth
		out.FlowControl, out.SRQ = c.FlowControl, c.SRQ
		out.RetryCount, out.RNRRetryCount = c.RetryCount, c.RNRRetryCount
	}
	if ud := ev.UD; ud != nil {
		out.PrivateData, out.QPN, out.AH, out.QKey = ud.PrivateData, ud.QPN, ud.AH, ud.QKey
	}
	return out
}

// EventChannel queues the events of its IDs (struct rdma_event_channel).
type EventChannel struct {
	events waitqueue.Queue[*Event]

	mu     sync.Mutex
	ids    map[*ID]struct{}
	closed bool
}

// NewEventChannel makes a channel (rdma_create_event_channel).
func NewEventChannel() *EventChannel {
	ch := &EventChannel{ids: make(map[*ID]struct{})}
	ch.events.Init()
	return ch
}

// Destroy destroys the channel and its IDs (rdma_destroy_event_channel). Goroutines that
// wait for an event get ErrClosed.
func (ch *EventChannel) Destroy() {
	ch.mu.Lock()
	ch.closed = true
	ids := ch.ids
	ch.ids = nil
	ch.mu.Unlock()
	for id := range ids {
		id.Destroy()
	}
	ch.events.Close()
}

// GetEvent waits for the next event (rdma_get_cm_event). If the ID's queue pair was made
// with CreateQP, GetEvent changes its state as the event requires: instead of
// ConnectResponse the program gets Established, or ConnectError.
func (ch *EventChannel) GetEvent(ctx context.Context) (*Event, error) {
	ev, err := ch.events.Pop(ctx, nil)
	switch {
	case errors.Is(err, waitqueue.ErrClosed):
		return nil, &OpError{Op: "GetEvent", Err: ErrClosed}
	case err != nil:
		return nil, err
	}
	switch ev.Type {
	case ConnectRequest:
		ev.Listener.undelivered.Add(-1)
	case ConnectResponse:
		ev.ID.respond(ev)
	case Rejected:
		ev.ID.flush()
	default:
	}
	return ev, nil
}

// CreateID makes an ID of a port space whose events go to the channel (rdma_create_id).
func (ch *EventChannel) CreateID(space PortSpace) (*ID, error) {
	kind := rxe.QPRC
	if space != TCP {
		kind = rxe.QPUD
	}
	return ch.createID(space, kind)
}

// CreateIDFor makes an ID for queue pairs of one type (rdma_create_ep with RDMA_PS_IB): an
// initiator of XRC connects to a listener for targets. The service has a number of its own: a peer
// with another port space does not find it.
func (ch *EventChannel) CreateIDFor(typ verbsapi.QPType) (*ID, error) {
	switch typ {
	case verbsapi.QPRC, verbsapi.QPUD, verbsapi.QPXRCIni, verbsapi.QPXRCTgt:
		return ch.createID(wire.PortSpaceIB, typ)
	default:
		return nil, &OpError{Op: "CreateID", Arg: "qp_type", Why: "no such queue pair is connected by address", Err: ErrInvalid}
	}
}

func (ch *EventChannel) createID(space PortSpace, kind verbsapi.QPType) (*ID, error) {
	const op = "CreateID"
	manager, err := localcm.Acquire()
	if err != nil {
		return nil, opError(op, "", err)
	}
	id := newID(ch)
	if id.cm, err = manager.NewID(&owner, space, kind, id.handle); err != nil {
		localcm.Release()
		return nil, opError(op, fmt.Sprintf("port space %#x", uint16(space)), err)
	}
	if !ch.add(id) {
		id.Destroy()
		return nil, &OpError{Op: op, Arg: "channel", Err: ErrClosed}
	}
	return id, nil
}

// add adds an ID. It reports false if the channel is destroyed.
func (ch *EventChannel) add(id *ID) bool {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	if ch.closed {
		return false
	}
	ch.ids[id] = struct{}{}
	return true
}

// remove forgets id and its events.
func (ch *EventChannel) remove(id *ID) {
	ch.mu.Lock()
	delete(ch.ids, id)
	ch.mu.Unlock()
}
