package rdmacm

import (
	"slices"

	"github.com/gorxe/gorxe/internal/cm"
	"github.com/gorxe/gorxe/rxe"
)

// maxBacklog is the most requests that may wait at a listener: the default of
// net.rdma_ucm.max_backlog.
const maxBacklog = 1024

// Backlog returns how many requests may wait at a listener whose program asks for n
// (ucma_listen).
func Backlog(n int) int {
	if n <= 0 || n > maxBacklog {
		return maxBacklog
	}
	return n
}

// Listen lets peers connect (rdma_listen). A ConnectRequest follows for each peer that
// asks. Listen binds an unbound ID to 0.0.0.0 and a free port. An ID without a device
// listens on all devices, and on those that are added later. The handler bounds the
// backlog.
func (id *ID) Listen() error {
	m := id.m
	m.mu.Lock()
	defer m.unlock()
	if id.state != StateAddrBound {
		if err := id.bind(unspecified(famIPv4), Addr{}, false); err != nil {
			return err
		}
	}
	if id.reuse { // a listener does not share its port
		if err := m.ports.conflict(id.port, id, false); err != nil {
			return err
		}
		id.reuse = false
	}
	devices := m.devices
	if id.dev != nil {
		devices = []*Device{id.dev}
	}
	id.state = StateListen
	for _, d := range devices {
		if !id.owner.has(d) {
			continue
		}
		if err := d.listen(id); err != nil {
			id.unlisten()
			id.state = StateAddrBound
			return err
		}
	}
	return nil
}

// listen makes the device's connection manager accept requests for the ID's service,
// which IDs with different addresses may share. Manager.mu is held.
func (d *Device) listen(id *ID) error {
	sid := id.service(&id.src)
	s := d.services[sid]
	if s == nil {
		l, err := d.machine.Listen(sid, d.request)
		if err != nil {
			return errno(err)
		}
		s = &service{listener: l}
		d.services[sid] = s
	}
	s.ids++
	id.listening = append(id.listening, d)
	return nil
}

// unlisten undoes listen on all devices. Manager.mu is held.
func (id *ID) unlisten() {
	for _, d := range id.listening {
		d.unlisten(id.service(&id.src))
	}
	id.listening = nil
}

func (d *Device) unlisten(sid uint64) {
	s := d.services[sid]
	if s.ids--; s.ids == 0 {
		s.listener.Close()
		delete(d.services, sid)
	}
}

// forgetDevice takes a device that is removed away from a wildcard listener.
func (id *ID) forgetDevice(d *Device) {
	if i := slices.Index(id.listening, d); i >= 0 {
		id.listening = slices.Delete(id.listening, i, i+1)
		d.unlisten(id.service(&id.src))
	}
}

// request answers a request from the network (cma_ib_req_handler). Manager.mu is held, by
// a goroutine that may call handlers.
func (d *Device) request(_ rxe.Time, c *cm.Conn, req *cm.Request) cm.Verdict {
	m := d.manager
	r, verdict := d.readRequest(req)
	if r == nil {
		return verdict
	}
	l := m.listener(d, r)
	if l == nil || l.qpType != req.QPType {
		return consumerReject
	}
	taken, ok := c.Admit(l.owner.user(), l)
	if !ok {
		return taken
	}
	child, err := m.newID(l.owner, l.space, req.QPType, nil)
	if err != nil {
		return cm.Ignore // the peer asks again
	}
	child.accepting(d, c, r)
	ev := r.event(l)
	ev.Child = child
	c.SetHandler(child.connEvent)
	if !l.event(ev) {
		child.conn = nil
		child.destroy(0)
		return cm.Ignore
	}
	return taken
}

// consumerReject is the refusal of a request for which there is a listener, but not for
// its addresses.
var consumerReject = cm.Refuse{Reason: 28}

// listener returns the ID that a request is for, or nil (cma_find_listener).
func (m *Manager) listener(d *Device, r *request) *ID {
	for _, id := range slices.Backward(m.ports.owners[r.key]) {
		if id.state == StateListen && slices.Contains(id.listening, d) && id.hears(r) {
			return id
		}
	}
	return nil
}

// hears reports whether the addresses of a request fit those of a listener
// (cma_match_private_data). A listener on a loopback address hears requests through all
// devices, as in Linux, but only from this host: programs expect that of 127.0.0.1.
func (id *ID) hears(r *request) bool {
	switch {
	case r.local.family() == famIB:
		return id.src.family() == famIB
	case id.src.isLoopback() && !r.fromHere:
		return false
	case id.src.family() == famIB:
		return true
	case id.dev == nil:
		return !id.afOnly || id.src.family() == r.local.family()
	}
	return id.src.same(&r.local)
}
