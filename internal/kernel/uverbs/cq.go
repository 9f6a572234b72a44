package uverbs

import (
	"golang.org/x/sys/unix"

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
}

func (r *cqRes) destroy(o *object, _ bool) error {
	if err := r.cq.Destroy(); err != nil {
		return err
	}
	r.f.dev.disown(r.cq)
	r.mem.Free()
	if r.channel != nil {
		o.compReported = r.channel.Forget(o)
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
func (k *call) createCQ(o *object, req *newCQ) (*cqRes, error) {
	if req.compVector >= k.f.dev.compVectors {
		return nil, unix.EINVAL
	}
	mem, err := k.f.ctx.NewCQ(udata{k}, provider.CQRequest{Handle: o.handle, Entries: req.cqe, Flags: req.flags})
	if err != nil {
		return nil, err
	}
	o.user, o.async = req.user, req.async
	r := &cqRes{f: k.f, channel: req.channel, mem: mem}
	init := rxe.CQInit{Entries: min(mem.Entries(), int(k.f.dev.rxe.Attr().MaxCQE)), Ring: mem.Ring()}
	if ch := req.channel; ch != nil {
		init.OnCompletion = func(*rxe.CQ) { ch.notify(o.user, o) }
	}
	if r.cq, err = k.f.dev.rxe.CreateCQ(init); err != nil {
		mem.Free()
		return nil, err
	}
	k.f.dev.own(r.cq, o)
	o.res = r
	return r, mem.Created(udata{k}, r.cq)
}

func (r *cqRes) entries() uint32 { return uint32(r.mem.Entries()) }

func writeCreateCQ(k *call) error {
	req, err := request[uapi.CreateCQReq](k)
	if err != nil {
		return err
	}
	o, r, err := k.createCQByWrite(&newCQ{user: req.UserHandle, cqe: req.CQE, compVector: req.CompVector}, req.CompChannel)
	if err != nil {
		return err
	}
	return respond(k, uapi.CreateCQResp{CQHandle: o.handle, CQE: r.entries()})
}

func writeExCreateCQ(k *call) error {
	req, err := request[uapi.ExCreateCQReq](k)
	if err != nil {
		return err
	}
	if req.CompMask != 0 || req.Reserved != 0 {
		return unix.EINVAL
	}
	n := &newCQ{user: req.UserHandle, cqe: req.CQE, compVector: req.CompVector, flags: req.Flags}
	o, r, err := k.createCQByWrite(n, req.CompChannel)
	if err != nil {
		return err
	}
	return respond(k, uapi.ExCreateCQResp{
		Base:           uapi.CreateCQResp{CQHandle: o.handle, CQE: r.entries()},
		ResponseLength: responseLength[uapi.ExCreateCQResp](k),
	})
}

// createCQByWrite finds what the write() forms name by number.
func (k *call) createCQByWrite(req *newCQ, channelFD int32) (*object, *cqRes, error) {
	if req.compVector >= k.f.dev.compVectors {
		return nil, nil, unix.EINVAL
	}
	o, err := k.make(uapi.ObjCQ)
	if err != nil {
		return nil, nil, err
	}
	if channelFD >= 0 {
		e, err := k.eventFiles(uint64(channelFD), uapi.ObjCompChannel)
		if err != nil {
			return nil, nil, err
		}
		req.channel = e.channel
	}
	req.async = k.f.events.defaultAsync()
	r, err := k.createCQ(o, req)
	return o, r, err
}

func ioctlCreateCQ(k *call) error {
	flags, err := k.attrs.flags(uapi.AttrCreateCQFlags, uapi.CQFlagTimestamp|uapi.CQFlagIgnoreOverrun)
	if err != nil {
		return err
	}
	req := &newCQ{
		user:       k.attrs.u64(uapi.AttrCreateCQUserHandle),
		cqe:        k.attrs.u32(uapi.AttrCreateCQCQE),
		compVector: k.attrs.u32(uapi.AttrCreateCQCompVector),
		flags:      flags,
		async:      k.asyncAttr(uapi.AttrCreateCQEventFD),
	}
	if a := k.attrs.get(uapi.AttrCreateCQCompChannel); a != nil {
		req.channel = a.files.channel
	}
	r, err := k.createCQ(k.attrs.object(uapi.AttrCreateCQHandle), req)
	if err != nil {
		return err
	}
	return put(k, uapi.AttrCreateCQRespCQE, r.entries())
}

// asyncAttr is where an object's events go (ib_uverbs_get_async_event).
func (k *call) asyncAttr(id uint16) *asyncFD {
	if a := k.attrs.get(id); a != nil {
		return a.files.async
	}
	return k.f.events.defaultAsync()
}

func writeResizeCQ(k *call) error {
	req, err := request[uapi.ResizeCQReq](k)
	if err != nil {
		return err
	}
	r, err := held[*cqRes](k, uapi.ObjCQ, req.CQHandle)
	if err != nil {
		return err
	}
	// The queue changes at once. See first that the program can be told.
	if err := r.mem.CheckResize(udata{k}, req.CQE); err != nil {
		return err
	}
	if err := k.probe(&k.out, uapi.SizeOf[uapi.ResizeCQResp]()); err != nil {
		return err
	}
	if err := r.mem.Resize(udata{k}, req.CQE); err != nil {
		return err
	}
	return respond(k, uapi.ResizeCQResp{CQE: r.entries()})
}

func writeReqNotifyCQ(k *call) error {
	req, err := request[uapi.ReqNotifyCQReq](k)
	if err != nil {
		return err
	}
	r, err := held[*cqRes](k, uapi.ObjCQ, req.CQHandle)
	if err != nil {
		return err
	}
	r.mem.Arming()
	return r.cq.ReqNotify(req.SolicitedOnly != 0)
}

func writeDestroyCQ(k *call) error {
	req, err := request[uapi.DestroyReq](k)
	if err != nil {
		return err
	}
	o, err := k.destroy(uapi.ObjCQ, uint64(req.Handle))
	if err != nil {
		return err
	}
	return respond(k, o.cqEvents())
}

func ioctlDestroyCQ(k *call) error {
	return put(k, uapi.AttrDestroyResp, k.attrs.object(uapi.AttrDestroyHandle).cqEvents())
}

func (o *object) cqEvents() uapi.DestroyCQResp {
	return uapi.DestroyCQResp{CompEventsReported: o.compReported, AsyncEventsReported: o.asyncReported}
}
