package uverbs

import (
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/explain"
	"github.com/gorxe/gorxe/internal/kernel"
	"github.com/gorxe/gorxe/internal/kernel/uapi"
	"github.com/gorxe/gorxe/internal/provider/librxe"
	"github.com/gorxe/gorxe/internal/test/librxeclient"
	"github.com/gorxe/gorxe/internal/test/must"
	"github.com/gorxe/gorxe/rxe"
	"github.com/gorxe/gorxe/wire"
)

// sentence is what is said of a refusal.
type sentence struct{ why, fix string }

// refusalWalk makes calls that are refused, and keeps what was said of them.
type refusalWalk struct {
	t    *testing.T
	last error // of the last call
	said map[sentence]bool
}

func (w *refusalWalk) Failed(*rxe.QP, *rxe.Failure) {}

func (w *refusalWalk) Moved(wire.QPN, string) {}

func (w *refusalWalk) Refused(verb string, errno unix.Errno, err error) {
	w.last = err
	if errno != unix.EINVAL {
		return
	}
	var of sentence
	var refusal *kernel.Refusal
	var op *rxe.OpError
	switch {
	case errors.As(err, &refusal):
		// withIndexes names the device's one GID
		of = sentence{refusal.Why, strings.TrimSuffix(refusal.Fix, ": 0")}
	case errors.As(err, &op):
		of = sentence{op.Why, op.Fix}
	}
	if of.why == "" || of.fix == "" {
		w.t.Errorf("%s: EINVAL without a reason: %v", verb, err)
	}
	if r := explain.Refused(verb, errno, err); len(strings.Fields(r.String())) >= 30 {
		w.t.Errorf("30 words or more: %s", r.String())
	}
	w.said[of] = true
}

// refused: a call failed with EINVAL, and the reason was reported.
func (w *refusalWalk) refused(what string, err error) {
	w.t.Helper()
	w.refusedWith(what, err, unix.EINVAL)
}

func (w *refusalWalk) refusedWith(what string, err, want error) {
	w.t.Helper()
	if err != want || w.last == nil {
		w.t.Errorf("%s: %v, reported as %v", what, err, w.last)
	}
	w.last = nil
}

// TestRefusals makes a call for each EINVAL of the ABI, of its framing and of librxe's part. Each
// has its sentence, and each sentence in the source is said.
func TestRefusals(t *testing.T) {
	w := &refusalWalk{t: t, said: make(map[sentence]bool)}
	d, _ := newDevice(t)
	d.describe = describe
	open := func() *program {
		p := newProgram(t, d)
		p.f.SetReports(w)
		return p
	}
	p := open()
	p.reset()
	w.refused("no context", p.ioctl(uapi.ObjAsyncEvent, uapi.MethodAsyncEventAlloc, newFD(uapi.AttrAsyncEventFD)))
	u := &user{p.begin(), forms[0]}
	p.reset()
	w.refused("second context", p.ioctl(uapi.ObjDevice, uapi.MethodGetContext))
	o := u.makeAll()
	w.framing(u)
	w.attributes(u, &o)
	w.queues(u, &o)
	w.queuePairs(u, &o)
	w.regions(u, &o)
	w.dmabufs(u, o.pd)
	w.questions(u)
	newEndpoint(t, u, rxe.QPRC).write(1, 8)
	u.f.TakeDoorbells(true)
	w.refused("direct doorbell in RESET", unix.EINVAL)

	for _, walk := range []func(*steerProgram, *testing.T){(*steerProgram).flowRefusals, (*steerProgram).countersWalk, (*steerProgram).workQueueWalk} {
		p := newSteerProgram(t, forms[0], nil)
		p.f.SetReports(w)
		walk(p, t)
	}

	for where, of := range sentencesOf(t, ".", "../dispatch", "../../provider/librxe") {
		if !w.said[of] && notWalked[of] == "" {
			t.Errorf("%s: no call was told %q; %q", where, of.why, of.fix)
		}
	}
}

// notWalked are reasons that no call of this test is given, and why.
var notWalked = map[sentence]string{
	{"was destroyed during the call", "resize it before destroy_cq"}:         "it takes another thread",
	{"was destroyed during the call", "resize it before destroy_srq"}:        "it takes another thread",
	{"is less than the completions that wait", "poll completions first"}:     "it takes a completion during the call",
	{"is less than the receives that wait", "ask for more"}:                  "it takes a receive during the call",
	{"takes no work requests", "see whether it was destroyed"}:               "it takes another thread, that destroys the queue pair",
	{"is 0", "use IBV_CQ_ATTR_MODERATE"}:                                     "it takes a driver with moderation: TestModifyCQ",
	{"lacks zero_based", "add IBV_ACCESS_ZERO_BASED"}:                        "it takes a driver with device memory: TestDeviceMemory",
	{"the range ends behind the memory", "end the region within the memory"}: "it takes a driver with device memory: TestDeviceMemory",
	{"is of device memory", "register the memory once more"}:                 "it takes a driver with device memory: TestDeviceMemory",
	{"a target has none", "leave it out"}:                                    "it takes a driver with XRC: TestXRC",
	{"only targets are shared", "use IBV_QPT_XRC_RECV"}:                      "it takes a driver with XRC: TestXRC",
	{"is missing", "name both"}:                                              "uverbs has found both completion queues",
}

// framing: what is wrong with a request whatever its verb is.
func (w *refusalWalk) framing(u *user) {
	raw := func(b []byte) error {
		u.reset()
		_, err := u.f.Write(u.program, u.alloc(b), uint64(len(b)))
		return err
	}
	words := func(cmd uint32, in uint16, ex *uapi.CmdExHdr, body int) []byte {
		b := bytesFrom(uapi.CmdHdr{Command: cmd, InWords: in})
		if ex != nil {
			b = append(b, bytesFrom(*ex)...)
		}
		return append(b, make([]byte, body)...)
	}
	const exCQ = uapi.CmdCreateCQ | uapi.CmdExtended
	for what, b := range map[string][]byte{
		"unknown bits":                   words(0x100, 2, nil, 0),
		"length differs":                 words(uapi.CmdDeallocPD, 4, nil, 4),
		"extended without its header":    words(exCQ, 0, nil, 15),
		"extended, length differs":       words(exCQ, 3, &uapi.CmdExHdr{}, 32),
		"extended, reserved":             words(exCQ, 4, &uapi.CmdExHdr{CmdHdrReserved: 1}, 32),
		"extended, address without room": words(exCQ, 4, &uapi.CmdExHdr{Response: 8}, 32),
	} {
		w.refused(what, raw(b))
	}
	header := func(edit func(*uapi.IoctlHdr)) error {
		u.reset()
		h := uapi.IoctlHdr{Length: 40, ObjectID: uint16(uapi.ObjPD), MethodID: uapi.MethodPDDestroy, NumAttrs: 1, DriverID: uapi.DriverRXE}
		edit(&h)
		_, err := u.f.Ioctl(u.program, uapi.RDMAVerbsIoctl, u.alloc(append(bytesFrom(h), bytesFrom(obj(uapi.AttrDestroyHandle, 0))...)))
		return err
	}
	w.refused("length", header(func(h *uapi.IoctlHdr) { h.Length = 39 }))
	w.refused("driver", header(func(h *uapi.IoctlHdr) { h.DriverID = 1 }))
}

// attributes: what is wrong with an attribute whatever it is.
func (w *refusalWalk) attributes(u *user, o *objects) {
	for what, edit := range map[string]func([]uapi.IoctlAttr) []uapi.IoctlAttr{
		"twice":            func(l []uapi.IoctlAttr) []uapi.IoctlAttr { return append(l, l[1]) },
		"missing":          func(l []uapi.IoctlAttr) []uapi.IoctlAttr { return l[1:] },
		"size":             func(l []uapi.IoctlAttr) []uapi.IoctlAttr { l[1].Len = 3; return l },
		"reserved":         func(l []uapi.IoctlAttr) []uapi.IoctlAttr { l[1].Reserved = 1; return l },
		"length of handle": func(l []uapi.IoctlAttr) []uapi.IoctlAttr { l[0].Len = 4; return l },
		"no provider's":    func(l []uapi.IoctlAttr) []uapi.IoctlAttr { return l[:5] },
		"comp_vector":      func(l []uapi.IoctlAttr) []uapi.IoctlAttr { l[3].Data = 1 << 20; return l },
		"flags of 6 bytes": func(l []uapi.IoctlAttr) []uapi.IoctlAttr {
			return append(l, uapi.IoctlAttr{AttrID: uapi.AttrCreateCQFlags, Len: 6})
		},
		"unknown flag": func(l []uapi.IoctlAttr) []uapi.IoctlAttr { return append(l, num32(uapi.AttrCreateCQFlags, 4)) },
		"beyond descriptor": func(l []uapi.IoctlAttr) []uapi.IoctlAttr {
			return append(l, uapi.IoctlAttr{AttrID: uapi.AttrCreateCQCompChannel, Data: 1 << 40})
		},
	} {
		u.reset()
		list := []uapi.IoctlAttr{newObj(uapi.AttrCreateCQHandle), num32(uapi.AttrCreateCQCQE, 10), num(uapi.AttrCreateCQUserHandle, 5),
			num32(uapi.AttrCreateCQCompVector, 0), u.out(uapi.AttrCreateCQRespCQE, 4), u.out(uapi.AttrUHWOut, 16)}
		w.refused(what, u.ioctlList(uapi.ObjCQ, uapi.MethodCQCreate, edit(list)))
	}
	destroyPD := func(handle uint64) error {
		u.reset()
		return u.ioctl(uapi.ObjPD, uapi.MethodPDDestroy, uapi.IoctlAttr{AttrID: uapi.AttrDestroyHandle, Flags: uapi.AttrFMandatory, Data: handle})
	}
	w.refused("negative handle", destroyPD(1<<63))
	w.refused("another type", destroyPD(uint64(o.cq)))
}

// do makes a call of the write() form.
func (w *refusalWalk) do(u *user, v verb) error {
	_, err := u.form.call(u.program, v)
	return err
}

// queues: completion queues and shared receive queues.
func (w *refusalWalk) queues(u *user, o *objects) {
	ex := func(req uapi.ExCreateCQReq) verb {
		return verb{cmd: uapi.CmdCreateCQ | uapi.CmdExtended, req: bytesFrom(req), resp: 16, uhwResp: 16}
	}
	place := bytesFrom(librxe.ModifySRQCmd{MmapInfoAddr: programData})
	modify := func(uhw []byte, req uapi.ModifySRQReq) verb {
		req.SRQHandle = o.srq
		return verb{cmd: uapi.CmdModifySRQ, req: bytesFrom(req), uhw: uhw}
	}
	limited, _ := u.createSRQ(o.pd, 10, 3)
	for what, v := range map[string]verb{
		"comp_mask":      ex(uapi.ExCreateCQReq{CQE: 1, CompChannel: -1, CompMask: 1}),
		"comp_vector":    createCQVerb(uapi.CreateCQReq{CQE: 1, CompChannel: -1, CompVector: 1 << 20}),
		"cqe":            createCQVerb(uapi.CreateCQReq{CompChannel: -1}),
		"old librxe":     {cmd: uapi.CmdCreateCQ, req: bytesFrom(uapi.CreateCQReq{CQE: 1, CompChannel: -1}), resp: 8},
		"XRC":            {cmd: uapi.CmdCreateXSRQ, req: bytesFrom(uapi.CreateXSRQReq{SRQType: uapi.SRQTypeXRC, PDHandle: o.pd, MaxWR: 1}), resp: 16, uhwResp: 24},
		"max_wr":         createSRQVerb(uapi.CreateSRQReq{PDHandle: o.pd}),
		"old resize":     modify(nil, uapi.ModifySRQReq{}),
		"limit":          modify(place, uapi.ModifySRQReq{AttrMask: 2, SRQLimit: 17}),
		"below limit":    {cmd: uapi.CmdModifySRQ, req: bytesFrom(uapi.ModifySRQReq{SRQHandle: limited.SRQHandle, AttrMask: 1, MaxWR: 2}), uhw: place},
		"of another PD ": destroyVerb(uapi.CmdDestroySRQ, o.cq),
	} {
		w.refused(what, w.do(u, v))
	}
	u.reset()
	w.refused("type of SRQ", u.ioctl(uapi.ObjSRQ, uapi.MethodSRQCreate, newObj(uapi.AttrCreateSRQHandle), obj(uapi.AttrCreateSRQPD, o.pd),
		num(uapi.AttrCreateSRQType, 9), num(uapi.AttrCreateSRQUserHandle, 0), num32(uapi.AttrCreateSRQMaxWR, 1), num32(uapi.AttrCreateSRQMaxSGE, 1),
		num32(uapi.AttrCreateSRQLimit, 0), u.out(uapi.AttrCreateSRQRespMaxWR, 4), u.out(uapi.AttrCreateSRQRespMaxSGE, 4), u.out(uapi.AttrUHWOut, 24)))
}

// queuePairs: their creation and steps, address handles, and doorbells.
func (w *refusalWalk) queuePairs(u *user, o *objects) {
	ex := func(req uapi.ExCreateQPReq) verb {
		req.PDHandle, req.SendCQHandle, req.RecvCQHandle, req.MaxSendWR = o.pd, o.cq, o.cq, 1
		return verb{cmd: uapi.CmdCreateQP | uapi.CmdExtended, req: bytesFrom(req), resp: 40, uhwResp: 32}
	}
	private := createQPVerb(qpReq(rxe.QPRC, o.pd, o.cq))
	private.uhw = make([]byte, 8)
	step := func(mask rxe.QPAttrMask, edit func(*uapi.ModifyQPReq)) verb {
		req := uapi.ModifyQPReq{QPHandle: o.qp, AttrMask: uint32(mask)}
		edit(&req)
		return modifyVerb(req)
	}
	ah := func(edit func(*uapi.AHAttr)) verb {
		req := uapi.CreateAHReq{PDHandle: o.pd, Attr: uapi.AHAttr{IsGlobal: 1, PortNum: 1}}
		edit(&req.Attr)
		return verb{cmd: uapi.CmdCreateAH, req: bytesFrom(req), resp: 4, uhwResp: 8}
	}
	for what, v := range map[string]verb{
		"comp_mask":    ex(uapi.ExCreateQPReq{QPType: uapi.QPTypeRC, CompMask: 1 << 20}),
		"qp_type":      ex(uapi.ExCreateQPReq{QPType: 77}),
		"XRC":          ex(uapi.ExCreateQPReq{QPType: uapi.QPTypeXRCTgt}),
		"private":      private,
		"port":         step(rxe.QPAttrPort, func(r *uapi.ModifyQPReq) { r.PortNum = 2 }),
		"alternate":    step(rxe.QPAttrAltPath, func(*uapi.ModifyQPReq) {}),
		"cur_qp_state": step(rxe.QPAttrCurState, func(r *uapi.ModifyQPReq) { r.CurQPState = 99 }),
		"qp_state":     step(rxe.QPAttrState, func(r *uapi.ModifyQPReq) { r.QPState = 99 }),
		"path_mtu":     step(rxe.QPAttrPathMTU, func(r *uapi.ModifyQPReq) { r.PathMTU = 99 }),
		"GRH":          ah(func(a *uapi.AHAttr) { a.IsGlobal = 0 }),
		"port of AH":   ah(func(a *uapi.AHAttr) { a.PortNum = 2 }),
		"wqe_size":     {cmd: uapi.CmdPostSend, req: bytesFrom(uapi.PostSendReq{QPHandle: o.qp}), resp: 4},
		"not attached": o.verbs()["DETACH_MCAST"],
	} {
		w.refused(what, w.do(u, v))
	}
	create := func(typ uint64, more ...uapi.IoctlAttr) error {
		list := append([]uapi.IoctlAttr{newObj(uapi.AttrCreateQPHandle), obj(uapi.AttrCreateQPPD, o.pd), obj(uapi.AttrCreateQPSendCQ, o.cq),
			obj(uapi.AttrCreateQPRecvCQ, o.cq), num(uapi.AttrCreateQPUserHandle, 0), u.in(uapi.AttrCreateQPCap, bytesFrom(uapi.QPCap{MaxSendWR: 1})),
			num(uapi.AttrCreateQPType, typ), u.out(uapi.AttrCreateQPRespCap, uapi.SizeOf[uapi.QPCap]()), u.out(uapi.AttrCreateQPRespQPNum, 4),
			u.out(uapi.AttrUHWOut, 32)}, more...)
		return u.ioctlList(uapi.ObjQP, uapi.MethodQPCreate, list)
	}
	for what, call := range map[string]func() error{
		"number": func() error { return create(1 << 40) },
		"type":   func() error { return create(77) },
		"absent": func() error { return create(uapi.QPTypeRC, obj(uapi.AttrCreateQPXRCD, 1)) },
		"flags":  func() error { return create(uapi.QPTypeRC, num32(uapi.AttrCreateQPFlags, uapi.QPCreateScatterFCS)) },
		"raw":    func() error { return create(uapi.QPTypeUD, num32(uapi.AttrCreateQPFlags, uapi.QPCreateScatterFCS)) },
	} {
		u.reset()
		w.refused(what, call())
	}
	e := newEndpoint(w.t, u, rxe.QPRC)
	e.send.PostSend(&librxeclient.SendWR{SendWR: rxe.SendWR{Op: rxe.WRSend}})
	w.refused("doorbell in RESET", w.do(u, doorbellVerb(e.qp)))
}

// regions: memory regions, windows and advice.
func (w *refusalWalk) regions(u *user, o *objects) {
	const page = 4096
	reg := func(edit func(*uapi.RegMRReq)) verb {
		req := uapi.RegMRReq{Start: programData, Length: page, HCAVA: programData, PDHandle: o.pd, AccessFlags: uint32(rxe.AccessLocalWrite)}
		edit(&req)
		return verb{cmd: uapi.CmdRegMR, req: bytesFrom(req), resp: uapi.SizeOf[uapi.RegMRResp]()}
	}
	rereg := func(req uapi.ReregMRReq) verb {
		req.MRHandle = o.mr.MRHandle
		return verb{cmd: uapi.CmdReregMR, req: bytesFrom(req), resp: 8}
	}
	for what, v := range map[string]verb{
		"access":     reg(func(r *uapi.RegMRReq) { r.AccessFlags = uint32(rxe.AccessRemoteWrite) }),
		"on demand":  reg(func(r *uapi.RegMRReq) { r.AccessFlags |= uint32(rxe.AccessOnDemand); r.Length = 1<<64 - page }),
		"empty":      reg(func(r *uapi.RegMRReq) { r.Length = 0 }),
		"iova":       reg(func(r *uapi.RegMRReq) { r.HCAVA++ }),
		"no flags":   rereg(uapi.ReregMRReq{}),
		"rereg iova": rereg(uapi.ReregMRReq{Flags: 1, Start: programData, HCAVA: programData + 1}),
		"type of MW": {cmd: uapi.CmdAllocMW, req: bytesFrom(uapi.AllocMWReq{PDHandle: o.pd, MWType: 9}), resp: 8},
	} {
		w.refused(what, w.do(u, v))
	}
	other, readable := u.allocPD(), u.regMR(o.pd, programData, page, 0)
	for what, c := range map[string]struct {
		pd     uint32
		advice uint64
		list   []byte
	}{
		"key":         {o.pd, uapi.AdvisePrefetch, bytesFrom(uapi.SGE{Addr: programData, Length: 1, LKey: 7})},
		"other PD":    {other, uapi.AdvisePrefetch, bytesFrom(uapi.SGE{Addr: programData, Length: 1, LKey: o.mr.LKey})},
		"not written": {o.pd, uapi.AdvisePrefetchWrite, bytesFrom(uapi.SGE{Addr: programData, Length: 1, LKey: readable.LKey})},
		"range":       {o.pd, uapi.AdvisePrefetch, bytesFrom(uapi.SGE{Addr: programData, Length: page + 1, LKey: o.mr.LKey})},
		"size":        {o.pd, uapi.AdvisePrefetch, make([]byte, 17)},
	} {
		u.reset()
		w.refused(what, u.ioctl(uapi.ObjMR, uapi.MethodAdviseMR, obj(uapi.AttrAdvisePD, c.pd), num(uapi.AttrAdviseAdvice, c.advice),
			num32(uapi.AttrAdviseFlags, 0), u.in(uapi.AttrAdviseSGList, c.list)))
	}
	// A region with a window on it stays.
	e := newEndpoint(w.t, u, rxe.QPRC)
	e.connect(e.qp, rxe.QPRC, e.qpn)
	mw := u.allocMW(e.pd, 2)
	e.send.PostSend(&librxeclient.SendWR{SendWR: rxe.SendWR{ID: 1, Op: rxe.WRBindMW, Flags: rxe.SendSignaled},
		MWRKey: mw.RKey, BindRKey: mw.RKey + 1, MRLKey: e.mr.LKey, BindAddr: programData, BindLength: 10, BindAccess: uint32(rxe.AccessRemoteRead)})
	e.call(doorbellVerb(e.qp))
	w.refusedWith("bound", w.do(u, destroyVerb(uapi.CmdDeregMR, e.mr.MRHandle)), unix.EBUSY)
}

// questions: what a program asks of the device.
func (w *refusalWalk) questions(u *user) {
	for what, v := range map[string]verb{
		"port":      {cmd: uapi.CmdQueryPort, req: bytesFrom(uapi.QueryPortReq{PortNum: 2}), resp: uapi.SizeOf[uapi.QueryPortResp]()},
		"private":   {cmd: uapi.CmdQueryDevice | uapi.CmdExtended, req: bytesFrom(uapi.ExQueryDeviceReq{}), resp: uapi.SizeOf[uapi.ExQueryDeviceResp](), uhwResp: 8},
		"comp_mask": {cmd: uapi.CmdQueryDevice | uapi.CmdExtended, req: bytesFrom(uapi.ExQueryDeviceReq{CompMask: 1}), resp: uapi.SizeOf[uapi.ExQueryDeviceResp]()},
	} {
		w.refused(what, w.do(u, v))
	}
	table := func(entry uint64, room int) func() error {
		return func() error {
			return u.ioctl(uapi.ObjDevice, uapi.MethodQueryGIDTable, num(uapi.AttrGIDTableEntrySize, entry), num32(uapi.AttrGIDTableFlags, 0),
				u.out(uapi.AttrGIDTableEntries, room), u.out(uapi.AttrGIDTableNumEntries, 8))
		}
	}
	handles := func(list ...uapi.IoctlAttr) func() error {
		return func() error {
			return u.ioctlList(uapi.ObjDevice, uapi.MethodInfoHandles, append([]uapi.IoctlAttr{num(uapi.AttrInfoObjectID, uint64(uapi.ObjMR))}, list...))
		}
	}
	for what, call := range map[string]func() error{
		"port": func() error {
			return u.ioctl(uapi.ObjDevice, uapi.MethodQueryPort, num(uapi.AttrQueryPortNum, 2), u.out(uapi.AttrQueryPortResp, 40))
		},
		"GID": func() error {
			return u.ioctl(uapi.ObjDevice, uapi.MethodQueryGIDEntry, num(uapi.AttrGIDEntryPort, 2), num(uapi.AttrGIDEntryIndex, 0),
				num32(uapi.AttrGIDEntryFlags, 0), u.out(uapi.AttrGIDEntryResp, 32))
		},
		"entry":         table(64, 32),
		"entries":       table(1<<63, 0),
		"no list":       handles(),
		"part of a one": handles(uapi.IoctlAttr{AttrID: uapi.AttrInfoHandlesList, Len: 6, Data: programData}),
	} {
		u.reset()
		w.refused(what, call())
	}
	// A table with less room than GIDs.
	u.ok(u.dev.rxe.SetGIDs([]wire.GID{{15: 1}, {15: 2}}))
	u.reset()
	w.refused("max_entries", table(32, 32)())
}

// TestIndexesOfGIDs: a program that names an index without a GID learns which have one, also if the
// peer sees the zero GID of that index and sets no is_global.
func TestIndexesOfGIDs(t *testing.T) {
	d, engine := newDevice(t)
	gids := []wire.GID{{15: 1}, {}, {15: 3}, {15: 4}, {15: 5}, {15: 6}}
	for n, want := range map[int]string{0: ": this device has none", 1: ": 0", 3: ": 0 or 2", 4: ": 0, 2 or 3", 6: ": 0, 2, 3 or 2 more"} {
		must.OK(t, engine.SetGIDs(gids[:n]))
		for global, errno := range map[bool]unix.Errno{false: unix.EINVAL, true: unix.ENODATA} {
			err := d.checkAddress(global, &rxe.AHAttr{PortNum: 1, SGIDIndex: 9})
			var refusal *kernel.Refusal
			if !errors.As(err, &refusal) || refusal.Errno != errno || !strings.HasSuffix(refusal.Fix, want) {
				t.Errorf("%d indexes, GRH %v: %+v, want %q", n, global, refusal, want)
			}
		}
	}
	r := explain.Refused("modify_qp", unix.EINVAL, d.checkAddress(false, &rxe.AHAttr{PortNum: 1}))
	if len(strings.Fields(r.String())) >= 30 {
		t.Errorf("30 words or more: %s", r.String())
	}
}

// noSentence are the functions that return a bare EINVAL, and why none reaches a verb of a program.
var noSentence = map[string]string{
	"Read":          "the file has no read method",
	"Write":         "the write is too short to be a command",
	"errnoOf":       "an error without an errno is a mistake of this package",
	"hold":          "no method names so many objects",
	"newCQRing":     "the engine has refused such a size",
	"newRecvRing":   "the engine has refused such a size",
	"newSendRing":   "the engine has refused such a size",
	"newRing":       "the engine has refused such a size",
	"conclude":      "the engine's reason is joined",
	"queueError":    "it compares",
	"malformed":     "it has the words of its caller",
	"package level": "errnoOf looks there",
}

// sentencesOf returns the sentences of EINVAL in the source of packages, by place. A bare EINVAL
// fails the test, unless noSentence has its function.
func sentencesOf(t *testing.T, dirs ...string) map[string]sentence {
	t.Helper()
	found := make(map[string]sentence)
	for _, dir := range dirs {
		fset := token.NewFileSet()
		for _, path := range must.Get[[]string](t)(filepath.Glob(filepath.Join(dir, "*.go"))) {
			if strings.HasSuffix(path, "_test.go") {
				continue
			}
			file := must.Get[*ast.File](t)(parser.ParseFile(fset, path, nil, 0))
			for _, decl := range file.Decls {
				inSource(t, fset, filepath.Base(path), decl, found)
			}
		}
	}
	if len(found) < 60 {
		t.Errorf("%d sentences: there are more", len(found))
	}
	return found
}

// inSource adds the sentences of one declaration.
func inSource(t *testing.T, fset *token.FileSet, file string, decl ast.Decl, found map[string]sentence) {
	t.Helper()
	name := "package level"
	if f, ok := decl.(*ast.FuncDecl); ok {
		name = f.Name.Name
	}
	said := make(map[ast.Node]bool) // the EINVALs that have a sentence
	ast.Inspect(decl, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			if errno, why, fix := saying(n); why != nil && name != "malformed" {
				said[errno] = true
				found[file+": "+fset.Position(n.Pos()).String()] = sentence{literal(t, why), literal(t, fix)}
			}
		case *ast.SelectorExpr:
			if n.Sel.Name == "EINVAL" && !said[n] && noSentence[name] == "" {
				t.Errorf("%v: %s returns EINVAL without a sentence", fset.Position(n.Pos()), name)
			}
		}
		return true
	})
}

// saying returns the errno, the reason and the remedy of a call that makes a refusal, nil for
// another one.
func saying(call *ast.CallExpr) (errno ast.Node, why, fix ast.Expr) {
	args := call.Args
	switch f := call.Fun.(type) {
	case *ast.SelectorExpr:
		if s, ok := args0(args).(*ast.SelectorExpr); ok && f.Sel.Name == "Refuse" && s.Sel.Name == "EINVAL" {
			return s, args[2], args[3]
		}
	case *ast.Ident:
		switch f.Name {
		case "malformed":
			return nil, args[1], &ast.BasicLit{Kind: token.STRING, Value: strconv.Quote("use headers and libraries that belong together")}
		case "refuse":
			return nil, args[1], args[2]
		}
	}
	return nil, nil, nil
}

func args0(args []ast.Expr) ast.Expr {
	if len(args) != 4 {
		return nil
	}
	return args[0]
}

// literal returns the value of a string in the source.
func literal(t *testing.T, e ast.Expr) string {
	t.Helper()
	lit, ok := e.(*ast.BasicLit)
	if !ok {
		t.Fatalf("%T is not a string in quotes", e)
	}
	return must.Get[string](t)(strconv.Unquote(lit.Value))
}
