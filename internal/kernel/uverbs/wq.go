package uverbs

import (
	"errors"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/kernel"
	"github.com/gorxe/gorxe/internal/kernel/dispatch"
	"github.com/gorxe/gorxe/internal/kernel/uapi"
	"github.com/gorxe/gorxe/internal/provider"
	"github.com/gorxe/gorxe/internal/segment"
	"github.com/gorxe/gorxe/rxe"
)

// wqRes is a work queue.
type wqRes struct {
	segment.WorkQueue
	f      *File
	mem    provider.WQ
	caps   rxe.QPCap
	tables atomic.Int32 // places in indirection tables
}

// Destroy is ib_destroy_wq_user.
func (r *wqRes) Destroy(o *dispatch.Object, closing bool) error {
	if !closing && r.tables.Load() > 0 {
		return rxe.ErrBusy
	}
	if err := r.QP.Destroy(); err != nil {
		return err
	}
	r.f.dev.disown(r.QP, o)
	r.mem.Free()
	return nil
}

// newWQ is a request for a work queue, whichever way it came.
type newWQ struct {
	user                      uint64
	typ, maxWR, maxSGE, flags uint32
	pd                        *pdRes
	cq                        *cqRes
	async                     *asyncFD
}

// createWQ is mlx5_ib_create_wq.
func (k *call) createWQ(o *dispatch.Object, req *newWQ) (*wqRes, error) {
	if req.typ != uapi.WQTypeRQ {
		return nil, kernel.Refuse(unix.EINVAL, "wq_type", "is unknown", "use IBV_WQT_RQ")
	}
	mem, err := k.f.ctx.(provider.Steering).NewWQ(udata{k}, provider.WQRequest{MaxWR: req.maxWR, MaxSGE: req.maxSGE, Flags: req.flags,
		CQ: req.cq.mem})
	if err != nil {
		return nil, err
	}
	r := &wqRes{f: k.f, mem: mem}
	init := segment.WorkQueueInit(req.cq.cq, req.flags&uapi.WQFlagCVLANStripping != 0, req.flags&uapi.WQFlagScatterFCS != 0)
	init.User, init.Owner, init.Faults = k.f.budget, k.f.owner, k.f.work
	mem.Init(&init)
	r.caps = init.Cap
	if err := k.f.charge(o, qpMemory); err != nil {
		mem.Free()
		return nil, err
	}
	if r.QP, err = req.pd.pd.CreateQP(init); err != nil {
		mem.Free()
		return nil, err
	}
	o.User, o.Res = req.user, r
	setAsync(o, req.async)
	k.f.dev.own(r.QP, o)
	return r, mem.Created(udata{k}, r.QP)
}

// writeCreateWQ is uverbs_cmd.c:ib_uverbs_ex_create_wq.
func writeCreateWQ(k *call, req *uapi.CreateWQReq) error {
	if req.CompMask != 0 {
		return unix.EOPNOTSUPP
	}
	o, err := k.Make(uapi.ObjWQ)
	if err != nil {
		return err
	}
	n := &newWQ{user: req.UserHandle, typ: req.WQType, maxWR: req.MaxWR, maxSGE: req.MaxSGE, flags: req.CreateFlags,
		async: k.f.events.defaultAsync()}
	if n.pd, err = dispatch.Held[*pdRes](&k.Call, uapi.ObjPD, req.PDHandle); err != nil {
		return err
	}
	if n.cq, err = dispatch.Held[*cqRes](&k.Call, uapi.ObjCQ, req.CQHandle); err != nil {
		return err
	}
	r, err := k.createWQ(o, n)
	if err != nil {
		return err
	}
	return dispatch.Respond(&k.Call, uapi.CreateWQResp{ResponseLength: dispatch.ResponseLength[uapi.CreateWQResp](&k.Call),
		WQHandle: o.Handle, MaxWR: r.caps.MaxRecvWR, MaxSGE: r.caps.MaxRecvSGE, WQN: uint32(r.QP.Num())})
}

// ioctlCreateWQ is uverbs_std_types_wq.c.
func ioctlCreateWQ(k *call) error {
	s := &k.Attrs
	typ, err := s.Constant(uapi.AttrCreateWQType, 1<<32-1)
	if err != nil {
		return err
	}
	flags, err := s.Flags(uapi.AttrCreateWQFlags, 0xf)
	if err != nil {
		return err
	}
	r, err := k.createWQ(s.Object(uapi.AttrCreateWQHandle), &newWQ{
		user: s.U64(uapi.AttrCreateWQUserHandle), typ: uint32(typ), flags: flags,
		maxWR: s.U32(uapi.AttrCreateWQMaxWR), maxSGE: s.U32(uapi.AttrCreateWQMaxSGE),
		pd: s.Object(uapi.AttrCreateWQPD).Res.(*pdRes), cq: s.Object(uapi.AttrCreateWQCQ).Res.(*cqRes),
		async: k.asyncAttr(uapi.AttrCreateWQEventFD),
	})
	if err != nil {
		return err
	}
	for id, v := range map[uint16]uint32{uapi.AttrCreateWQRespMaxWR: r.caps.MaxRecvWR,
		uapi.AttrCreateWQRespMaxSGE: r.caps.MaxRecvSGE, uapi.AttrCreateWQRespWQNum: uint32(r.QP.Num())} {
		if err := dispatch.Put(&k.Call, id, v); err != nil {
			return err
		}
	}
	return nil
}

// writeModifyWQ is uverbs_cmd.c:ib_uverbs_ex_modify_wq.
func writeModifyWQ(k *call, req *uapi.ModifyWQReq) error {
	switch {
	case req.AttrMask == 0 || req.AttrMask > uapi.WQAttrState|uapi.WQAttrCurState|uapi.WQAttrFlags:
		return kernel.Refuse(unix.EINVAL, "attr_mask", "is 0, or has unknown bits", "use IBV_WQ_ATTR_STATE")
	case req.AttrMask&uapi.WQAttrCurState != 0 && req.CurrWQState > uapi.WQError,
		req.AttrMask&uapi.WQAttrState != 0 && req.WQState > uapi.WQError:
		return kernel.Refuse(unix.EINVAL, "wq_state", "is unknown", "use a state of enum ibv_wq_state")
	}
	r, err := dispatch.Held[*wqRes](&k.Call, uapi.ObjWQ, req.WQHandle)
	if err != nil {
		return err
	}
	if err := r.mem.CheckModify(udata{k}); err != nil {
		return err
	}
	if req.AttrMask&uapi.WQAttrFlags != 0 && req.FlagsMask != 0 {
		return unix.EOPNOTSUPP // the flags of an existing queue stay
	}
	var current, next *segment.WQState
	if req.AttrMask&uapi.WQAttrCurState != 0 {
		current = (*segment.WQState)(&req.CurrWQState)
	}
	if req.AttrMask&uapi.WQAttrState != 0 {
		next = (*segment.WQState)(&req.WQState)
	}
	switch err := r.Modify(current, next, r.mem.Reset); {
	case errors.Is(err, segment.ErrCurrentState):
		return kernel.Refuse(unix.EINVAL, "curr_wq_state", "is not the state of the queue", "leave it out")
	case errors.Is(err, segment.ErrNextState):
		return kernel.Refuse(unix.EINVAL, "wq_state", "does not follow the state of the queue", "go by RESET, RDY, ERR, RESET")
	default:
		return err
	}
}

// writeDestroyWQ is uverbs_cmd.c:ib_uverbs_ex_destroy_wq.
func writeDestroyWQ(k *call, req *uapi.ExHandleReq) error {
	if req.CompMask != 0 {
		return unix.EOPNOTSUPP
	}
	o, err := k.Destroy(uapi.ObjWQ, uint64(req.Handle))
	if err != nil {
		return err
	}
	return dispatch.Respond(&k.Call, uapi.DestroyWQResp{ResponseLength: dispatch.ResponseLength[uapi.DestroyWQResp](&k.Call),
		EventsReported: o.AsyncReported})
}
