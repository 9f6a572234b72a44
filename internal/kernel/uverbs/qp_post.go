package uverbs

import (
	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/kernel"
	"github.com/gorxe/gorxe/internal/kernel/dispatch"
	"github.com/gorxe/gorxe/internal/kernel/uapi"
)

// writePostSend is the doorbell: librxe has put its work requests into the send
// queue, and sends none here. Those that another program might send are checked
// for their form and otherwise ignored, as by rdma_rxe, whose users' queues are
// always in shared memory (rxe_post_send).
//
// This is the hot path: one read of the program's memory, which the caller has
// done, and no allocation.
func writePostSend(k *call) error {
	req := uapi.Load[uapi.PostSendReq](k.In)
	if err := checkPostSend(&req, k.In[uapi.SizeOf[uapi.PostSendReq]():]); err != nil {
		return err
	}
	o, err := k.f.objects.Find(uapi.ObjQP, uint64(req.QPHandle))
	switch {
	case err != nil:
		return err
	case k.f.gone():
		return unix.EIO
	}
	live := o.Doorbell.Load()
	if live == nil {
		// it has just been destroyed
		return kernel.Refuse(unix.ENOENT, "qp", "is destroyed", "post before destroy_qp")
	}
	r := (*live).(*qpRes)
	if err := k.f.faults.Pass("post_send"); err != nil {
		r.mem.Discard()
		return err
	}
	if k.f.watcher != nil {
		k.f.rung.Store(o)
		k.f.watcher.Posting(r.qp, k.Caller)
	} else if req.WRCount == 0 && k.Size > 0 {
		// Nothing else will be read or written, not even the response, whose one field is
		// 0. The engine may block in the memory of another program.
		k.Caller.Answer(k.Size)
	}
	err = r.mem.Doorbell()
	if k.f.watcher != nil {
		k.f.watcher.Rang(r.qp)
	}
	if req.WRCount == 0 {
		return err
	}
	resp := uapi.PostSendResp{}
	if err != nil {
		resp.BadWR = 1
	}
	if e := dispatch.Respond(&k.Call, resp); e != nil {
		return e
	}
	return err
}

// checkPostSend reports whether rest holds the work requests and gather lists announced,
// and nothing else (uverbs_cmd.c:ib_uverbs_post_send).
func checkPostSend(req *uapi.PostSendReq, rest []byte) error {
	want := uint64(req.WRCount) * uint64(req.WQESize)
	have := uint64(len(rest))
	if want > have {
		return unix.ENOSPC
	}
	want += uint64(req.SGECount) * uint64(uapi.SizeOf[uapi.SGE]())
	switch {
	case want > have:
		return unix.ENOSPC
	case !dispatch.IsZero(rest[want:]):
		return unix.EOPNOTSUPP
	case req.WQESize < uapi.SendWRSize:
		return kernel.Refuse(unix.EINVAL, "wqe_size", "is too small", "use headers and libraries that belong together")
	}
	return nil
}
