package mlx5

import (
	"math/bits"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/kernel/uapi"
	"github.com/gorxe/gorxe/internal/provider"
	"github.com/gorxe/gorxe/rxe"
)

// completionQueue is provider.CQ.
type completionQueue struct {
	c      *userContext
	handle uint32
	ring   *cqRing
	// recorded says that the guard knows its doorbell record.
	recorded bool
}

// NewCQ implements provider.Context (mlx5_ib_create_cq).
func (c *userContext) NewCQ(u provider.UData, req provider.CQRequest) (provider.CQ, error) {
	if err := lacks(u, cqToCompEn); err != nil {
		return nil, err
	}
	own := uapi.Load[CreateCQReq](u.Request())
	switch {
	case req.Flags&^(uapi.CQFlagTimestamp|uapi.CQFlagIgnoreOverrun) != 0:
		return nil, unix.EOPNOTSUPP
	case own.Flags&^(cqFlagUARPage|cqFlagPad) != 0:
		return nil, errNotOffered
	case own.CQECompEn != 0 && !compresses(own.CQECompResFormat):
		return nil, unix.EOPNOTSUPP // as create_cq_user does
	case own.CQECompEn != 0 && own.CQESize != cqeSize:
		return nil, unix.EOPNOTSUPP
	case own.CQESize != cqeSize && own.CQESize != 2*cqeSize:
		return nil, refuse("cqe_size", "is not 64 or 128", "use one of them")
	case own.Flags&cqFlagPad != 0 && own.CQESize != 2*cqeSize:
		return nil, refuse("flags", "ask for padding of a completion of 64 bytes", "use 128")
	}
	if err := c.dev.CheckCQEntries(req.Entries); err != nil {
		return nil, err
	}
	space, err := u.Space()
	if err != nil {
		return nil, err
	}
	q := &completionQueue{c: c, handle: req.Handle, ring: &cqRing{
		space: space, user: c.userOf, record: own.DBAddr, notify: req.Notify, wake: c.poller.wake,
		loose: req.Flags&uapi.CQFlagIgnoreOverrun != 0,
		tick:  c.tickFor(req.Flags), events: moderation{work: c.budget}, label: ringLabel{c, noLabel},
		buf: own.BufAddr, shift: cqShift(own.CQESize), mask: cqMask(req.Entries),
	}}
	if req.Notify != nil {
		if err := c.guard.write(q.ring.disarm); err != nil {
			return nil, err
		}
	}
	return q, nil
}

// compresses reports whether a format of compressed completions is one of those that the device
// says it has.
func compresses(format uint8) bool {
	return format == compressHash || format == compressCsum || format == compressStridx
}

func cqShift(size uint32) uint8 { return uint8(bits.Len32(size) - 1) }

// cqMask returns the mask of a queue for so many completions, and one more, as libmlx5 makes it.
func cqMask(entries uint32) uint32 { return 1<<bits.Len32(entries) - 1 }

// userOf returns the user index that the completion names.
func (c *userContext) userOf(wc rxe.WC) uint32 {
	if id := wrID(wc.ID); !id.shared() && !id.part() {
		return id.user()
	}
	return c.user(wc.QPN)
}

// Ring implements provider.CQ.
func (q *completionQueue) Ring() rxe.CQRing { return q.ring }

// Entries implements provider.CQ.
func (q *completionQueue) Entries() int { return q.ring.entries() }

// Waiting implements provider.CQ.
func (q *completionQueue) Waiting() int { return q.ring.Waiting() }

// Behind implements provider.LateCQ.
func (q *completionQueue) Behind() (look func() int) { return q.ring.behind() }

// Created implements provider.CQ. The number is for the registers: 0 would look like no number.
func (q *completionQueue) Created(u provider.UData, _ *rxe.CQ) error {
	r := q.ring
	r.label.index = q.c.labels.add(q.c.pages.file, label{kind: labelCQ, identity: identityOf(r.space), buf: r.buf, record: r.record,
		mask: r.mask, user: uint32(r.shift)})
	if q.ring.notify != nil {
		q.c.doorbells.addCQ(q)
		q.c.cover(u, r.space)
		q.c.guard.addRecord(u, r.record, q.c.doorbells.stops())
		q.recorded = true
	}
	return respond(u, CreateCQResp{CQN: q.handle + 1})
}

// CheckResize implements provider.CQ.
func (q *completionQueue) CheckResize(u provider.UData, entries uint32) error {
	if err := lacks(u, resizeToSize); err != nil {
		return err
	}
	if size := uapi.Load[ResizeCQReq](u.Request()).CQESize; cqShift(uint32(size)) != q.ring.shift {
		return refuse("cqe_size", "is another one", "keep it")
	}
	return q.c.dev.CheckCQEntries(entries)
}

// Resize implements provider.CQ.
func (q *completionQueue) Resize(u provider.UData, entries uint32) error {
	return q.ring.resize(uapi.Load[ResizeCQReq](u.Request()).BufAddr, cqMask(entries))
}

// Arming implements provider.CQ.
func (q *completionQueue) Arming() {}

// Free implements provider.CQ.
func (q *completionQueue) Free() {
	if q.recorded {
		q.c.guard.removeRecord(q.ring.record)
	}
	q.c.doorbells.removeCQ(q)
	q.c.labels.remove(q.ring.label.index)
	q.ring.close()
}
