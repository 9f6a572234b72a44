package uverbs

import (
	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/kernel"
	"github.com/gorxe/gorxe/internal/kernel/dispatch"
	"github.com/gorxe/gorxe/internal/kernel/uapi"
	"github.com/gorxe/gorxe/internal/provider"
	"github.com/gorxe/gorxe/rxe"
)

// cqRes is a completion queue.
type cqRes struct {
	f       *File
	cq      *rxe.CQ
	mem     provider.CQ
	channel *channel // nil: nobody is told of completions
	number  uint32
}

func (r *cqRes) Destroy(o *dispatch.Object, _ bool) error {
	if err := r.cq.Destroy(); err != nil {
		return err
	}
	r.f.dev.disown(r.cq, o)
	r.mem.Free()
	if r.channel != nil {
		o.CompReported, _ = r.channel.Forget(o)
	}
	return nil
}

// newCQ is a request for a CQ, whichever way it came.
type newCQ struct {
	user       uint64
	cqe        uint32
	compVector uint32
	flags      uint32
	channel    *channel
	async      *asyncFD
}

// createCQ is rxe_create_cq and what its callers have in common. The queue's
// place goes to the provider; the answer to the program itself is the caller's.
func (k *call) createCQ(o *dispatch.Object, req *newCQ) (*cqRes, error) {
	if req.compVector >= k.f.dev.compVectors {
		return nil, kernel.Refuse(unix.EINVAL, "comp_vector", "exceeds num_comp_vectors", "use 0")
	}
	ask := provider.CQRequest{Handle: o.Handle, Entries: req.cqe, Flags: req.flags}
	if ch := req.channel; ch != nil {
		ask.Notify = func() { ch.notify(o.User, o) }
	}
	mem, err := k.f.ctx.NewCQ(udata{k}, ask)
	if err != nil {
		return nil, err
	}
	o.User = req.user
	setAsync(o, req.async)
	r := &cqRes{f: k.f, channel: req.channel, mem: mem, number: k.f.dev.numbers.cqs.Add(1)}
	init := rxe.CQInit{Entries: min(mem.Entries(), int(k.f.sub.Attr().MaxCQE)), Ring: mem.Ring()}
	if ask.Notify != nil {
		init.OnCompletion = func(*rxe.CQ) { ask.Notify() }
	}
	if r.cq, err = k.f.sub.CreateCQ(init); err != nil {
		mem.Free()
		return nil, err
	}
	k.f.dev.own(r.cq, o)
	o.Res = r
	return r, mem.Created(udata{k}, r.cq)
}

func (r *cqRes) entries() uint32 { return uint32(r.mem.Entries()) }

func writeCreateCQ(k *call, req *uapi.CreateCQReq) error {
	o, r, err := k.createCQByWrite(&newCQ{user: req.UserHandle, cqe: req.CQE, compVector: req.CompVector}, req.CompChannel)
	if err != nil {
		return err
	}
	return dispatch.Respond(&k.Call, uapi.CreateCQResp{CQHandle: o.Handle, CQE: r.entries()})
}

func writeExCreateCQ(k *call, req *uapi.ExCreateCQReq) error {
	if req.CompMask != 0 || req.Reserved != 0 {
		return kernel.Refuse(unix.EINVAL, "comp_mask", "has unknown bits", "use headers and libraries that belong together")
	}
	n := &newCQ{user: req.UserHandle, cqe: req.CQE, compVector: req.CompVector, flags: req.Flags}
	o, r, err := k.createCQByWrite(n, req.CompChannel)
	if err != nil {
		return err
	}
	return dispatch.Respond(&k.Call, uapi.ExCreateCQResp{
		Base:           uapi.CreateCQResp{CQHandle: o.Handle, CQE: r.entries()},
		ResponseLength: dispatch.ResponseLength[uapi.ExCreateCQResp](&k.Call),
	})
}

// createCQByWrite finds what the write() forms name by number.
func (k *call) createCQByWrite(req *newCQ, channelFD int32) (*dispatch.Object, *cqRes, error) {
	if req.compVector >= k.f.dev.compVectors {
		return nil, nil, kernel.Refuse(unix.EINVAL, "comp_vector", "exceeds num_comp_vectors", "use 0")
	}
	o, err := k.Make(uapi.ObjCQ)
	if err != nil {
		return nil, nil, err
	}
	if channelFD >= 0 {
		e, err := k.EventFile(uint64(channelFD), uapi.ObjCompChannel)
		if err != nil {
			return nil, nil, err
		}
		req.channel = e.(*channel)
	}
	req.async = k.f.events.defaultAsync()
	r, err := k.createCQ(o, req)
	return o, r, err
}

func ioctlCreateCQ(k *call) error {
	flags, err := k.Attrs.Flags(uapi.AttrCreateCQFlags, uapi.CQFlagTimestamp|uapi.CQFlagIgnoreOverrun)
	if err != nil {
		return err
	}
	req := &newCQ{
		user:       k.Attrs.U64(uapi.AttrCreateCQUserHandle),
		cqe:        k.Attrs.U32(uapi.AttrCreateCQCQE),
		compVector: k.Attrs.U32(uapi.AttrCreateCQCompVector),
		flags:      flags,
		async:      k.asyncAttr(uapi.AttrCreateCQEventFD),
	}
	if a := k.Attrs.Get(uapi.AttrCreateCQCompChannel); a != nil {
		req.channel = a.File.(*channel)
	}
	r, err := k.createCQ(k.Attrs.Object(uapi.AttrCreateCQHandle), req)
	if err != nil {
		return err
	}
	return dispatch.Put(&k.Call, uapi.AttrCreateCQRespCQE, r.entries())
}

// asyncAttr is where an object's events go (ib_uverbs_get_async_event).
func (k *call) asyncAttr(id uint16) *asyncFD {
	if a := k.Attrs.Get(id); a != nil {
		return a.File.(*asyncFD)
	}
	return k.f.events.defaultAsync()
}

func writeResizeCQ(k *call, req *uapi.ResizeCQReq) error {
	r, err := dispatch.Held[*cqRes](&k.Call, uapi.ObjCQ, req.CQHandle)
	if err != nil {
		return err
	}
	// The queue changes at once. See first that the program can be told.
	if err := r.mem.CheckResize(udata{k}, req.CQE); err != nil {
		return err
	}
	if err := k.Probe(&k.Out, uapi.SizeOf[uapi.ResizeCQResp]()); err != nil {
		return err
	}
	if err := r.mem.Resize(udata{k}, req.CQE); err != nil {
		return err
	}
	return dispatch.Respond(&k.Call, uapi.ResizeCQResp{CQE: r.entries()})
}

func writeReqNotifyCQ(k *call, req *uapi.ReqNotifyCQReq) error {
	r, err := dispatch.Held[*cqRes](&k.Call, uapi.ObjCQ, req.CQHandle)
	if err != nil {
		return err
	}
	r.mem.Arming()
	return r.cq.ReqNotify(req.SolicitedOnly != 0)
}

func writeDestroyCQ(k *call, req *uapi.DestroyReq) error {
	o, err := k.Destroy(uapi.ObjCQ, uint64(req.Handle))
	if err != nil {
		return err
	}
	return dispatch.Respond(&k.Call, cqEvents(k, o))
}

func ioctlDestroyCQ(k *call) error {
	return dispatch.Put(&k.Call, uapi.AttrDestroyResp, cqEvents(k, k.Attrs.Object(uapi.AttrDestroyHandle)))
}

func cqEvents(k *call, o *dispatch.Object) uapi.DestroyCQResp {
	forgive(k.Caller, o)
	return uapi.DestroyCQResp{CompEventsReported: o.CompReported, AsyncEventsReported: o.AsyncReported}
}
