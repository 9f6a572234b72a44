package ucma

import (
	"github.com/gorxe/gorxe/internal/kernel/uapi"
	"github.com/gorxe/gorxe/rxe"
)

// initQPAttr answers INIT_QP_ATTR: what the program sets before its queue pair enters a
// state.
func (k *call) initQPAttr(req *uapi.UcmaInitQPAttrReq) error {
	if req.QPState > uint32(rxe.QPErr) {
		return malformed("qp_state", "is no state of a queue pair")
	}
	c, err := k.findBound(req.ID)
	if err != nil {
		return err
	}
	a, mask, err := c.id.QPAttr(rxe.QPState(req.QPState))
	if err != nil {
		return err
	}
	resp := userQPAttr(&a, mask)
	return respond(k, req.Response, &resp)
}

// userQPAttr is ib_copy_qp_attr_to_user.
func userQPAttr(a *rxe.QPAttr, mask rxe.QPAttrMask) uapi.QPAttr {
	return uapi.QPAttr{
		QPAttrMask: uint32(mask), QPState: uint32(a.State), CurQPState: uint32(a.CurState),
		PathMTU: uint32(a.PathMTU.Enum()), QKey: a.QKey,
		RQPSN: uint32(a.RQPSN), SQPSN: uint32(a.SQPSN), DestQPNum: uint32(a.DestQPN),
		QPAccessFlags: uint32(a.Access), AHAttr: ahAttr(&a.AH),
		PKeyIndex: a.PKeyIndex, MaxRdAtomic: a.MaxRdAtomic, MaxDestRdAtomic: a.MaxDestRdAtomic,
		MinRNRTimer: a.MinRNRTimer, PortNum: a.PortNum, Timeout: a.Timeout,
		RetryCnt: a.RetryCnt, RNRRetry: a.RNRRetry,
	}
}

// ahAttr is ib_copy_ah_attr_to_user. On RoCE an address that is set has a GRH.
func ahAttr(a *rxe.AHAttr) uapi.AHAttr {
	return uapi.AHAttr{
		DGID: a.DGID, FlowLabel: a.FlowLabel, SGIDIndex: a.SGIDIndex, HopLimit: a.HopLimit,
		TrafficClass: a.TrafficClass, SL: a.SL, StaticRate: a.StaticRate, PortNum: a.PortNum,
		IsGlobal: uapi.BoolByte(!a.DGID.IsZero()),
	}
}
