package rdmacm

import (
	"fmt"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gorxe/gorxe/internal/cm/localcm"
	"github.com/gorxe/gorxe/internal/cm/rdmacm"
	"github.com/gorxe/gorxe/rxe"
	"github.com/gorxe/gorxe/verbsapi"
	"github.com/gorxe/gorxe/wire"
)

// PortSpace is enum rdma_port_space.
type PortSpace = wire.PortSpace

// TCP is for connections (RC), UDP and IPoIB for datagrams (UD).
const (
	TCP   = wire.PortSpaceTCP
	UDP   = wire.PortSpaceUDP
	IPoIB = wire.PortSpaceIPoIB
)

// owner is this process. The ports below 1024 are for root.
var owner = rdmacm.Owner{
	Privileged: func() bool { return os.Geteuid() == 0 },
	UID:        uint32(os.Getuid()),
	PID:        os.Getpid(),
	Command:    os.Args[0],
}

// ID is one end of a connection, a listener, or a datagram service (struct rdma_cm_id).
type ID struct {
	cm *rdmacm.ID
	// held while an event goes to the channel; only the channel's lock is taken under it
	deliver sync.Mutex
	channel *EventChannel
	// backlog and undelivered are of a listener: how many requests may wait in the
	// channel, and how many do.
	backlog, undelivered atomic.Int32
	ended                chan struct{} // closed when the connection or the device is gone
	end, gone            sync.Once
	// code of the queue pair's RNR timer; 0: the connection manager's, 655 ms
	minRNR uint8

	mu sync.Mutex
	qp *verbsapi.QP // made with CreateQP
}

func newID(ch *EventChannel) *ID {
	return &ID{channel: ch, ended: make(chan struct{})}
}

// handle queues an event. It is called with the Manager locked.
func (id *ID) handle(ev *rdmacm.Event) bool {
	out := newEvent(ev)
	out.ID = id
	switch ev.Kind {
	case ConnectRequest:
		return id.request(out, ev.Child)
	case MulticastJoin, MulticastError:
		out.Multicast = &Multicast{id: id, cm: ev.Multicast}
	case Disconnected, DeviceRemoval:
		id.end.Do(func() { close(id.ended) })
	default:
	}
	id.deliver.Lock()
	defer id.deliver.Unlock()
	id.channel.events.Push(out)
	return true
}

// request queues a request to a listener, unless its backlog is full. The new ID uses the
// process's Manager, which cannot end meanwhile, because the listener uses it too.
func (id *ID) request(ev *Event, child *rdmacm.ID) bool {
	if id.undelivered.Load() >= id.backlog.Load() {
		return false
	}
	id.deliver.Lock()
	defer id.deliver.Unlock()
	ch := id.channel
	fresh := newID(ch)
	fresh.cm = child
	if _, err := localcm.Acquire(); err != nil {
		return false
	}
	if !ch.add(fresh) {
		localcm.Release()
		return false
	}
	child.SetHandler(fresh.handle)
	id.undelivered.Add(1)
	ev.ID, ev.Listener = fresh, id
	ch.events.Push(ev)
	return true
}

// Destroy destroys the ID (rdma_destroy_id). The peer of a connection is told. Events
// that the program has not fetched are dropped, and the IDs of requests among them are
// destroyed. The queue pair stays.
func (id *ID) Destroy() {
	id.gone.Do(func() {
		id.cm.Destroy()
		id.end.Do(func() { close(id.ended) })
		id.deliver.Lock()
		ch := id.channel
		id.deliver.Unlock()
		ch.remove(id)
		var orphans []*ID
		ch.events.Drop(func(ev *Event) bool {
			if ev.Listener == id {
				orphans = append(orphans, ev.ID)
			}
			return ev.ID == id || ev.Listener == id
		})
		for _, o := range orphans {
			o.Destroy()
		}
		localcm.Release()
	})
}

// Migrate makes the ID's events go to another channel, including those that the program
// has not fetched yet (rdma_migrate_id). The new ID of a request goes with the request.
func (id *ID) Migrate(to *EventChannel) error {
	if !to.add(id) {
		return &OpError{Op: "Migrate", Arg: "channel", Err: ErrClosed}
	}
	id.deliver.Lock()
	defer id.deliver.Unlock()
	from := id.channel
	if from == to {
		return nil
	}
	id.channel = to
	from.remove(id)
	var moved []*Event
	from.events.Drop(func(ev *Event) bool {
		mine := ev.ID == id && ev.Listener == nil || ev.Listener == id
		if mine {
			moved = append(moved, ev)
		}
		return mine
	})
	for _, ev := range moved {
		to.events.Push(ev)
		if ev.Listener == id {
			// The new ID goes with its request. If to was destroyed meanwhile, so is it.
			ev.ID.Migrate(to) //nolint:errcheck // see above
		}
	}
	return nil
}

// Bind gives the ID a source address (rdma_bind_addr). Port 0 means a free port. A
// wildcard or loopback address means all devices.
func (id *ID) Bind(addr netip.AddrPort) error {
	return opError("Bind", addr.String(), id.cm.Bind(internalAddr(addr)))
}

// ResolveAddr finds the device and the route to dst (rdma_resolve_addr). The zero src
// means any address. AddrResolved or AddrError follows, at the latest after the timeout.
func (id *ID) ResolveAddr(src, dst netip.AddrPort, timeout time.Duration) error {
	return opError("ResolveAddr", dst.String(), id.cm.ResolveAddr(internalAddr(src), internalAddr(dst), timeout))
}

// ResolveRoute finds the path (rdma_resolve_route). RouteResolved or RouteError follows.
func (id *ID) ResolveRoute(timeout time.Duration) error {
	return opError("ResolveRoute", "", id.cm.ResolveRoute(timeout))
}

// Listen lets peers connect (rdma_listen). A ConnectRequest follows for each peer that
// asks. backlog bounds how many of them may wait to be fetched; further peers ask again
// after 4.6 s. The default, and the maximum, is 1024.
func (id *ID) Listen(backlog int) error {
	id.backlog.Store(int32(rdmacm.Backlog(backlog)))
	return opError("Listen", id.LocalAddr().String(), id.cm.Listen())
}

// ConnParam is struct rdma_conn_param.
type ConnParam struct {
	// PrivateData is for the peer's program: at most 56 bytes for Connect, 196 for
	// Accept; for datagrams 180 and 136.
	PrivateData []byte
	// ResponderResources and InitiatorDepth are how many READs and atomics of the peer,
	// and of this end, may be under way.
	ResponderResources uint8
	InitiatorDepth     uint8
	FlowControl        bool
	RetryCount         uint8 // 0 to 7
	RNRRetryCount      uint8 // 0 to 7; 7: without limit
	SRQ                bool
	// QPN and QKey are used if the ID's queue pair was not made with CreateQP.
	QPN  verbsapi.QPN
	QKey uint32 // 0: that of the port space
}

func (id *ID) params(p *ConnParam) *rdmacm.ConnParams {
	out := &rdmacm.ConnParams{
		PrivateData: p.PrivateData, ResponderResources: p.ResponderResources, InitiatorDepth: p.InitiatorDepth,
		FlowControl: p.FlowControl, RetryCount: p.RetryCount, RNRRetryCount: p.RNRRetryCount, SRQ: p.SRQ,
		QPN: p.QPN, QKey: p.QKey,
	}
	if qp := id.QP(); qp != nil {
		out.QPN = qp.Num()
	}
	return out
}

// Connect asks the peer for a connection, or which queue pair serves datagrams
// (rdma_connect). Established, ConnectResponse, Rejected or Unreachable follows.
func (id *ID) Connect(p ConnParam) error {
	return opError("Connect", id.RemoteAddr().String(), id.cm.Connect(id.params(&p)))
}

// Accept accepts the request that the ID came with (rdma_accept). Established follows,
// but not for datagrams.
func (id *ID) Accept(p ConnParam) error {
	const op = "Accept"
	if qp := id.QP(); qp != nil && id.cm.QPType() != rxe.QPUD {
		if err := id.ready(qp); err != nil {
			id.cm.Reject(wire.RejectConsumer, nil) //nolint:errcheck // err says what is wrong
			return opError(op, "queue pair", err)
		}
	}
	return opError(op, id.RemoteAddr().String(), id.cm.Accept(id.params(&p)))
}

// Establish completes a connection after ConnectResponse, for a queue pair that was not
// made with CreateQP (rdma_establish).
func (id *ID) Establish() error {
	return opError("Establish", id.RemoteAddr().String(), id.cm.EstablishActive())
}

// Reject refuses the request that the ID came with (rdma_reject); at most 148 bytes for
// the peer's program, 136 for datagrams.
func (id *ID) Reject(privateData []byte) error {
	return opError("Reject", id.RemoteAddr().String(), id.cm.Reject(wire.RejectConsumer, privateData))
}

// Disconnect ends the connection, or confirms its end after Disconnected
// (rdma_disconnect). It flushes the work requests of a queue pair that CreateQP made.
func (id *ID) Disconnect() error {
	id.flush()
	return opError("Disconnect", id.RemoteAddr().String(), id.cm.Disconnect())
}

// Notify tells the connection manager of an event of the queue pair (rdma_notify). After
// EventCommEst the connection is established, even if the peer's last message was lost.
func (id *ID) Notify(event verbsapi.EventType) error {
	return opError("Notify", fmt.Sprint(event), id.cm.Notify(event))
}

// QPAttr returns the attributes that take a queue pair to a state (rdma_init_qp_attr).
func (id *ID) QPAttr(target verbsapi.QPState) (verbsapi.QPAttr, verbsapi.QPAttrMask, error) {
	a, mask, err := id.cm.QPAttr(target)
	return a, mask, opError("QPAttr", target.String(), err)
}

// LocalAddr returns the source address (rdma_get_local_addr, rdma_get_src_port).
func (id *ID) LocalAddr() Addr { return Addr{id.cm.LocalAddr().AddrPort} }

// RemoteAddr returns the peer's address (rdma_get_peer_addr, rdma_get_dst_port).
func (id *ID) RemoteAddr() Addr { return Addr{id.cm.RemoteAddr().AddrPort} }

// DeviceGUID returns the node GUID of the ID's device; false while it has none.
func (id *ID) DeviceGUID() (uint64, bool) {
	d := id.cm.Device()
	if d == nil {
		return 0, false
	}
	return d.GUID, true
}
