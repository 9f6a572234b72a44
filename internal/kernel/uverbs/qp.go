package uverbs

import (
	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/kernel"
	"github.com/gorxe/gorxe/internal/kernel/dispatch"
	"github.com/gorxe/gorxe/internal/kernel/uapi"
	"github.com/gorxe/gorxe/internal/provider"
	"github.com/gorxe/gorxe/internal/segment"
	"github.com/gorxe/gorxe/rxe"
)

// qpRes is a queue pair. It finds what its work requests name (keys).
type qpRes struct {
	f      *File
	qp     *rxe.QP
	domain *rxe.PD
	srq    *srqRes  // nil: none
	xrcd   *xrcdRes // of an XRC target; else nil
	// of raw packets; else nil
	station *segment.Station
	mem     provider.QP
	caps    rxe.QPCap // of the queues as they are
	told    rxe.QPCap // of the queues as the program has them
	slot    uint32    // in File.live
	sendCQ  *cqRes
	recvCQ  *cqRes
	sigAll  bool

	groups groupSet
	flow   flowTarget
}

func (r *qpRes) flowTarget() *flowTarget { return &r.flow }

func (r *qpRes) PD() *rxe.PD                  { return r.domain }
func (r *qpRes) MWByRKey(rkey uint32) *rxe.MW { return r.f.keys.mw(rkey) }
func (r *qpRes) MRByLKey(lkey uint32) *rxe.MR {
	if m := r.f.keys.mr(lkey); m != nil {
		return m.mr
	}
	return nil
}

func (r *qpRes) Destroy(o *dispatch.Object, closing bool) error {
	if err := r.flow.busy(closing); err != nil {
		return err
	}
	if closing {
		r.leaveGroups()
	} else {
		r.mem.Ending()
	}
	if err := r.qp.Destroy(); err != nil {
		return err
	}
	r.f.moved(r.qp.Num(), Destroyed)
	o.Doorbell.Store(nil)
	r.f.live.remove(r)
	r.f.dev.disown(r.qp, o)
	r.xrcd.leave()
	r.leaveStation()
	r.mem.Free()
	return nil
}

// newQP is a request for a QP, whichever way it came.
type newQP struct {
	user           uint64
	typ            uint64
	flags          uint32
	sigAll         bool
	cap            rxe.QPCap
	pd             *pdRes
	sendCQ, recvCQ *cqRes
	srq            *srqRes
	xrcd           *xrcdRes // of an XRC target, which has none of the others
	async          *asyncFD
}

// createQP makes a queue pair. The driver makes its queues and checks what it has to
// say about the request.
func (k *call) createQP(o *dispatch.Object, req *newQP) (*qpRes, error) {
	r := &qpRes{f: k.f, srq: req.srq, xrcd: req.xrcd, sendCQ: req.sendCQ, recvCQ: req.recvCQ, sigAll: req.sigAll}
	if req.pd != nil {
		r.domain = req.pd.pd
	}
	ask := provider.QPRequest{Type: req.typ, Flags: req.flags, Cap: req.cap, SRQ: req.srq != nil, Keys: r}
	init := rxe.QPInitAttr{Type: rxe.QPType(req.typ), Cap: req.cap, SignalAll: req.sigAll,
		User: k.f.budget, Owner: k.f.owner, Faults: k.f.work, Chaos: k.f.chaos}
	if k.f.reports != nil {
		init.Reports = k.f.reports
	}
	if k.f.watcher != nil {
		init.Observer = k.f.watcher
	}
	if req.sendCQ != nil {
		ask.SendCQ, init.SendCQ = req.sendCQ.mem, req.sendCQ.cq
	}
	if req.recvCQ != nil {
		ask.RecvCQ, init.RecvCQ = req.recvCQ.mem, req.recvCQ.cq
	}
	if req.srq != nil {
		init.SRQ = req.srq.srq
	}
	var err error
	if r.mem, err = k.f.ctx.NewQP(udata{k}, ask); err != nil {
		return nil, err
	}
	r.mem.Init(&init)
	if err = k.f.charge(o, init.Cap.SendMemory()); err != nil {
		r.mem.Free()
		return nil, err
	}
	if init.Type == rxe.QPRaw {
		init.Frames = k.frames(r, req)
	}
	if req.xrcd != nil {
		r.qp, err = k.f.sub.CreateTarget(req.xrcd.xrcd, init)
	} else {
		r.qp, err = r.domain.CreateQP(init)
	}
	if err != nil {
		r.leaveStation()
		r.mem.Free()
		return nil, err
	}
	if r.xrcd != nil {
		r.xrcd.users.Add(1)
	}
	r.flow.station, r.flow.to = r.station, r.qp
	o.User, o.Res = req.user, r
	setAsync(o, req.async)
	k.f.sends.Store(true)
	res := dispatch.Resource(r)
	o.Doorbell.Store(&res)
	k.f.dev.own(r.qp, o)
	k.f.moved(r.qp.Num(), rxe.QPReset.String())
	_, made, err := r.qp.Query()
	if err != nil {
		return nil, err
	}
	r.caps = made.Cap
	if req.srq != nil {
		r.caps.MaxRecvWR, r.caps.MaxRecvSGE = req.cap.MaxRecvWR, req.cap.MaxRecvSGE
	}
	r.told = r.mem.Answer(req.cap, r.caps)
	if err = r.mem.Created(udata{k}, r.qp); err == nil {
		k.f.live.add(r)
	}
	return r, err
}

func writeCreateQP(k *call, req *uapi.CreateQPReq) error {
	ex := uapi.ExCreateQPReq{
		UserHandle: req.UserHandle, PDHandle: req.PDHandle,
		SendCQHandle: req.SendCQHandle, RecvCQHandle: req.RecvCQHandle, SRQHandle: req.SRQHandle,
		MaxSendWR: req.MaxSendWR, MaxRecvWR: req.MaxRecvWR,
		MaxSendSGE: req.MaxSendSGE, MaxRecvSGE: req.MaxRecvSGE, MaxInlineData: req.MaxInlineData,
		SQSigAll: req.SQSigAll, QPType: req.QPType, IsSRQ: req.IsSRQ,
	}
	o, r, err := k.createQPByWrite(&ex)
	if err != nil {
		return err
	}
	return dispatch.Respond(&k.Call, r.createResp(o))
}

func writeExCreateQP(k *call, req *uapi.ExCreateQPReq) error {
	if req.CompMask&^uapi.CreateQPMaskIndTable != 0 || req.Reserved != 0 {
		return kernel.Refuse(unix.EINVAL, "comp_mask", "has unknown bits", "use headers and libraries that belong together")
	}
	if req.CompMask != 0 && k.f.dev.steers {
		return writeCreateRSS(k, req)
	}
	o, r, err := k.createQPByWrite(req)
	if err != nil {
		return err
	}
	return dispatch.Respond(&k.Call, uapi.ExCreateQPResp{Base: r.createResp(o), ResponseLength: dispatch.ResponseLength[uapi.ExCreateQPResp](&k.Call)})
}

func (r *qpRes) createResp(o *dispatch.Object) uapi.CreateQPResp {
	return uapi.CreateQPResp{
		QPHandle: o.Handle, QPN: uint32(r.qp.Num()),
		MaxSendWR: r.told.MaxSendWR, MaxRecvWR: r.told.MaxRecvWR,
		MaxSendSGE: r.told.MaxSendSGE, MaxRecvSGE: r.told.MaxRecvSGE,
		MaxInlineData: r.told.MaxInlineData,
	}
}

// createQPByWrite finds what the write() forms name by handle
// (uverbs_cmd.c:create_qp).
func (k *call) createQPByWrite(req *uapi.ExCreateQPReq) (*dispatch.Object, *qpRes, error) {
	if !knownQPType(uint64(req.QPType)) {
		return nil, nil, kernel.Refuse(unix.EINVAL, "qp_type", "unknown", "use IBV_QPT_RC, IBV_QPT_UC or IBV_QPT_UD")
	}
	o, err := k.Make(uapi.ObjQP)
	if err != nil {
		return nil, nil, err
	}
	if req.CompMask&uapi.CreateQPMaskIndTable != 0 || req.QPType == uapi.QPTypeXRCTgt && !k.f.dev.xrc {
		// no handle names what it would need
		return nil, nil, kernel.Refuse(unix.EINVAL, "qp_type", "this device has neither XRC nor RSS", "use IBV_QPT_RC, IBV_QPT_UC or IBV_QPT_UD")
	}
	n := &newQP{
		user: req.UserHandle, typ: uint64(req.QPType), flags: req.CreateFlags, sigAll: req.SQSigAll != 0,
		cap: rxe.QPCap{
			MaxSendWR: req.MaxSendWR, MaxRecvWR: req.MaxRecvWR,
			MaxSendSGE: req.MaxSendSGE, MaxRecvSGE: req.MaxRecvSGE, MaxInlineData: req.MaxInlineData,
		},
		async: k.f.events.defaultAsync(),
	}
	if req.QPType == uapi.QPTypeXRCTgt {
		r, err := k.createTargetByWrite(o, n, req.PDHandle)
		return o, r, err
	}
	if req.IsSRQ != 0 && req.QPType != uapi.QPTypeXRCIni {
		if n.srq, err = dispatch.Held[*srqRes](&k.Call, uapi.ObjSRQ, req.SRQHandle); err != nil {
			return nil, nil, err
		}
	}
	if initiator := req.QPType == uapi.QPTypeXRCIni && k.f.dev.xrc; initiator {
		n.cap.MaxRecvWR, n.cap.MaxRecvSGE = 0, 0
	} else if n.recvCQ, err = dispatch.Held[*cqRes](&k.Call, uapi.ObjCQ, req.RecvCQHandle); err != nil {
		return nil, nil, err
	}
	if n.sendCQ, err = dispatch.Held[*cqRes](&k.Call, uapi.ObjCQ, req.SendCQHandle); err != nil {
		return nil, nil, err
	}
	if n.pd, err = dispatch.Held[*pdRes](&k.Call, uapi.ObjPD, req.PDHandle); err != nil {
		return nil, nil, err
	}
	r, err := k.createQP(o, n)
	return o, r, err
}

func knownQPType(t uint64) bool {
	switch t {
	case uapi.QPTypeRC, uapi.QPTypeUC, uapi.QPTypeUD, uapi.QPTypeRawPacket, uapi.QPTypeXRCIni, uapi.QPTypeXRCTgt, uapi.QPTypeDriver:
		return true
	default:
		return false
	}
}

func ioctlCreateQP(k *call) error {
	if o := k.Attrs.Object(uapi.AttrCreateQPIndTable); o != nil {
		return ioctlCreateRSS(k, o.Res.(*tableRes))
	}
	req, err := k.qpAttrs()
	if err != nil {
		return err
	}
	r, err := k.createQP(k.Attrs.Object(uapi.AttrCreateQPHandle), req)
	if err != nil {
		return err
	}
	if err := dispatch.PutStruct(&k.Call, uapi.AttrCreateQPRespCap, uapi.QPCap(r.told)); err != nil {
		return err
	}
	return dispatch.Put(&k.Call, uapi.AttrCreateQPRespQPNum, uint32(r.qp.Num()))
}

// qpAttrs reads the attributes of QP_CREATE (uverbs_std_types_qp.c).
func (k *call) qpAttrs() (*newQP, error) {
	s := &k.Attrs
	typ, err := s.Constant(uapi.AttrCreateQPType, 1<<32-1)
	switch {
	case err != nil:
		return nil, err
	case typ == uapi.QPTypeXRCTgt && k.f.dev.xrc:
		return k.targetAttrs()
	case typ == uapi.QPTypeXRCTgt:
		// the XRC domain is missing
		return nil, kernel.Refuse(unix.ENOENT, "xrcd", "this device has no XRC domains", "use IBV_QPT_RC")
	case !knownQPType(typ):
		return nil, kernel.Refuse(unix.EINVAL, "qp_type", "unknown", "use IBV_QPT_RC, IBV_QPT_UC or IBV_QPT_UD")
	}
	pd, scq, rcq := s.Object(uapi.AttrCreateQPPD), s.Object(uapi.AttrCreateQPSendCQ), s.Object(uapi.AttrCreateQPRecvCQ)
	if pd == nil || scq == nil || rcq == nil && typ != uapi.QPTypeXRCIni {
		return nil, kernel.Refuse(unix.ENOENT, "pd, send_cq or recv_cq", "is missing", "name all three")
	}
	flags, err := s.Flags(uapi.AttrCreateQPFlags, uapi.QPCreateBlockMulticastLoopback|uapi.QPCreateScatterFCS|
		uapi.QPCreateCVLANStripping|uapi.QPCreatePCIWriteEndPadding|uapi.QPCreateSQSigAll)
	if err != nil {
		return nil, err
	}
	req := &newQP{
		user: s.U64(uapi.AttrCreateQPUserHandle), typ: typ,
		flags: flags &^ uapi.QPCreateSQSigAll, sigAll: flags&uapi.QPCreateSQSigAll != 0,
		cap:   rxe.QPCap(uapi.Load[uapi.QPCap](s.Get(uapi.AttrCreateQPCap).Data)),
		pd:    pd.Res.(*pdRes),
		async: k.asyncAttr(uapi.AttrCreateQPEventFD),
	}
	if err := checkCreateFlags(typ, req.flags); err != nil {
		return nil, err
	}
	if s.Get(uapi.AttrCreateQPSourceQPN) != nil {
		return nil, kernel.Refuse(unix.EOPNOTSUPP, "source_qpn", "this device does not let programs choose it", "leave it out")
	}
	req.sendCQ = scq.Res.(*cqRes)
	if rcq != nil && typ != uapi.QPTypeXRCIni {
		req.recvCQ = rcq.Res.(*cqRes)
	}
	if srq := s.Object(uapi.AttrCreateQPSRQ); srq != nil {
		req.srq = srq.Res.(*srqRes)
	}
	return req, nil
}

// checkCreateFlags is check_creation_flags of uverbs_std_types_qp.c.
func checkCreateFlags(typ uint64, flags uint32) error {
	switch {
	case flags == 0 || typ == uapi.QPTypeDriver:
		return nil
	case typ != uapi.QPTypeRawPacket && typ != uapi.QPTypeUD:
		return kernel.Refuse(unix.EINVAL, "create_flags", "not for this type of queue pair", "leave them out")
	case flags&(uapi.QPCreateScatterFCS|uapi.QPCreateCVLANStripping) != 0 && typ != uapi.QPTypeRawPacket:
		return kernel.Refuse(unix.EINVAL, "create_flags", "only for raw packets", "leave them out")
	}
	return nil
}
