package uverbs

import (
	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/kernel"
	"github.com/gorxe/gorxe/internal/kernel/dispatch"
	"github.com/gorxe/gorxe/internal/kernel/uapi"
	"github.com/gorxe/gorxe/rxe"
	"github.com/gorxe/gorxe/wire"
)

// standardAttrs are the bits of struct ib_uverbs_modify_qp
// (IB_QP_ATTR_STANDARD_BITS).
const standardAttrs = 1<<21 - 1

func writeModifyQP(k *call, req *uapi.ModifyQPReq) error {
	if req.AttrMask&^standardAttrs != 0 {
		return kernel.Refuse(unix.EOPNOTSUPP, "attr_mask", "has unknown bits", "use enum ibv_qp_attr_mask")
	}
	return k.modifyQP(req)
}

func writeExModifyQP(k *call, req *uapi.ExModifyQPReq) error {
	// A rate limit is known to the kernel, and not to rdma_rxe.
	if req.Base.AttrMask&^standardAttrs != 0 {
		return kernel.Refuse(unix.EOPNOTSUPP, "attr_mask", "rate_limit or unknown bits", "leave out IBV_QP_RATE_LIMIT")
	}
	if err := k.modifyQP(&req.Base); err != nil {
		return err
	}
	return dispatch.Respond(&k.Call, uapi.ExModifyQPResp{ResponseLength: dispatch.ResponseLength[uapi.ExModifyQPResp](&k.Call)})
}

// ignoredAttrs are what programs set of a half of XRC that does not have it (uverbs_cmd.c:
// modify_qp_mask).
var ignoredAttrs = map[rxe.QPType]rxe.QPAttrMask{
	rxe.QPXRCIni: rxe.QPAttrMaxDestRdAtomic | rxe.QPAttrMinRNRTimer,
	rxe.QPXRCTgt: rxe.QPAttrMaxRdAtomic | rxe.QPAttrRetryCnt | rxe.QPAttrRNRRetry,
}

// modifyQP is uverbs_cmd.c:modify_qp and rxe_modify_qp.
func (k *call) modifyQP(req *uapi.ModifyQPReq) error {
	r, err := dispatch.Held[*qpRes](&k.Call, uapi.ObjQP, req.QPHandle)
	if err != nil {
		return err
	}
	mask := rxe.QPAttrMask(req.AttrMask) &^ ignoredAttrs[r.qp.Type()]
	if err := k.f.dev.checkModify(req, mask); err != nil {
		return err
	}
	if err := k.checkQKey(req.QKey, mask); err != nil {
		return err
	}
	attr := engineQPAttr(req)
	err = r.mem.Modify(udata{k}, &attr, mask)
	if k.f.watcher != nil && err == nil {
		k.f.watcher.Modified(r.qp, &attr, mask, k.Caller)
	}
	if err == nil && mask&rxe.QPAttrState != 0 {
		k.f.moved(r.qp.Num(), attr.State.String())
	}
	return err
}

// privilegedQKey is the bit of a controlled Q_Key (IBA 10.2.5; kernel: IB_QP_SET_QKEY).
const privilegedQKey = 1 << 31

// checkQKey refuses a controlled Q_Key, such as that of queue pair 1, unless the caller may send
// raw packets (uverbs_cmd.c:modify_qp since Linux 6.5). A datagram has such a Q_Key only if its
// queue pair has it: rxe ignores that of the work request (IBA 10.2.5).
func (k *call) checkQKey(qkey uint32, mask rxe.QPAttrMask) error {
	if mask&rxe.QPAttrQKey != 0 && qkey&privilegedQKey != 0 && !k.Caller.NetRaw() {
		return kernel.Refuse(unix.EPERM, "qkey", "has the top bit set, which needs CAP_NET_RAW", "use a Q_Key below 0x80000000")
	}
	return nil
}

// checkModify is what comes before the engine's own checks.
func (d *Device) checkModify(req *uapi.ModifyQPReq, mask rxe.QPAttrMask) error {
	switch {
	case mask&rxe.QPAttrPort != 0 && req.PortNum != thePort:
		return kernel.Refuse(unix.EINVAL, "port_num", "is not 1", "use port 1, the only one")
	case mask&rxe.QPAttrAltPath != 0: // not on RoCE
		return kernel.Refuse(unix.EINVAL, "alt_ah_attr", "not on RoCE", "leave out IBV_QP_ALT_PATH")
	case mask&rxe.QPAttrCurState != 0 && req.CurQPState > uint8(rxe.QPErr):
		return kernel.Refuse(unix.EINVAL, "cur_qp_state", "is no state", "use enum ibv_qp_state")
	case mask&rxe.QPAttrState != 0 && req.QPState > uint8(rxe.QPErr):
		return kernel.Refuse(unix.EINVAL, "qp_state", "is no state", "use enum ibv_qp_state")
	case mask&rxe.QPAttrPathMTU != 0 && rxe.MTUOf(req.PathMTU) == 0:
		return kernel.Refuse(unix.EINVAL, "path_mtu", "is not 256, 512, 1024, 2048 or 4096", "use a value of enum ibv_mtu")
	}
	if mask&rxe.QPAttrAV != 0 {
		ah := engineDest(&req.Dest)
		return d.checkAddress(req.Dest.IsGlobal != 0, &ah)
	}
	return nil
}

// engineQPAttr returns the request as the engine has it. Numbers of 24 bits are cut to
// that, and rights that say nothing about a QP are ignored, as by the kernel.
func engineQPAttr(req *uapi.ModifyQPReq) rxe.QPAttr {
	return rxe.QPAttr{
		State:           rxe.QPState(req.QPState),
		CurState:        rxe.QPState(req.CurQPState),
		PathMTU:         rxe.MTUOf(req.PathMTU),
		QKey:            req.QKey,
		RQPSN:           wire.PSN(req.RQPSN) & wire.PSNMask,
		SQPSN:           wire.PSN(req.SQPSN) & wire.PSNMask,
		DestQPN:         wire.QPN(req.DestQPNum) & wire.QPNMask,
		Access:          rxe.Access(req.QPAccessFlags) & accessKnown,
		AH:              engineDest(&req.Dest),
		PKeyIndex:       req.PKeyIndex,
		EnSQDNotify:     req.EnSQDAsyncNotify != 0,
		MaxRdAtomic:     req.MaxRdAtomic,
		MaxDestRdAtomic: req.MaxDestRdAtomic,
		MinRNRTimer:     req.MinRNRTimer & 31,
		PortNum:         req.PortNum,
		Timeout:         req.Timeout,
		RetryCnt:        req.RetryCnt,
		RNRRetry:        req.RNRRetry,
		PathMigState:    req.PathMigState,
	}
}

// mtuEnum of a QP whose MTU was not set is the smallest, as with rdma_rxe.
func mtuEnum(m rxe.MTU) uint8 {
	return max(m.Enum(), 1)
}

func writeQueryQP(k *call, req *uapi.QueryQPReq) error {
	r, err := dispatch.Held[*qpRes](&k.Call, uapi.ObjQP, req.QPHandle)
	if err != nil {
		return err
	}
	a, init, err := r.qp.Query()
	if err != nil {
		return err
	}
	return dispatch.Respond(&k.Call, uapi.QueryQPResp{
		Dest:            destOf(&a.AH),
		AltDest:         destOf(&rxe.AHAttr{}),
		MaxSendWR:       init.Cap.MaxSendWR,
		MaxRecvWR:       init.Cap.MaxRecvWR,
		MaxSendSGE:      init.Cap.MaxSendSGE,
		MaxRecvSGE:      init.Cap.MaxRecvSGE,
		MaxInlineData:   init.Cap.MaxInlineData,
		QKey:            a.QKey,
		RQPSN:           uint32(a.RQPSN),
		SQPSN:           uint32(a.SQPSN),
		DestQPNum:       uint32(a.DestQPN),
		QPAccessFlags:   uint32(a.Access),
		PKeyIndex:       a.PKeyIndex,
		QPState:         uint8(a.State),
		CurQPState:      uint8(a.CurState),
		PathMTU:         mtuEnum(a.PathMTU),
		SQDraining:      uapi.BoolByte(a.SQDraining),
		MaxRdAtomic:     a.MaxRdAtomic,
		MaxDestRdAtomic: a.MaxDestRdAtomic,
		MinRNRTimer:     a.MinRNRTimer,
		PortNum:         a.PortNum,
		Timeout:         a.Timeout,
		RetryCnt:        a.RetryCnt,
		RNRRetry:        a.RNRRetry,
		SQSigAll:        uapi.BoolByte(init.SignalAll),
	})
}
