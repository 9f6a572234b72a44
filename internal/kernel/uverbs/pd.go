package uverbs

import (
	"github.com/gorxe/gorxe/internal/kernel/dispatch"
	"github.com/gorxe/gorxe/internal/kernel/uapi"
	"github.com/gorxe/gorxe/rxe"
)

// pdRes is a protection domain.
type pdRes struct {
	pd     *rxe.PD
	number uint32
}

func (r *pdRes) Destroy(*dispatch.Object, bool) error { return r.pd.Dealloc() }

func writeAllocPD(k *call, _ *uapi.AllocPDReq) error {
	o, err := k.Make(uapi.ObjPD)
	if err != nil {
		return err
	}
	pd, err := k.f.sub.AllocPD()
	if err != nil {
		return err
	}
	o.Res = &pdRes{pd, k.f.dev.numbers.pds.Add(1)}
	if err := k.f.ctx.CreatedPD(udata{k}, pd, o.Handle); err != nil {
		return err
	}
	return dispatch.Respond(&k.Call, uapi.AllocPDResp{PDHandle: o.Handle})
}
