package librxe

import (
	"cmp"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/kernel/uapi"
	"github.com/gorxe/gorxe/internal/provider"
	"github.com/gorxe/gorxe/rxe"
)

// sharedQueue is provider.SRQ.
type sharedQueue struct {
	c      *userContext
	handle uint32
	srq    *rxe.SRQ
	ring   atomic.Pointer[recvRing]
}

// NewSRQ implements provider.Context (rxe_create_srq).
func (c *userContext) NewSRQ(u provider.UData, req provider.SRQRequest) (provider.SRQ, error) {
	if err := hasRoom[CreateSRQResp](u); err != nil {
		return nil, err
	}
	switch {
	case req.Type != uapi.SRQTypeBasic:
		return nil, unix.EOPNOTSUPP
	}
	if err := c.dev.CheckSRQ(req.MaxWR, req.MaxSGE); err != nil {
		return nil, err
	}
	// At least one SGE: RXE_MIN_SRQ_SGE.
	ring, err := newRecvRing(c.arena, req.MaxWR, cmp.Or(req.MaxSGE, 1))
	if err != nil {
		return nil, queueError(err)
	}
	q := &sharedQueue{c: c, handle: req.Handle}
	q.ring.Store(ring)
	return q, nil
}

// Ring implements provider.SRQ.
func (q *sharedQueue) Ring() rxe.RecvRing { return q.ring.Load() }

// Entries implements provider.SRQ.
func (q *sharedQueue) Entries() int { return q.ring.Load().entries() }

// Waiting implements provider.SRQ.
func (q *sharedQueue) Waiting() int { return q.ring.Load().Len() }

// Attr implements provider.SRQ.
func (q *sharedQueue) Attr() rxe.SRQAttr {
	ring := q.ring.Load()
	return rxe.SRQAttr{MaxWR: q.maxWR(ring), MaxSGE: ring.maxSGE}
}

func (q *sharedQueue) maxWR(ring *recvRing) uint32 {
	return min(uint32(ring.entries()), q.c.dev.Attr().MaxSRQWR)
}

// Created implements provider.SRQ.
func (q *sharedQueue) Created(u provider.UData, srq *rxe.SRQ) error {
	q.srq = srq
	resp := CreateSRQResp{MI: q.ring.Load().place(), SRQNum: q.handle}
	return u.Respond(uapi.BytesOf(&resp))
}

// Modify implements provider.SRQ (rxe_modify_srq). The place of a resized queue goes to
// an address in the private request, not into a response.
func (q *sharedQueue) Modify(u provider.UData, attr rxe.SRQAttr, mask rxe.SRQAttrMask) error {
	if len(u.Request()) < uapi.SizeOf[ModifySRQCmd]() {
		// an older one
		return refuse("request", "has no room for the place of the queue", "use a librxe that can resize an SRQ")
	}
	if err := q.checkModify(attr, mask); err != nil {
		return err
	}
	if mask&rxe.SRQAttrMaxWR != 0 {
		addr := uapi.Load[ModifySRQCmd](u.Request()).MmapInfoAddr
		if err := q.resize(u, attr.MaxWR, addr); err != nil {
			return err
		}
	}
	if mask&rxe.SRQAttrLimit != 0 {
		return q.srq.Modify(rxe.SRQAttr{Limit: attr.Limit}, rxe.SRQAttrLimit)
	}
	return nil
}

// checkModify is rxe_srq_chk_attr.
func (q *sharedQueue) checkModify(to rxe.SRQAttr, mask rxe.SRQAttrMask) error {
	max := q.c.dev.Attr().MaxSRQWR
	now, err := q.srq.Query()
	if err != nil {
		return err
	}
	entries := uint32(q.Entries())
	if mask&rxe.SRQAttrMaxWR != 0 {
		if err := q.c.dev.CheckSRQ(to.MaxWR, 0); err != nil {
			return err
		}
		if to.MaxWR < now.Limit {
			return refuse("max_wr", "is below srq_limit", "lower srq_limit, or ask for more")
		}
		entries = to.MaxWR
	}
	if mask&rxe.SRQAttrLimit != 0 && (to.Limit > max || to.Limit > entries) {
		return refuse("srq_limit", "exceeds max_wr", "ask for less")
	}
	return nil
}

func (q *sharedQueue) resize(u provider.UData, maxWR uint32, addr uint64) error {
	// The queue changes at once. See first that the program can be told.
	if err := u.Write(addr, make([]byte, uapi.SizeOf[MMInfo]())); err != nil {
		return err
	}
	ring, err := newRecvRing(q.c.arena, maxWR, q.ring.Load().maxSGE)
	if err != nil {
		return queueError(err)
	}
	err = replaceRing(&q.ring, ring, func(move func() error) error {
		return q.srq.ReplaceRing(q.maxWR(ring), func() (rxe.RecvRing, error) { return ring, move() })
	})
	if err != nil {
		return err
	}
	place := ring.place()
	return u.Write(addr, uapi.BytesOf(&place))
}

// Free implements provider.SRQ.
func (q *sharedQueue) Free() { q.ring.Load().free() }
