package uverbs

import (
	"github.com/gorxe/gorxe/internal/kernel/uapi"
	"github.com/gorxe/gorxe/rxe"
)

// mwRes is a memory window.
type mwRes struct {
	f    *File
	mw   *rxe.MW
	rkey uint32 // when it was made; binds change the low byte
}

func (r *mwRes) destroy(*object, bool) error {
	if err := r.mw.Dealloc(); err != nil {
		return err
	}
	r.f.keys.dropMW(r.rkey)
	return nil
}

func writeAllocMW(k *call) error {
	req, err := request[uapi.AllocMWReq](k)
	if err != nil {
		return err
	}
	o, err := k.make(uapi.ObjMW)
	if err != nil {
		return err
	}
	pd, err := held[*pdRes](k, uapi.ObjPD, req.PDHandle)
	if err != nil {
		return err
	}
	mw, err := pd.pd.AllocMW(rxe.MWType(req.MWType))
	if err != nil {
		return err
	}
	rkey := uint32(mw.RKey())
	o.res = &mwRes{k.f, mw, rkey}
	k.f.keys.addMW(mw)
	return respond(k, uapi.AllocMWResp{MWHandle: o.handle, RKey: rkey})
}
