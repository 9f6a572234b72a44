package ucma

import (
	"fmt"
	"slices"

	"github.com/gorxe/gorxe/internal/cm/rdmacm"
	"github.com/gorxe/gorxe/internal/kernel"
	"github.com/gorxe/gorxe/internal/kernel/uapi"
	"github.com/gorxe/gorxe/wire"
	"golang.org/x/sys/unix"
)

// event is an event that waits to be read (ucma.c: struct ucma_event).
type event struct {
	of    *cmID    // the id that counts it; for a connection request, the listener
	group *group   // of an event of a multicast group
	child *cmID    // of a connection request: the new id
	from  wire.QPN // the peer's queue pair, if it says so
	resp  uapi.UcmaEventResp
	cost  bool // the budget pays for it
	few   bool // it is one of few
}

// few is how many unread events of an id idCost pays for. Further ones cost the user as much as
// they take, or a program that reads no event would have them for nothing: rdma_resolve_addr can
// fail without end.
const few = 8

// event handles an event of the rdmacm.Manager: it queues the event (ucma.c:
// ucma_event_handler). The Manager's lock is held.
func (c *cmID) event(ev *rdmacm.Event) bool {
	if ev.Kind == rdmacm.ConnectRequest {
		return c.dev.request(c, ev)
	}
	e := c.eventOf(ev)
	c.dev.mu.Lock()
	if verb, refused := failure(ev); refused != nil {
		c.file.report(verb, refused) //nolint:errcheck // the program reads the event
	}
	switch g := c.groupOf(ev.Multicast); {
	case ev.Multicast == nil:
		c.queueOwn(e)
	case g == nil:
		c.early = append(c.early, earlyEvent{e, ev.Multicast})
	default:
		c.queueOf(g, e)
	}
	if ev.Kind == rdmacm.DeviceRemoval && !c.removed {
		c.removed = true
		c.dev.closing.Go(c.id.Destroy) // it takes the Manager's lock
	}
	f := c.file
	c.dev.mu.Unlock()
	f.SyncAside()
	return true
}

// failure returns the call that an event says has failed, and why; nil: the event says something
// else.
func failure(ev *rdmacm.Event) (verb string, err error) {
	errno, reason := unix.Errno(max(-ev.Status, 0)), wire.CMReason(ev.Status)
	switch verb = failing[ev.Kind]; {
	case verb == "" || ev.Status == 0:
		return "", nil
	case ev.Kind == rdmacm.Rejected && reason == wire.RejectInvalidServiceID:
		return verb, kernel.Refuse(unix.ECONNREFUSED, "", fmt.Sprintf("nothing listens by RDMA CM at %s (reject reason %d)", rejecter(ev, "the port"), reason), "start the server first, and compare address, port and port space (perftest: -R at both ends)")
	case ev.Kind == rdmacm.Rejected && ev.Peer.Addr().Is6() && reason == wire.RejectConsumer:
		// So does a host, as Linux does, for a listener of the other address family.
		return verb, kernel.Refuse(unix.ECONNREFUSED, "", fmt.Sprintf("%s rejected it: %v (reject reason %d)", rejecter(ev, "the peer"), reason, reason), "if it listens for IPv4 only, give its IPv4 address: localhost may be ::1")
	case ev.Kind == rdmacm.Rejected:
		return verb, kernel.Refuse(unix.ECONNREFUSED, "", fmt.Sprintf("%s rejected it: %v (reject reason %d)", rejecter(ev, "the peer"), reason, reason), "see the peer's output")
	case ev.Status > 0: // of a service ID resolution (IBA 13.8.3)
		return verb, kernel.Refuse(unix.ECONNREFUSED, "", fmt.Sprintf("the peer refused it (SIDR status %d)", ev.Status), "see the peer's output")
	case ev.Kind == rdmacm.AddrError && ev.UD != nil:
		return "rdma_connect", kernel.Refuse(errno, "", "the peer's answer has no Q_Key", "see the peer's output")
	case ev.Kind == rdmacm.AddrError && errno == unix.ENODEV:
		return verb, kernel.Refuse(errno, "", "no device has a route to the address", "choose an address that gorxe status lists, or a device on its interface")
	case ev.Kind == rdmacm.AddrError && errno == unix.ETIMEDOUT:
		return verb, kernel.Refuse(errno, "", "no host answers for the address on its link", "see whether the host is up, and ip neigh")
	}
	return verb, errno
}

// rejecter is the address that rejected a connection, or other words if it has none.
func rejecter(ev *rdmacm.Event, words string) string {
	if ev.Peer.IsValid() {
		return ev.Peer.String()
	}
	return words
}

// failing are the calls that events say have failed.
var failing = map[rdmacm.EventKind]string{
	rdmacm.AddrError: "rdma_resolve_addr", rdmacm.RouteError: "rdma_resolve_route",
	rdmacm.ConnectError: "rdma_connect", rdmacm.Unreachable: "rdma_connect", rdmacm.Rejected: "rdma_connect",
	rdmacm.MulticastError: "rdma_join_multicast",
}

// queueOwn queues an event. It drops the event if the program does not know the id yet,
// because it has not accepted the connection. dev.mu is held.
func (c *cmID) queueOwn(e *event) {
	if c.uid == 0 {
		return
	}
	e.resp.UID, e.resp.ID = c.uid, c.num
	c.queue(e)
}

// queue queues an event of an id, or drops it if the user's budget is spent. dev.mu is held.
func (c *cmID) queue(e *event) {
	if c.unread < few {
		c.unread++
		e.few = true
	} else if c.dev.budget.TakeNow(eventCost) != nil {
		return
	} else {
		e.cost = true
	}
	c.file.queue(e)
}

// request queues a connection request, whose id gets its uid when the program accepts it
// (ucma.c: ucma_connect_event_handler). It returns false if the backlog is full.
func (d *Device) request(listener *cmID, ev *rdmacm.Event) bool {
	e := listener.eventOf(ev)
	d.mu.Lock()
	f := listener.file
	var c *cmID
	if listener.backlog > 0 {
		c = d.add(f)
	}
	if c == nil {
		d.mu.Unlock()
		return false
	}
	listener.backlog--
	c.id, c.ud = ev.Child, listener.ud
	c.id.SetHandler(c.event)
	d.ids.set(c.num, c)
	e.child = c
	e.resp.UID, e.resp.ID = listener.uid, c.num
	f.queue(e)
	d.mu.Unlock()
	f.SyncAside()
	return true
}

// eventOf returns an event as the program reads it (ucma.c: ucma_create_uevent).
func (c *cmID) eventOf(ev *rdmacm.Event) *event {
	e := &event{of: c}
	e.resp.Event, e.resp.Status = uint32(ev.Kind), ev.Status
	if ev.Conn != nil {
		e.from = ev.Conn.QPN
	}
	switch {
	case c.ud && ev.UD != nil:
		p := udParam(ev.UD)
		copy(e.resp.Param[:], uapi.BytesOf(&p))
	case !c.ud && ev.Conn != nil:
		p := connParam(ev.Conn)
		copy(e.resp.Param[:], uapi.BytesOf(&p))
	}
	return e
}

// connParam is ucma.c's ucma_copy_conn_event.
func connParam(ev *rdmacm.ConnEvent) uapi.UcmaConnParam {
	p := uapi.UcmaConnParam{
		QPNum: uint32(ev.QPN), SRQ: uapi.BoolByte(ev.SRQ),
		ResponderResources: ev.ResponderResources, InitiatorDepth: ev.InitiatorDepth,
		FlowControl: uapi.BoolByte(ev.FlowControl), RetryCount: ev.RetryCount, RNRRetryCount: ev.RNRRetryCount,
	}
	p.PrivateDataLen = uint8(copy(p.PrivateData[:], ev.PrivateData))
	return p
}

// udParam is ucma.c's ucma_copy_ud_event.
func udParam(ev *rdmacm.UDEvent) uapi.UcmaUDParam {
	p := uapi.UcmaUDParam{QPNum: uint32(ev.QPN), QKey: ev.QKey, AHAttr: ahAttr(&ev.AH)}
	p.PrivateDataLen = uint8(copy(p.PrivateData[:], ev.PrivateData))
	return p
}

// queue appends an event. Sync has to follow; dev.mu is held.
func (f *File) queue(e *event) {
	f.events = append(f.events, e)
	f.Add(1)
	f.ready()
}

// take removes events from the queue. Sync has to follow; dev.mu is held.
func (f *File) take(which func(*event) bool) (taken []*event) {
	f.events = slices.DeleteFunc(f.events, func(e *event) bool {
		if which(e) {
			taken = append(taken, e)
			return true
		}
		return false
	})
	f.Add(-len(taken))
	return taken
}

// forget drops events. It returns the ids of connection requests among them, which no
// command finds any more; the caller destroys them. Sync has to follow; dev.mu is held.
func (f *File) forget(which func(*event) bool) (children []*cmID) {
	for _, e := range f.take(which) {
		f.dev.end(e)
		// A program may have guessed the number, and have destroyed the id.
		if c := e.child; c != nil && f.dev.ids.find(c.num) == c {
			f.dev.ids.hide(c.num)
			children = append(children, c)
		}
	}
	return children
}

// end gives back what an event cost.
func (d *Device) end(e *event) {
	if e.cost {
		d.budget.Give(eventCost)
	}
	if e.few {
		e.of.unread--
	}
}

// getEvent answers GET_EVENT. An event that could not be handed over stays in the queue.
func (k *call) getEvent(req *uapi.UcmaGetEventReq) error {
	f, d := k.f, k.dev
	f.reading.Lock()
	defer f.reading.Unlock()
	d.mu.Lock()
	if len(f.events) == 0 {
		d.mu.Unlock()
		return kernel.ErrWait
	}
	e := f.events[0]
	f.Add(-1)
	d.mu.Unlock()
	f.Sync() // before the answer: after it, poll says what is left
	if e.child != nil {
		k.watched(e.child)
	}
	k.hears(e)
	err := respond(k, req.Response, &e.resp)
	if err == nil {
		err = k.Deliver(k.size)
	}
	if err != nil {
		if e.child != nil {
			d.unwatched(e.child, false)
		}
		f.Add(1)
		f.Sync()
		f.ready()
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	f.events = slices.Delete(f.events, 0, 1)
	e.of.reported++
	if e.group != nil {
		e.group.reported++
	}
	if e.child != nil {
		e.of.backlog++
	}
	d.end(e)
	return nil
}

// Events that only programs make (rdma_cma.h).
const (
	eventUser     = 18 // RDMA_CM_EVENT_USER
	eventInternal = 19 // RDMA_CM_EVENT_INTERNAL
)

// writeCMEvent answers WRITE_CM_EVENT, with which librdmacm queues events of its own.
func (k *call) writeCMEvent(req *uapi.UcmaWriteCMEventReq) error {
	if req.Event != eventUser && req.Event != eventInternal {
		return malformed("event", "is none of librdmacm's own")
	}
	d := k.dev
	d.budget.MakeRoom(eventCost)
	d.mu.Lock()
	c, err := d.find(k.f, req.ID)
	if err == nil && d.budget.TakeNow(eventCost) != nil {
		err = errSpent
	}
	if err == nil {
		e := &event{of: c, cost: true}
		e.resp = uapi.UcmaEventResp{UID: c.uid, ID: c.num, Event: req.Event, Status: req.Status}
		copy(e.resp.Param[:8], req.Param[:]) // its argument
		k.f.queue(e)
	}
	d.mu.Unlock()
	k.f.Sync()
	return err
}
