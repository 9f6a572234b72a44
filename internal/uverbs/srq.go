package uverbs

import (
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/kernel/uapi"
	"github.com/gorxe/gorxe/rxe"
)

// srqRes is a shared receive queue.
type srqRes struct {
	f    *File
	srq  *rxe.SRQ
	ring atomic.Pointer[recvRing]
}

func (r *srqRes) destroy(*object, bool) error {
	if err := r.srq.Destroy(); err != nil {
		return err
	}
	r.f.dev.disown(r.srq)
	r.ring.Load().free()
	return nil
}

// newSRQ is a request for an SRQ, whichever way it came.
type newSRQ struct {
	user, typ            uint64
	maxWR, maxSGE, limit uint32
	pd                   *pdRes
	async                *asyncFD
}

// createSRQ is rxe_create_srq.
func (k *call) createSRQ(o *object, req *newSRQ) (rxe.SRQAttr, error) {
	max := k.f.dev.rxe.Attr()
	switch {
	case k.uhwOut.size < uapi.SizeOf[rxeCreateSRQResp]():
		return rxe.SRQAttr{}, unix.EINVAL
	case req.typ != uapi.SRQTypeBasic:
		return rxe.SRQAttr{}, unix.EOPNOTSUPP
	case req.maxWR == 0 || req.maxWR > max.MaxSRQWR || req.maxSGE > max.MaxSRQSGE:
		return rxe.SRQAttr{}, unix.EINVAL
	}
	maxSGE := req.maxSGE
	if maxSGE == 0 {
		maxSGE = 1 // RXE_MIN_SRQ_SGE
	}
	ring, err := newRecvRing(k.f.arena, req.maxWR, maxSGE)
	if err != nil {
		return rxe.SRQAttr{}, queueError(err)
	}
	r := &srqRes{f: k.f}
	r.ring.Store(ring)
	attr := rxe.SRQAttr{MaxWR: min(uint32(ring.entries()), max.MaxSRQWR), MaxSGE: maxSGE}
	r.srq, err = req.pd.pd.CreateSRQ(rxe.SRQInit{MaxWR: attr.MaxWR, MaxSGE: maxSGE, Limit: req.limit, Ring: ring})
	if err != nil {
		ring.free()
		return rxe.SRQAttr{}, err
	}
	o.user, o.async, o.res = req.user, req.async, r
	k.f.dev.own(r.srq, o)
	return attr, respondUHW(k, rxeCreateSRQResp{MI: placeOf(ring.info()), SRQNum: o.handle})
}

func writeCreateSRQ(k *call) error {
	req, err := request[uapi.CreateSRQReq](k)
	if err != nil {
		return err
	}
	return k.createSRQByWrite(&newSRQ{user: req.UserHandle, maxWR: req.MaxWR, maxSGE: req.MaxSGE,
		limit: req.SRQLimit}, req.PDHandle)
}

// writeCreateXSRQ is for all types, of which rdma_rxe has the basic one.
func writeCreateXSRQ(k *call) error {
	req, err := request[uapi.CreateXSRQReq](k)
	if err != nil {
		return err
	}
	switch req.SRQType {
	case uapi.SRQTypeXRC:
		// There is no XRC domain that it could name.
		if err := k.f.needContext(); err != nil {
			return err
		}
		return unix.EINVAL
	case uapi.SRQTypeTM:
		if _, err := held[*cqRes](k, uapi.ObjCQ, req.CQHandle); err != nil {
			return err
		}
	}
	return k.createSRQByWrite(&newSRQ{user: req.UserHandle, typ: uint64(req.SRQType), maxWR: req.MaxWR,
		maxSGE: req.MaxSGE, limit: req.SRQLimit}, req.PDHandle)
}

func (k *call) createSRQByWrite(req *newSRQ, pdHandle uint32) error {
	o, err := k.make(uapi.ObjSRQ)
	if err != nil {
		return err
	}
	if req.pd, err = held[*pdRes](k, uapi.ObjPD, pdHandle); err != nil {
		return err
	}
	req.async = k.f.events.defaultAsync()
	attr, err := k.createSRQ(o, req)
	if err != nil {
		return err
	}
	return respond(k, uapi.CreateSRQResp{SRQHandle: o.handle, MaxWR: attr.MaxWR, MaxSGE: attr.MaxSGE})
}

func ioctlCreateSRQ(k *call) error {
	typ, err := k.attrs.constant(uapi.AttrCreateSRQType, 1<<32-1)
	if err != nil {
		return err
	}
	switch typ {
	case uapi.SRQTypeBasic:
	case uapi.SRQTypeXRC, uapi.SRQTypeTM:
		if typ == uapi.SRQTypeTM && k.attrs.object(uapi.AttrCreateSRQCQ) == nil || typ == uapi.SRQTypeXRC {
			return unix.ENOENT
		}
	default:
		return unix.EINVAL
	}
	req := &newSRQ{
		user:   k.attrs.u64(uapi.AttrCreateSRQUserHandle),
		typ:    typ,
		maxWR:  k.attrs.u32(uapi.AttrCreateSRQMaxWR),
		maxSGE: k.attrs.u32(uapi.AttrCreateSRQMaxSGE),
		limit:  k.attrs.u32(uapi.AttrCreateSRQLimit),
		pd:     k.attrs.object(uapi.AttrCreateSRQPD).res.(*pdRes),
		async:  k.asyncAttr(uapi.AttrCreateSRQEventFD),
	}
	attr, err := k.createSRQ(k.attrs.object(uapi.AttrCreateSRQHandle), req)
	if err != nil {
		return err
	}
	if err := put(k, uapi.AttrCreateSRQRespMaxWR, attr.MaxWR); err != nil {
		return err
	}
	return put(k, uapi.AttrCreateSRQRespMaxSGE, attr.MaxSGE)
}

// writeModifySRQ is rxe_modify_srq. A resized queue's place does not go where
// answers go, but to an address that the provider's part of the request names.
func writeModifySRQ(k *call) error {
	req, err := request[uapi.ModifySRQReq](k)
	if err != nil {
		return err
	}
	r, err := held[*srqRes](k, uapi.ObjSRQ, req.SRQHandle)
	if err != nil {
		return err
	}
	if len(k.uhwIn) < uapi.SizeOf[rxeModifySRQCmd]() {
		return unix.EINVAL // a librxe older than its own resize
	}
	place := reply{addr: uapi.Load[rxeModifySRQCmd](k.uhwIn).MmapInfoAddr, size: uapi.SizeOf[mmInfo]()}
	mask := rxe.SRQAttrMask(req.AttrMask)
	if err := r.checkModify(&req, mask); err != nil {
		return err
	}
	if mask&rxe.SRQAttrMaxWR != 0 {
		if err := k.resizeSRQ(r, req.MaxWR, &place); err != nil {
			return err
		}
	}
	if mask&rxe.SRQAttrLimit != 0 {
		return r.srq.Modify(rxe.SRQAttr{Limit: req.SRQLimit}, rxe.SRQAttrLimit)
	}
	return nil
}

// checkModify is rxe_srq_chk_attr, before anything is changed.
func (r *srqRes) checkModify(req *uapi.ModifySRQReq, mask rxe.SRQAttrMask) error {
	max := r.f.dev.rxe.Attr().MaxSRQWR
	now, err := r.srq.Query()
	if err != nil {
		return err
	}
	entries := uint32(r.ring.Load().entries())
	if mask&rxe.SRQAttrMaxWR != 0 {
		if req.MaxWR == 0 || req.MaxWR > max || req.MaxWR < now.Limit {
			return unix.EINVAL
		}
		entries = req.MaxWR
	}
	if mask&rxe.SRQAttrLimit != 0 && (req.SRQLimit > max || req.SRQLimit > entries) {
		return unix.EINVAL
	}
	return nil
}

func (k *call) resizeSRQ(r *srqRes, maxWR uint32, place *reply) error {
	// The queue changes at once: see first that the program can be told.
	if err := k.probe(place, place.size); err != nil {
		return err
	}
	ring, err := newRecvRing(k.f.arena, maxWR, r.ring.Load().maxSGE)
	if err != nil {
		return queueError(err)
	}
	entries := min(uint32(ring.entries()), k.f.dev.rxe.Attr().MaxSRQWR)
	err = replaceRing(&r.ring, ring, func(move func() error) error {
		return r.srq.ReplaceRing(entries, func() (rxe.RecvRing, error) { return ring, move() })
	})
	if err != nil {
		return err
	}
	info := placeOf(ring.info())
	return k.answer(place, uapi.BytesOf(&info))
}

func writeQuerySRQ(k *call) error {
	req, err := request[uapi.QuerySRQReq](k)
	if err != nil {
		return err
	}
	r, err := held[*srqRes](k, uapi.ObjSRQ, req.SRQHandle)
	if err != nil {
		return err
	}
	attr, err := r.srq.Query()
	if err != nil {
		return err
	}
	return respond(k, uapi.QuerySRQResp{
		MaxWR:    uint32(r.ring.Load().entries()),
		MaxSGE:   attr.MaxSGE,
		SRQLimit: attr.Limit,
	})
}
