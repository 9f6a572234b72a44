package uverbs

import (
	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/kernel"
	"github.com/gorxe/gorxe/internal/kernel/dispatch"
	"github.com/gorxe/gorxe/internal/kernel/uapi"
	"github.com/gorxe/gorxe/internal/provider"
	"github.com/gorxe/gorxe/rxe"
)

// srqRes is a shared receive queue.
type srqRes struct {
	f      *File
	srq    *rxe.SRQ
	domain *rxe.PD
	mem    provider.SRQ
	number uint32
	xrcd   *xrcdRes // of XRC; else nil
	cq     *cqRes   // the same
}

func (r *srqRes) Destroy(o *dispatch.Object, _ bool) error {
	if err := r.srq.Destroy(); err != nil {
		return err
	}
	r.f.dev.disown(r.srq, o)
	r.xrcd.leave()
	r.mem.Free()
	return nil
}

// newSRQ is a request for an SRQ, whichever way it came.
type newSRQ struct {
	user, typ            uint64
	maxWR, maxSGE, limit uint32
	pd                   *pdRes
	xrcd                 *xrcdRes // of XRC; else nil
	cq                   *cqRes   // the same
	async                *asyncFD
}

// createSRQ is rxe_create_srq.
func (k *call) createSRQ(o *dispatch.Object, req *newSRQ) (rxe.SRQAttr, error) {
	ask := provider.SRQRequest{Handle: o.Handle, Type: req.typ, MaxWR: req.maxWR, MaxSGE: req.maxSGE}
	init := rxe.SRQInit{Limit: req.limit}
	if req.xrcd != nil {
		ask.CQ, init.XRCD, init.CQ = req.cq.mem, req.xrcd.xrcd, req.cq.cq
	}
	mem, err := k.f.ctx.NewSRQ(udata{k}, ask)
	if err != nil {
		return rxe.SRQAttr{}, err
	}
	r := &srqRes{f: k.f, domain: req.pd.pd, mem: mem, number: k.f.dev.numbers.srqs.Add(1), xrcd: req.xrcd, cq: req.cq}
	attr := mem.Attr()
	init.MaxWR, init.MaxSGE, init.Ring = attr.MaxWR, attr.MaxSGE, mem.Ring()
	r.srq, err = req.pd.pd.CreateSRQ(init)
	if err != nil {
		mem.Free()
		return rxe.SRQAttr{}, err
	}
	if r.xrcd != nil {
		r.xrcd.users.Add(1)
	}
	o.User, o.Res = req.user, r
	setAsync(o, req.async)
	k.f.dev.own(r.srq, o)
	return attr, mem.Created(udata{k}, r.srq)
}

func writeCreateSRQ(k *call, req *uapi.CreateSRQReq) error {
	return k.createSRQByWrite(&newSRQ{user: req.UserHandle, maxWR: req.MaxWR, maxSGE: req.MaxSGE,
		limit: req.SRQLimit}, req.PDHandle)
}

// writeCreateXSRQ is for all types, of which rdma_rxe has the basic one.
func writeCreateXSRQ(k *call, req *uapi.CreateXSRQReq) error {
	n := &newSRQ{user: req.UserHandle, typ: uint64(req.SRQType), maxWR: req.MaxWR, maxSGE: req.MaxSGE, limit: req.SRQLimit}
	switch req.SRQType {
	case uapi.SRQTypeXRC:
		if k.f.dev.xrc {
			return k.createXRCSRQByWrite(n, req)
		}
		// There is no XRC domain that it could name.
		if err := k.f.NeedContext(); err != nil {
			return err
		}
		return kernel.Refuse(unix.EINVAL, "srq_type", "this device has no XRC", "use IBV_SRQT_BASIC")
	case uapi.SRQTypeTM:
		if _, err := dispatch.Held[*cqRes](&k.Call, uapi.ObjCQ, req.CQHandle); err != nil {
			return err
		}
	}
	return k.createSRQByWrite(n, req.PDHandle)
}

func (k *call) createXRCSRQByWrite(n *newSRQ, req *uapi.CreateXSRQReq) (err error) {
	if n.xrcd, err = dispatch.Held[*xrcdRes](&k.Call, uapi.ObjXRCD, req.XRCDHandle); err != nil {
		return err
	}
	if n.cq, err = dispatch.Held[*cqRes](&k.Call, uapi.ObjCQ, req.CQHandle); err != nil {
		return err
	}
	return k.createSRQByWrite(n, req.PDHandle)
}

func (k *call) createSRQByWrite(req *newSRQ, pdHandle uint32) error {
	o, err := k.Make(uapi.ObjSRQ)
	if err != nil {
		return err
	}
	if req.pd, err = dispatch.Held[*pdRes](&k.Call, uapi.ObjPD, pdHandle); err != nil {
		return err
	}
	req.async = k.f.events.defaultAsync()
	attr, err := k.createSRQ(o, req)
	if err != nil {
		return err
	}
	return dispatch.Respond(&k.Call, uapi.CreateSRQResp{SRQHandle: o.Handle, MaxWR: attr.MaxWR, MaxSGE: attr.MaxSGE, SRQN: o.Res.(*srqRes).srq.Num()})
}

func ioctlCreateSRQ(k *call) error {
	typ, err := k.Attrs.Constant(uapi.AttrCreateSRQType, 1<<32-1)
	if err != nil {
		return err
	}
	switch typ {
	case uapi.SRQTypeBasic:
	case uapi.SRQTypeXRC, uapi.SRQTypeTM:
		if typ == uapi.SRQTypeXRC && k.f.dev.xrc {
			break
		}
		if typ == uapi.SRQTypeTM && k.Attrs.Object(uapi.AttrCreateSRQCQ) == nil || typ == uapi.SRQTypeXRC {
			return kernel.Refuse(unix.ENOENT, "srq_type", "XRC and tag matching need what this device lacks", "use IBV_SRQT_BASIC")
		}
	default:
		return kernel.Refuse(unix.EINVAL, "srq_type", "unknown", "use IBV_SRQT_BASIC")
	}
	req := &newSRQ{
		user:   k.Attrs.U64(uapi.AttrCreateSRQUserHandle),
		typ:    typ,
		maxWR:  k.Attrs.U32(uapi.AttrCreateSRQMaxWR),
		maxSGE: k.Attrs.U32(uapi.AttrCreateSRQMaxSGE),
		limit:  k.Attrs.U32(uapi.AttrCreateSRQLimit),
		pd:     k.Attrs.Object(uapi.AttrCreateSRQPD).Res.(*pdRes),
		async:  k.asyncAttr(uapi.AttrCreateSRQEventFD),
	}
	if typ == uapi.SRQTypeXRC {
		x, cq := k.Attrs.Object(uapi.AttrCreateSRQXRCD), k.Attrs.Object(uapi.AttrCreateSRQCQ)
		if x == nil || cq == nil {
			return unix.ENOENT
		}
		req.xrcd, req.cq = x.Res.(*xrcdRes), cq.Res.(*cqRes)
	}
	o := k.Attrs.Object(uapi.AttrCreateSRQHandle)
	attr, err := k.createSRQ(o, req)
	if err != nil {
		return err
	}
	if typ == uapi.SRQTypeXRC {
		if err := dispatch.Put(&k.Call, uapi.AttrCreateSRQRespSRQNum, o.Res.(*srqRes).srq.Num()); err != nil {
			return err
		}
	}
	if err := dispatch.Put(&k.Call, uapi.AttrCreateSRQRespMaxWR, attr.MaxWR); err != nil {
		return err
	}
	return dispatch.Put(&k.Call, uapi.AttrCreateSRQRespMaxSGE, attr.MaxSGE)
}

func writeModifySRQ(k *call, req *uapi.ModifySRQReq) error {
	r, err := dispatch.Held[*srqRes](&k.Call, uapi.ObjSRQ, req.SRQHandle)
	if err != nil {
		return err
	}
	return r.mem.Modify(udata{k}, rxe.SRQAttr{MaxWR: req.MaxWR, Limit: req.SRQLimit}, rxe.SRQAttrMask(req.AttrMask))
}

func writeQuerySRQ(k *call, req *uapi.QuerySRQReq) error {
	r, err := dispatch.Held[*srqRes](&k.Call, uapi.ObjSRQ, req.SRQHandle)
	if err != nil {
		return err
	}
	attr, err := r.srq.Query()
	if err != nil {
		return err
	}
	return dispatch.Respond(&k.Call, uapi.QuerySRQResp{
		MaxWR:    uint32(r.mem.Entries()),
		MaxSGE:   attr.MaxSGE,
		SRQLimit: attr.Limit,
	})
}
