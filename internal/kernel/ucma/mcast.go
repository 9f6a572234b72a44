package ucma

import (
	"slices"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/cm/rdmacm"
	"github.com/gorxe/gorxe/internal/kernel"
	"github.com/gorxe/gorxe/internal/kernel/uapi"
)

// group is a multicast group that an id has joined (ucma.c: struct ucma_multicast). It has a
// number of its own, and its events have its uid.
type group struct {
	c   *cmID
	num uint32
	uid uint64

	// Device.mu guards these.
	mc       *rdmacm.Multicast // nil before the Manager has answered
	reported uint32            // how many of its events the program has read
}

// joinIPMcast answers JOIN_IP_MCAST.
func (k *call) joinIPMcast(req *uapi.UcmaJoinIPMcastReq) error {
	addr, err := parseIP(&req.Addr)
	if err != nil {
		return err
	}
	return k.join(req.ID, req.UID, req.Response, addr, false)
}

// joinMcast answers JOIN_MCAST.
func (k *call) joinMcast(req *uapi.UcmaJoinMcastReq) error {
	addr, err := parseSized(&req.Addr, req.AddrSize)
	if err != nil {
		return err
	}
	if req.JoinFlags > uapi.McastSendOnly {
		return kernel.Refuse(unix.EINVAL, "join_flags", "has unknown bits", "use RDMA_MC_JOIN_FLAG_FULLMEMBER or _SENDONLY_FULLMEMBER")
	}
	return k.join(req.ID, req.UID, req.Response, addr, req.JoinFlags == uapi.McastSendOnly)
}

// join is ucma.c's ucma_process_join.
func (k *call) join(id uint32, uid, response uint64, addr rdmacm.Addr, sendOnly bool) error {
	c, err := k.findBound(id)
	if err != nil {
		return err
	}
	d := k.dev
	d.budget.MakeRoom(roomOfID)
	d.mu.Lock()
	if d.budget.TakeNow(idCost) != nil {
		d.mu.Unlock()
		return errSpent
	}
	g := &group{c: c, num: d.groups.reserve(), uid: uid}
	d.mu.Unlock()
	mc, err := c.id.Join(addr, sendOnly)
	d.mu.Lock()
	c.groups = append(c.groups, g)
	if g.mc = mc; err == nil {
		d.groups.set(g.num, g)
		c.queueEarly(g)
	}
	f := c.file
	d.mu.Unlock()
	f.Sync()
	if err == nil {
		err = respond(k, response, &uapi.UcmaID{ID: g.num})
	}
	if err != nil {
		d.leave(g)
	}
	return err
}

// queueEarly queues the events of a group that came before the call of Join returned. dev.mu
// is held.
func (c *cmID) queueEarly(g *group) {
	c.early = slices.DeleteFunc(c.early, func(e earlyEvent) bool {
		if e.mc != g.mc {
			return false
		}
		c.queueOf(g, e.event)
		return true
	})
}

// earlyEvent is an event of a multicast group that is not known yet.
type earlyEvent struct {
	*event
	mc *rdmacm.Multicast
}

// queueOf queues an event of a group. dev.mu is held.
func (c *cmID) queueOf(g *group, e *event) {
	e.group, e.resp.UID, e.resp.ID = g, g.uid, g.num
	if c.uid != 0 {
		c.queue(e)
	}
}

// groupOf returns the group that an event is about. dev.mu is held.
func (c *cmID) groupOf(mc *rdmacm.Multicast) *group {
	for _, g := range c.groups {
		if g.mc == mc {
			return g
		}
	}
	return nil
}

// leaveMcast answers LEAVE_MCAST.
func (k *call) leaveMcast(req *uapi.UcmaIDReq) error {
	d := k.dev
	d.mu.Lock()
	g := d.groups.find(req.ID)
	var err error
	switch {
	case g == nil:
		err = unix.ENOENT
	case g.c.file != k.f:
		err = errOtherChannel
	case g.c.removed:
		err = unix.ENXIO
	default:
		d.groups.hide(g.num)
	}
	d.mu.Unlock()
	if err != nil {
		return err
	}
	return respond(k, req.Response, &uapi.UcmaReported{EventsReported: d.leave(g)})
}

// leave ends a group that no command finds any more, with its unread events. It returns how
// many of them the program has read.
func (d *Device) leave(g *group) uint32 {
	if g.mc != nil {
		g.mc.Leave()
	}
	f := d.holdFile(g.c)
	d.mu.Lock()
	f.forget(func(e *event) bool { return e.group == g })
	if slices.Contains(g.c.groups, g) { // its id was not destroyed meanwhile
		g.c.groups = slices.DeleteFunc(g.c.groups, func(x *group) bool { return x == g })
		d.dropGroup(g)
	}
	reported := g.reported
	d.mu.Unlock()
	f.reading.Unlock()
	f.Sync()
	return reported
}

// dropGroup frees the number of a group that has ended. d.mu is held.
func (d *Device) dropGroup(g *group) {
	d.groups.remove(g.num)
	d.budget.Give(idCost)
}
