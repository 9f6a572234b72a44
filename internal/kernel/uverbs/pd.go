package uverbs

import (
	"github.com/gorxe/gorxe/internal/kernel/uapi"
	"github.com/gorxe/gorxe/rxe"
)

// pdRes is a protection domain.
type pdRes struct{ pd *rxe.PD }

func (r *pdRes) destroy(*object, bool) error { return r.pd.Dealloc() }

func writeAllocPD(k *call) error {
	if _, err := request[uapi.AllocPDReq](k); err != nil {
		return err
	}
	o, err := k.make(uapi.ObjPD)
	if err != nil {
		return err
	}
	pd, err := k.f.dev.rxe.AllocPD()
	if err != nil {
		return err
	}
	o.res = &pdRes{pd}
	return respond(k, uapi.AllocPDResp{PDHandle: o.handle})
}
