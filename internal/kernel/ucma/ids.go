package ucma

import (
	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/cm/rdmacm"
	"github.com/gorxe/gorxe/internal/kernel"
	"github.com/gorxe/gorxe/internal/kernel/uapi"
	"github.com/gorxe/gorxe/rxe"
	"github.com/gorxe/gorxe/wire"
)

// cmID is an id, which programs name by its number (ucma.c: struct ucma_context).
type cmID struct {
	dev *Device
	num uint32
	id  *rdmacm.ID

	track uint32 // its number among the ids of all programs, for netlink
	ud    bool   // its events are those of a UD queue pair

	// Device.mu guards these.
	file     *File
	uid      uint64  // the program's name of it; 0 before the program accepts a connection
	reported uint32  // how many of its events the program has read
	unread   int     // events of idCost that it has not read
	backlog  uint32  // of a listener: how many connection requests may still queue
	removed  bool    // its RDMA device is gone
	watcher  Watcher // nil: the program does not have the id, or nobody watches
	groups   []*group
	early    []earlyEvent

	own, peer wire.QPN // of the two ends, for the watcher; 0: not known
}

// add makes an id of a file, and reserves its number. Commands do not find it before
// publish. It returns nil if the file is closed or the budget is spent. dev.mu is held.
func (d *Device) add(f *File) *cmID {
	if f.closed || d.budget.TakeNow(idCost) != nil {
		return nil
	}
	return &cmID{dev: d, num: d.ids.reserve(), track: d.track.Add(1), file: f}
}

// find returns an id of the file (ucma.c: ucma_get_ctx).
func (k *call) find(num uint32) (*cmID, error) {
	k.dev.mu.Lock()
	defer k.dev.mu.Unlock()
	return k.dev.find(k.f, num)
}

// find is call.find for any file; mu is held.
func (d *Device) find(f *File, num uint32) (*cmID, error) {
	switch c := d.ids.find(num); {
	case c == nil:
		return nil, unix.ENOENT
	case c.file != f:
		return nil, errOtherChannel
	case c.removed:
		return nil, unix.ENXIO
	default:
		return c, nil
	}
}

// findBound returns an id that has an RDMA device (ucma.c: ucma_get_ctx_dev).
func (k *call) findBound(num uint32) (*cmID, error) {
	c, err := k.find(num)
	if err == nil && c.id.Device() == nil {
		err = errNoDevice
	}
	return c, err
}

// createID answers CREATE_ID.
func (k *call) createID(req *uapi.UcmaCreateIDReq) error {
	ps := wire.PortSpace(req.PS)
	typ, err := qpType(ps, req.QPType)
	if err != nil {
		return err
	}
	d := k.dev
	d.budget.MakeRoom(roomOfID)
	d.mu.Lock()
	c := d.add(k.f)
	d.mu.Unlock()
	if c == nil {
		return unix.ENOMEM
	}
	c.uid, c.ud = req.UID, typ == rxe.QPUD
	if c.id, err = d.cm.NewID(k.f.owner, ps, typ, c.event); err != nil {
		d.mu.Lock()
		d.drop(c)
		d.mu.Unlock()
		return err
	}
	k.watched(c)
	if err = respond(k, req.Response, &uapi.UcmaID{ID: c.num}); err == nil && d.publish(c) {
		return nil
	}
	d.destroy(c)
	if err == nil {
		err = unix.ENODEV // another thread ends the session
	}
	return err
}

// qpType is ucma.c's ucma_get_qp_type.
func qpType(ps wire.PortSpace, given uint8) (rxe.QPType, error) {
	switch ps {
	case wire.PortSpaceTCP:
		return rxe.QPRC, nil
	case wire.PortSpaceUDP, wire.PortSpaceIPoIB:
		return rxe.QPUD, nil
	case wire.PortSpaceIB:
		return rxe.QPType(given), nil
	default:
		return 0, kernel.Refuse(unix.EINVAL, "ps", "is no port space", "use RDMA_PS_TCP, RDMA_PS_UDP or RDMA_PS_IB")
	}
}

// publish lets commands find a new id, unless its file was closed.
func (d *Device) publish(c *cmID) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !c.file.closed {
		d.ids.set(c.num, c)
	}
	return !c.file.closed
}

// drop frees the number of an id that has ended. d.mu is held.
func (d *Device) drop(c *cmID) {
	d.ids.remove(c.num)
	d.budget.Give(idCost)
}

// destroyID answers DESTROY_ID.
func (k *call) destroyID(req *uapi.UcmaIDReq) error {
	d := k.dev
	d.mu.Lock()
	c, err := d.find(k.f, req.ID)
	if c == nil && err == unix.ENXIO { // it can still be destroyed
		c, err = d.ids.find(req.ID), nil
	}
	if err == nil {
		d.ids.hide(c.num)
	}
	d.mu.Unlock()
	if err != nil {
		return err
	}
	forgiven := k.waits(c)
	return respond(k, req.Response, &uapi.UcmaReported{EventsReported: d.destroy(c) - forgiven})
}

// destroy ends an id that no command finds any more. It returns how many of its events the
// program has read (ucma.c: ucma_destroy_private_ctx). Connections that a listener did not
// hand to the program end with it.
func (d *Device) destroy(c *cmID) (reported uint32) {
	c.id.Destroy() // no event comes any more
	d.unwatched(c, false)
	f := d.holdFile(c)
	d.mu.Lock()
	for _, g := range c.groups {
		d.dropGroup(g)
	}
	c.groups, c.early = nil, nil
	children := f.forget(func(e *event) bool { return e.of == c })
	reported = c.reported
	d.drop(c)
	d.mu.Unlock()
	f.reading.Unlock()
	f.Sync()
	for _, child := range children {
		d.destroy(child)
	}
	return reported
}

// holdFile returns the file of an id with reading locked.
func (d *Device) holdFile(c *cmID) *File {
	for {
		d.mu.Lock()
		f := c.file
		d.mu.Unlock()
		f.reading.Lock()
		d.mu.Lock()
		same := c.file == f
		d.mu.Unlock()
		if same {
			return f
		}
		f.reading.Unlock() // it has moved
	}
}

// migrateID answers MIGRATE_ID. It is written to the new file, and names the old one by the
// caller's descriptor.
func (k *call) migrateID(req *uapi.UcmaMigrateIDReq) error {
	id, err := k.FileID(int32(req.FD))
	if err != nil {
		return unix.ENOENT
	}
	from := k.dev.file(id)
	if from == nil {
		return kernel.Refuse(unix.EINVAL, "fd", "is no event channel", "give the descriptor of the id's channel")
	}
	reported, err := k.dev.migrate(req.ID, from, k.f)
	if err != nil {
		return err
	}
	from.Sync()
	k.f.Sync()
	return k.Write(req.Response, uapi.BytesOf(&uapi.UcmaReported{EventsReported: reported}))
}

// migrate moves an id, with its unread events, to another file.
func (d *Device) migrate(num uint32, from, to *File) (reported uint32, err error) {
	from.reading.Lock()
	defer from.reading.Unlock()
	d.mu.Lock()
	defer d.mu.Unlock()
	c, err := d.find(from, num)
	if err != nil {
		return 0, err
	}
	if to.closed {
		return 0, unix.ENODEV
	}
	c.file = to
	for _, e := range from.take(func(e *event) bool { return e.of == c }) {
		to.queue(e)
	}
	return c.reported, nil
}
