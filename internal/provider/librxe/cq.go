package librxe

import (
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/kernel/uapi"
	"github.com/gorxe/gorxe/internal/provider"
	"github.com/gorxe/gorxe/rxe"
)

// completionQueue is provider.CQ.
type completionQueue struct {
	c      *userContext
	handle uint32
	cq     *rxe.CQ
	ring   atomic.Pointer[cqRing]
}

// NewCQ implements provider.Context (rxe_create_cq).
func (c *userContext) NewCQ(u provider.UData, req provider.CQRequest) (provider.CQ, error) {
	if err := hasRoom[MMInfo](u); err != nil {
		return nil, err
	}
	if req.Flags != 0 {
		return nil, unix.EOPNOTSUPP
	}
	if err := c.checkEntries(req.Entries); err != nil {
		return nil, err
	}
	q := &completionQueue{c: c, handle: req.Handle}
	ring, err := q.newRing(req.Entries)
	if err != nil {
		return nil, err
	}
	q.ring.Store(ring)
	return q, nil
}

// checkEntries is rxe_cq_chk_attr.
func (c *userContext) checkEntries(n uint32) error {
	return c.dev.CheckCQEntries(n)
}

func (q *completionQueue) newRing(entries uint32) (*cqRing, error) {
	ring, err := newCQRing(q.c.arena, int(entries))
	if err != nil {
		return nil, queueError(err)
	}
	ring.overrun = q.c.overrun
	ring.label(label{kind: labelCQ, cq: q.handle})
	return ring, nil
}

// Ring implements provider.CQ.
func (q *completionQueue) Ring() rxe.CQRing { return q.ring.Load() }

// Entries implements provider.CQ.
func (q *completionQueue) Entries() int { return q.ring.Load().entries() }

// Waiting implements provider.CQ.
func (q *completionQueue) Waiting() int { return q.ring.Load().Waiting() }

// Created implements provider.CQ.
func (q *completionQueue) Created(u provider.UData, cq *rxe.CQ) error {
	q.cq = cq
	return respondPlace(u, q.ring.Load())
}

// CheckResize implements provider.CQ.
func (q *completionQueue) CheckResize(u provider.UData, entries uint32) error {
	if err := hasRoom[MMInfo](u); err != nil {
		return err
	}
	if err := q.c.checkEntries(entries); err != nil {
		return err
	}
	return u.Probe(uapi.SizeOf[MMInfo]())
}

// Resize implements provider.CQ (rxe_resize_cq).
func (q *completionQueue) Resize(u provider.UData, entries uint32) error {
	ring, err := q.newRing(entries)
	if err != nil {
		return err
	}
	err = replaceRing(&q.ring, ring, func(move func() error) error {
		return q.cq.ReplaceRing(int(entries), func() (rxe.CQRing, error) { return ring, move() })
	})
	if err != nil {
		return err
	}
	return respondPlace(u, ring)
}

// Arming implements provider.CQ. A program that is about to wait has polled, and will
// poll again.
func (q *completionQueue) Arming() { q.ring.Load().repair() }

// Free implements provider.CQ.
func (q *completionQueue) Free() {
	ring := q.ring.Load()
	ring.repair() // the last chance to see an overrun
	ring.free()
}
