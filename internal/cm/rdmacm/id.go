package rdmacm

import (
	"fmt"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/cm"
	"github.com/gorxe/gorxe/internal/quota"
	"github.com/gorxe/gorxe/rxe"
	"github.com/gorxe/gorxe/wire"
)

// State is enum rdma_cm_state.
type State uint8

const (
	StateIdle State = iota
	StateAddrQuery
	StateAddrResolved
	StateRouteQuery
	StateRouteResolved
	StateConnect // from Connect, or the peer's request, until the connection ends
	StateDisconnect
	StateAddrBound
	StateListen
	StateDeviceRemoval
	StateDestroying
)

// The texts are those of the rdma tool.
var stateNames = [...]string{
	"IDLE", "ADDR_QUERY", "ADDR_RESOLVED", "ROUTE_QUERY", "ROUTE_RESOLVED", "CONNECT", "DISCONNECT", "ADDR_BOUND",
	"LISTEN", "DEVICE_REMOVAL", "DESTROYING",
}

func (s State) String() string {
	if int(s) < len(stateNames) {
		return stateNames[s]
	}
	return fmt.Sprintf("State(%d)", uint8(s))
}

// Owner is the program that an ID belongs to.
type Owner struct {
	// Privileged reports whether the program has CAP_NET_BIND_SERVICE. Nil: it has not.
	Privileged func() bool
	UID        uint32
	PID        int
	Command    string
	Budget     *quota.Budget // pays for the IDs; nil: there is no limit
	// Lacks reports whether the program has lost a device that others have. Nil: it has not. It is
	// called with the Manager's mutex held.
	Lacks func(*Device) bool
}

func (o *Owner) has(d *Device) bool { return o.Lacks == nil || !o.Lacks(d) }

func (o *Owner) privileged() bool { return o.Privileged != nil && o.Privileged() }

// user returns what the programs of one user have in common: the budget.
func (o *Owner) user() any { return o.Budget }

func (o *Owner) take(c quota.Cost) error {
	if o.Budget == nil {
		return nil
	}
	if o.Budget.TakeNow(c) != nil { // under the Manager's mutex
		return errSpent
	}
	return nil
}

func (o *Owner) give(c quota.Cost) {
	if o.Budget != nil {
		o.Budget.Give(c)
	}
}

// idCost is an estimate of what an ID takes with its connection.
var idCost = quota.Cost{Memory: 2 << 10}

// maxIDs bounds the IDs of one user: some calls look at all IDs with the Manager's mutex held.
// librdmacm has room for as many in one process.
const maxIDs = 1 << 16

// Handler receives the events of an ID. The Manager calls it in order, with its mutex
// held and never within a call of the ID's methods. A handler only queues the event. It
// may call SetHandler, and nothing else of this package. Its result matters for a
// ConnectRequest only: false drops the request without an answer, and Event.Child is then
// not valid.
type Handler func(*Event) bool

// ID is a communication identifier (struct rdma_cm_id).
type ID struct {
	m       *Manager
	owner   *Owner
	handler atomic.Pointer[Handler]
	space   wire.PortSpace
	qpType  rxe.QPType

	// Manager.mu guards these.
	state State
	dead  bool // destroyed
	binding
	port  portKey
	reuse bool
	afSet bool   // the program has set afOnly
	query *query // of ResolveAddr, under way
	// unfollow ends the notices about the destination's link-layer address; nil: there are none.
	unfollow func()
	hop      uint8 // hop limit of the route

	paths      []PathRecord
	tos        uint8
	ackTimeout option

	listening []*Device
	conn      *cm.Conn
	qpn       wire.QPN
	qkey      uint32
	groups    map[*Multicast]struct{}
}

// option is a number that may be unset.
type option struct {
	value uint8
	set   bool
}

// NewID makes an ID (rdma_create_id). ENOMEM if the owner's budget is spent, EINVAL for a
// port space or type of queue pair that does not exist.
func (m *Manager) NewID(o *Owner, space wire.PortSpace, qpType rxe.QPType, handler Handler) (*ID, error) {
	switch space {
	case wire.PortSpaceTCP, wire.PortSpaceUDP, wire.PortSpaceIPoIB, wire.PortSpaceIB:
	default:
		return nil, refuse(unix.EINVAL, "ps", "is no port space", "use RDMA_PS_TCP, RDMA_PS_UDP or RDMA_PS_IB")
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil, unix.ENODEV
	}
	return m.newID(o, space, qpType, handler)
}

// newID is NewID; mu is held.
func (m *Manager) newID(o *Owner, space wire.PortSpace, qpType rxe.QPType, handler Handler) (*ID, error) {
	if m.idsOf[o.user()] >= maxIDs {
		return nil, refuse(unix.ENOMEM, "", "the user has 65536 ids", "destroy some")
	}
	if err := o.take(idCost); err != nil {
		return nil, err
	}
	m.idsOf[o.user()]++
	id := &ID{m: m, owner: o, space: space, qpType: qpType}
	id.SetHandler(handler)
	m.ids[id] = struct{}{}
	return id, nil
}

// SetHandler replaces the handler. For the child of a ConnectRequest, the handler of that
// event must call it.
func (id *ID) SetHandler(h Handler) { id.handler.Store(&h) }

// event calls the handler. Manager.mu is held.
func (id *ID) event(ev *Event) bool {
	ev.ID = id
	h := *id.handler.Load()
	return h == nil || h(ev)
}

// post leaves an event to be handled after the tasks before it. Manager.mu is held.
func (id *ID) post(ev *Event) {
	id.m.later(id, func() { id.event(ev) })
}

// Destroy ends the ID, and tells the peer of a connection. After Destroy has returned,
// the handler is not called any more.
func (id *ID) Destroy() {
	id.m.mu.Lock()
	defer id.m.unlock()
	id.destroy(id.m.now())
}

// destroy is Destroy; Manager.mu is held.
func (id *ID) destroy(now rxe.Time) {
	if id.dead {
		return
	}
	id.dead, id.state = true, StateDestroying
	id.release(now)
	id.m.ports.give(id)
	delete(id.m.ids, id)
	if id.m.idsOf[id.owner.user()]--; id.m.idsOf[id.owner.user()] == 0 {
		delete(id.m.idsOf, id.owner.user())
	}
	id.owner.give(idCost)
}

// release gives back what an ID has of its device and of the network. Manager.mu is held.
func (id *ID) release(now rxe.Time) {
	id.cancelQuery()
	id.stopFollowing()
	id.unlisten()
	if id.conn != nil {
		id.conn.Destroy(now)
		id.conn = nil
	}
	for mc := range id.groups {
		mc.leave()
	}
}

// deviceRemoved tells the program that the ID's device was removed. Manager.mu is held.
func (id *ID) deviceRemoved(now rxe.Time) {
	id.state = StateDeviceRemoval
	id.release(now)
	id.dev = nil
	id.post(&Event{Kind: DeviceRemoval})
}

// The getters return what an ID is bound to.

// Device returns the ID's device, or nil while it has none.
func (id *ID) Device() *Device {
	id.m.mu.Lock()
	defer id.m.mu.Unlock()
	return id.dev
}

// State returns the ID's state.
func (id *ID) State() State {
	id.m.mu.Lock()
	defer id.m.mu.Unlock()
	return id.state
}

// LocalAddr returns the source address; the zero Addr if there is none yet.
func (id *ID) LocalAddr() Addr {
	id.m.mu.Lock()
	defer id.m.mu.Unlock()
	return id.src
}

// RemoteAddr returns the destination address; the zero Addr if there is none yet.
func (id *ID) RemoteAddr() Addr {
	id.m.mu.Lock()
	defer id.m.mu.Unlock()
	return id.dst
}

// GIDs returns the GIDs of both addresses.
func (id *ID) GIDs() (src, dst wire.GID) {
	id.m.mu.Lock()
	defer id.m.mu.Unlock()
	return id.src.gid(), id.dst.gid()
}

// Paths returns the path records, of which there are none before RouteResolved.
func (id *ID) Paths() []PathRecord {
	id.m.mu.Lock()
	defer id.m.mu.Unlock()
	return append([]PathRecord(nil), id.paths...)
}

// PortSpace returns the port space.
func (id *ID) PortSpace() wire.PortSpace { return id.space }

// QPN returns the number of the queue pair that the ID connects; 0 if it is not known yet.
func (id *ID) QPN() wire.QPN {
	id.m.mu.Lock()
	defer id.m.mu.Unlock()
	return id.qpn
}

// QPType returns the type of the queue pair.
func (id *ID) QPType() rxe.QPType { return id.qpType }
