package uverbs

import (
	"maps"
	"slices"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/kernel"
	"github.com/gorxe/gorxe/internal/kernel/dispatch"
	"github.com/gorxe/gorxe/internal/kernel/uapi"
	"github.com/gorxe/gorxe/internal/provider"
	"github.com/gorxe/gorxe/internal/quota"
	"github.com/gorxe/gorxe/rxe"
	"github.com/gorxe/gorxe/wire"
)

// XRC is for drivers that have it (provider.XRC). Other devices keep the tables of rdma_rxe, which
// has no XRC.

// withXRC adds the methods and commands of XRC to the tables of a device.
func withXRC(t dispatch.Tables) dispatch.Tables {
	t.Methods, t.Absent = maps.Clone(t.Methods), maps.Clone(t.Absent)
	delete(t.Absent, uapi.ObjXRCD)
	destroy := destroyMethod("XRCD_DESTROY", uapi.ObjXRCD, destroyed)
	destroy.Verb = verbOf(destroy.Name)
	t.Methods[dispatch.MethodKey{Object: uapi.ObjXRCD, Method: uapi.MethodXRCDDestroy}] = destroy
	t.Commands = append(slices.Clone(t.Commands), dispatch.Command{})
	for n, c := range map[int]dispatch.Command{
		uapi.CmdOpenXRCD:  withUHW(talk[uapi.OpenXRCDReq, uapi.OpenXRCDResp]("OPEN_XRCD", reading(writeOpenXRCD))),
		uapi.CmdCloseXRCD: plain[uapi.HandleReq]("CLOSE_XRCD", destroyer(uapi.ObjXRCD)),
		uapi.CmdOpenQP:    withUHW(talk[uapi.OpenQPReq, uapi.CreateQPResp]("OPEN_QP", reading(writeOpenQP))),
	} {
		c.Verb = verbOf(c.Name)
		t.Commands[n] = c
	}
	return t
}

// xrcdRes is an XRC domain, as one program has opened it.
type xrcdRes struct {
	f     *File
	xrcd  *rxe.XRCD
	file  int          // keeps the inode, so that no other file gets its number; -1: none
	users atomic.Int32 // SRQs and queue pairs of this program
}

// inode names the file of a domain for the engine.
type inode struct {
	dev uint64
	ino uint64
}

// Destroy is ib_uverbs_dealloc_xrcd: the domain lives as long as a program has it open.
func (r *xrcdRes) Destroy(_ *dispatch.Object, closing bool) error {
	if !closing && r.users.Load() > 0 {
		return rxe.ErrBusy
	}
	if err := r.xrcd.Close(); err != nil {
		return err
	}
	r.closeFile()
	return nil
}

func (r *xrcdRes) closeFile() {
	if r.file >= 0 {
		unix.Close(r.file)
		r.f.budget.Give(quota.Cost{Files: 1})
		r.file = -1
	}
}

// leave is for an SRQ or a queue pair that ends. r may be nil: it had no domain.
func (r *xrcdRes) leave() {
	if r != nil {
		r.users.Add(-1)
	}
}

// writeOpenXRCD is uverbs_cmd.c:ib_uverbs_open_xrcd. fd -1 is a domain of the program's own.
func writeOpenXRCD(k *call, req *uapi.OpenXRCDReq) error {
	o, err := k.Make(uapi.ObjXRCD)
	if err != nil {
		return err
	}
	r := &xrcdRes{f: k.f, file: -1}
	init := rxe.XRCDInit{Create: req.OFlags&unix.O_CREAT != 0, Exclusive: req.OFlags&unix.O_EXCL != 0}
	if fd := int32(req.FD); fd != -1 {
		file, err := r.take(k, fd)
		if err != nil {
			return err
		}
		init.File = file
	}
	if r.xrcd, err = k.f.sub.OpenXRCD(init); err != nil {
		r.closeFile()
		return err
	}
	o.Res = r
	return dispatch.Respond(&k.Call, uapi.OpenXRCDResp{XRCDHandle: o.Handle})
}

// take takes a descriptor of the program and returns the inode of its file.
func (r *xrcdRes) take(k *call, fd int32) (inode, error) {
	if err := r.f.budget.Take(quota.Cost{Files: 1}); err != nil {
		return inode{}, err
	}
	file, err := k.Caller.TakeFD(fd)
	if err != nil {
		r.f.budget.Give(quota.Cost{Files: 1})
		return inode{}, err
	}
	r.file = file
	var st unix.Statx_t
	// The file system of the program may be one that does not answer, so it is not asked.
	if err := unix.Statx(file, "", unix.AT_EMPTY_PATH|unix.AT_STATX_DONT_SYNC, unix.STATX_INO, &st); err != nil {
		r.closeFile()
		return inode{}, err
	}
	return inode{unix.Mkdev(st.Dev_major, st.Dev_minor), st.Ino}, nil
}

// createTargetByWrite finds the domain that CREATE_QP names in place of a protection domain.
func (k *call) createTargetByWrite(o *dispatch.Object, req *newQP, domain uint32) (r *qpRes, err error) {
	if req.xrcd, err = dispatch.Held[*xrcdRes](&k.Call, uapi.ObjXRCD, domain); err != nil {
		return nil, err
	}
	req.cap = rxe.QPCap{}
	return k.createQP(o, req)
}

// targetAttrs reads the attributes of QP_CREATE for a target.
func (k *call) targetAttrs() (*newQP, error) {
	s := &k.Attrs
	x := s.Object(uapi.AttrCreateQPXRCD)
	switch {
	case s.Object(uapi.AttrCreateQPPD) != nil, s.Object(uapi.AttrCreateQPSendCQ) != nil, s.Object(uapi.AttrCreateQPRecvCQ) != nil:
		return nil, kernel.Refuse(unix.EINVAL, "pd, send_cq or recv_cq", "a target has none", "leave it out")
	case x == nil:
		return nil, unix.ENOENT
	}
	return &newQP{
		user: s.U64(uapi.AttrCreateQPUserHandle), typ: uapi.QPTypeXRCTgt,
		xrcd: x.Res.(*xrcdRes), async: k.asyncAttr(uapi.AttrCreateQPEventFD),
	}, nil
}

// writeOpenQP is uverbs_cmd.c:ib_uverbs_open_qp: a program opens the target of another one. The
// target ends when all programs have destroyed it.
func writeOpenQP(k *call, req *uapi.OpenQPReq) error {
	o, err := k.Make(uapi.ObjQP)
	if err != nil {
		return err
	}
	x, err := dispatch.Held[*xrcdRes](&k.Call, uapi.ObjXRCD, req.PDHandle)
	if err != nil {
		return err
	}
	if req.QPType != uapi.QPTypeXRCTgt {
		return kernel.Refuse(unix.EINVAL, "qp_type", "only targets are shared", "use IBV_QPT_XRC_RECV")
	}
	r := &qpRes{f: k.f, xrcd: x}
	if r.qp, err = x.xrcd.OpenQP(wire.QPN(req.QPN)); err != nil {
		return err
	}
	r.mem = sharedQP{r.qp}
	x.users.Add(1)
	o.User, o.Res = req.UserHandle, r
	setAsync(o, k.f.events.defaultAsync())
	k.f.dev.own(r.qp, o)
	return dispatch.Respond(&k.Call, r.createResp(o))
}

// sharedQP is the driver's part of a target that another program has created: nothing.
type sharedQP struct{ qp *rxe.QP }

func (sharedQP) Init(*rxe.QPInitAttr)                   {}
func (sharedQP) Answer(asked, _ rxe.QPCap) rxe.QPCap    { return asked }
func (sharedQP) Created(provider.UData, *rxe.QP) error  { return nil }
func (sharedQP) Doorbell() error                        { return unix.EOPNOTSUPP }
func (sharedQP) Discard()                               {}
func (sharedQP) Pending() bool                          { return false }
func (sharedQP) Take(int, bool) (provider.Taken, error) { return provider.Taken{}, nil }
func (sharedQP) Receives() (waiting, entries int)       { return 0, 0 }
func (sharedQP) Ending()                                {}
func (sharedQP) Free()                                  {}
func (s sharedQP) Modify(_ provider.UData, attr *rxe.QPAttr, mask rxe.QPAttrMask) error {
	return s.qp.Modify(attr, mask)
}
