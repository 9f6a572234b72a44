package uverbs

import (
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/kernel/uapi"
	"github.com/gorxe/gorxe/internal/provider/librxe"
	"github.com/gorxe/gorxe/internal/test/rxedev"
	"github.com/gorxe/gorxe/rxe"
	"github.com/gorxe/gorxe/wire"
)

// TestWriteHeader: how write() commands are framed (uverbs_main.c:verify_hdr).
func TestWriteHeader(t *testing.T) {
	d, _ := newDevice(t)
	p := opened(t, d)
	raw := func(b []byte, n int) error {
		p.reset()
		_, err := p.f.Write(p, p.alloc(b), uint64(n))
		return err
	}
	words := func(cmd uint32, in, out uint16, body int) []byte {
		return append(bytesFrom(uapi.CmdHdr{Command: cmd, InWords: in, OutWords: out}), make([]byte, body)...)
	}
	ex := func(cmd uint32, in, out uint16, e uapi.CmdExHdr, body int) []byte {
		return append(append(bytesFrom(uapi.CmdHdr{Command: cmd | uapi.CmdExtended, InWords: in, OutWords: out}), bytesFrom(e)...), make([]byte, body)...)
	}
	for _, tc := range []struct {
		name string
		b    []byte
		want error
	}{
		{"no header", words(0, 0, 0, 0)[:7], unix.EINVAL},
		{"unknown bits", words(0x100, 2, 0, 0), unix.EINVAL},
		{"no such command", words(41, 2, 0, 0), unix.EOPNOTSUPP},
		{"beyond, whatever the length", words(200, 9, 0, 0), unix.EOPNOTSUPP},
		{"no such extended command", words(27|uapi.CmdExtended, 9, 0, 0), unix.EOPNOTSUPP},
		{"extended CREATE_FLOW", words(50|uapi.CmdExtended, 9, 0, 0), unix.EOPNOTSUPP},
		{"extended MODIFY_CQ", words(57|uapi.CmdExtended, 9, 0, 0), unix.EOPNOTSUPP},
		{"unsupported, framed", words(uapi.CmdPollCQ, 6, 0, 16), unix.EOPNOTSUPP},
		{"unsupported, not framed", words(uapi.CmdPollCQ, 5, 0, 16), unix.EINVAL},
		{"length differs", words(uapi.CmdDeallocPD, 4, 0, 4), unix.EINVAL},
		{"request too short", words(uapi.CmdDeallocPD, 2, 0, 0), unix.ENOSPC},
		{"response too short", words(uapi.CmdAllocPD, 4, 0, 8), unix.ENOSPC},
		{"request longer, zero", words(uapi.CmdDeallocPD, 5, 0, 12), unix.ENOENT},
		{"request longer, not zero", append(words(uapi.CmdDeallocPD, 5, 0, 8), 0, 0, 0, 1), unix.EOPNOTSUPP},
		{"extended without its header", words(uapi.CmdCreateCQ|uapi.CmdExtended, 0, 0, 15), unix.EINVAL},
		{"extended, length differs", ex(uapi.CmdCreateCQ, 3, 0, uapi.CmdExHdr{}, 32), unix.EINVAL},
		{"extended, reserved", ex(uapi.CmdCreateCQ, 4, 0, uapi.CmdExHdr{CmdHdrReserved: 1}, 32), unix.EINVAL},
		{"extended, address without room", ex(uapi.CmdCreateCQ, 4, 0, uapi.CmdExHdr{Response: 8}, 32), unix.EINVAL},
		{"extended, room without address", ex(uapi.CmdCreateCQ, 4, 2, uapi.CmdExHdr{}, 32), unix.EINVAL},
		{"extended, unknown fields", append(ex(uapi.CmdQueryDevice, 2, 1, uapi.CmdExHdr{Response: programData}, 15), 1), unix.EOPNOTSUPP},
		{"extended, comp_mask", func() []byte {
			b := ex(uapi.CmdQueryDevice, 1, 1, uapi.CmdExHdr{Response: programData}, 8)
			b[24] = 1
			return b
		}(), unix.EINVAL},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p.t = t
			p.want(raw(tc.b, len(tc.b)), tc.want)
		})
	}
	p.t = t
	_, err := p.f.Write(p, 8, 32)
	p.want(err, unix.EFAULT)
	// The header is there, the rest is not: the header's faults come first.
	at := uint64(programBase + programSize - uapi.CmdHdrSize)
	for _, tc := range []struct {
		hdr  uapi.CmdHdr
		want error
	}{{uapi.CmdHdr{Command: 200, InWords: 0, OutWords: 0}, unix.EOPNOTSUPP}, {uapi.CmdHdr{Command: uapi.CmdAllocPD, InWords: 3, OutWords: 1}, unix.EINVAL}, {uapi.CmdHdr{Command: uapi.CmdAllocPD, InWords: 4, OutWords: 1}, unix.EFAULT}} {
		copy(p.mem.Data[programSize-uapi.CmdHdrSize:], uapi.BytesOf(&tc.hdr))
		_, err := p.f.Write(p, at, 16)
		p.want(err, tc.want)
	}
	// The response address is bad: what was made must be gone.
	u := &user{p, forms[0]}
	before := d.rxe.Objects()
	p.reset()
	b := append(bytesFrom(uapi.CmdHdr{Command: uapi.CmdAllocPD, InWords: 4, OutWords: 1}), bytesFrom(uapi.AllocPDReq{Response: 16})...)
	_, err = p.f.Write(p, p.alloc(b), 16)
	p.want(err, unix.EFAULT)
	if after := d.rxe.Objects(); after != before {
		t.Errorf("objects %+v became %+v", before, after)
	}
	if h := u.allocPD(); h != 0 {
		t.Errorf("handle %d is not free again", h)
	}
}

// TestUnsupportedCommands: the commands that rdma_rxe does not have, in both
// forms.
func TestUnsupportedCommands(t *testing.T) {
	eachForm(t, func(t *testing.T, u *user, d *Device, engine *rxe.Device) {
		for _, cmd := range []uint32{uapi.CmdModifyAH, uapi.CmdQueryAH, uapi.CmdRegSMR, uapi.CmdQueryMR, uapi.CmdBindMW, uapi.CmdPollCQ, uapi.CmdPeekCQ,
			uapi.CmdPostRecv, uapi.CmdPostSRQRecv, uapi.CmdOpenXRCD, uapi.CmdCloseXRCD, uapi.CmdOpenQP,
			uapi.CmdExtended | 50, uapi.CmdExtended | 51, uapi.CmdExtended | 52, uapi.CmdExtended | 57} {
			if _, err := u.form.call(u.program, verb{cmd: cmd, req: make([]byte, 24)}); err != unix.EOPNOTSUPP {
				t.Errorf("command %#x: %v", cmd, err)
			}
		}
	})
}

// objects are one of each, made by a user.
type objects struct {
	pd, cq, cq2, srq, qp, ah uint32
	mr                       uapi.RegMRResp
	mw                       uapi.AllocMWResp
	channel                  int32
}

func (u *user) makeAll() (o objects) {
	o.pd = u.allocPD()
	o.channel = u.createChannel()
	cq, _ := u.createCQ(10, o.channel, 0xc9)
	o.cq = cq.CQHandle
	cq, _ = u.createCQ(10, -1, 0xc92)
	o.cq2 = cq.CQHandle
	srq, _ := u.createSRQ(o.pd, 10, 0)
	o.srq = srq.SRQHandle
	qp, _ := u.createQP(rxe.QPUD, o.pd, o.cq)
	o.qp = qp.QPHandle
	o.mr = u.regMR(o.pd, programData, 4096, rxe.AccessLocalWrite)
	o.mw = u.allocMW(o.pd, 2)
	o.ah, _ = u.createAH(o.pd)
	return o
}

// verbs are all commands that work on these objects, as they should be.
func (o *objects) verbs() map[string]verb {
	gid := wire.GIDFromAddr(rxedev.Addr)
	group := uapi.McastReq{GID: [16]byte{10: 0xff, 11: 0xff, 12: 224, 15: 9}, QPHandle: o.qp}
	ex := uapi.ExCreateQPReq{PDHandle: o.pd, SendCQHandle: o.cq, RecvCQHandle: o.cq, QPType: uapi.QPTypeRC, MaxSendWR: 1}
	return map[string]verb{
		"QUERY_DEVICE":        {cmd: uapi.CmdQueryDevice, req: bytesFrom(uapi.QueryDeviceReq{}), resp: uapi.SizeOf[uapi.QueryDeviceResp]()},
		"QUERY_PORT":          {cmd: uapi.CmdQueryPort, req: bytesFrom(uapi.QueryPortReq{PortNum: 1}), resp: uapi.SizeOf[uapi.QueryPortResp]()},
		"ALLOC_PD":            {cmd: uapi.CmdAllocPD, req: bytesFrom(uapi.AllocPDReq{}), resp: 4},
		"REG_MR":              regMRVerb(o.pd, programData, 100, 1),
		"REREG_MR":            {cmd: uapi.CmdReregMR, req: bytesFrom(uapi.ReregMRReq{MRHandle: o.mr.MRHandle, Flags: 4, AccessFlags: 1}), resp: 8},
		"ALLOC_MW":            {cmd: uapi.CmdAllocMW, req: bytesFrom(uapi.AllocMWReq{PDHandle: o.pd, MWType: 1}), resp: 8},
		"CREATE_AH":           createAHVerb(o.pd, gid),
		"CREATE_COMP_CHANNEL": {cmd: uapi.CmdCreateCompChannel, req: bytesFrom(uapi.CreateCompChannelReq{}), resp: 4},
		"CREATE_CQ":           createCQVerb(uapi.CreateCQReq{CQE: 1, CompChannel: o.channel}),
		"RESIZE_CQ":           {cmd: uapi.CmdResizeCQ, req: bytesFrom(uapi.ResizeCQReq{CQHandle: o.cq, CQE: 20}), resp: 8, uhwResp: 16},
		"REQ_NOTIFY_CQ":       {cmd: uapi.CmdReqNotifyCQ, req: bytesFrom(uapi.ReqNotifyCQReq{CQHandle: o.cq})},
		"CREATE_SRQ":          createSRQVerb(uapi.CreateSRQReq{PDHandle: o.pd, MaxWR: 1}),
		"CREATE_XSRQ":         {cmd: uapi.CmdCreateXSRQ, req: bytesFrom(uapi.CreateXSRQReq{PDHandle: o.pd, MaxWR: 1}), resp: 16, uhwResp: 24},
		"MODIFY_SRQ": {cmd: uapi.CmdModifySRQ, req: bytesFrom(uapi.ModifySRQReq{SRQHandle: o.srq, AttrMask: 3, MaxWR: 20, SRQLimit: 2}),
			uhw: bytesFrom(librxe.ModifySRQCmd{MmapInfoAddr: programData})},
		"QUERY_SRQ":          {cmd: uapi.CmdQuerySRQ, req: bytesFrom(uapi.QuerySRQReq{SRQHandle: o.srq}), resp: 16},
		"CREATE_QP":          createQPVerb(qpReq(rxe.QPRC, o.pd, o.cq)),
		"QUERY_QP":           {cmd: uapi.CmdQueryQP, req: bytesFrom(uapi.QueryQPReq{QPHandle: o.qp}), resp: uapi.SizeOf[uapi.QueryQPResp]()},
		"MODIFY_QP":          modifyVerb(connectReqs(o.qp, rxe.QPUD, 0)[0]),
		"POST_SEND":          doorbellVerb(o.qp),
		"ATTACH_MCAST":       {cmd: uapi.CmdAttachMcast, req: bytesFrom(group)},
		"DETACH_MCAST":       {cmd: uapi.CmdDetachMcast, req: bytesFrom(group)},
		"EX_QUERY_DEVICE":    {cmd: uapi.CmdQueryDevice | uapi.CmdExtended, req: bytesFrom(uapi.ExQueryDeviceReq{}), resp: uapi.SizeOf[uapi.ExQueryDeviceResp]()},
		"EX_CREATE_CQ":       {cmd: uapi.CmdCreateCQ | uapi.CmdExtended, req: bytesFrom(uapi.ExCreateCQReq{CQE: 1, CompChannel: -1}), resp: 16, uhwResp: 16},
		"EX_CREATE_QP":       {cmd: uapi.CmdCreateQP | uapi.CmdExtended, req: bytesFrom(ex), resp: 40, uhwResp: 32},
		"EX_MODIFY_QP":       {cmd: uapi.CmdModifyQP | uapi.CmdExtended, req: bytesFrom(uapi.ExModifyQPReq{Base: connectReqs(o.qp, rxe.QPUD, 0)[0]}), resp: 8},
		"DESTROY_AH":         destroyVerb(uapi.CmdDestroyAH, o.ah),
		"DEALLOC_MW":         destroyVerb(uapi.CmdDeallocMW, o.mw.MWHandle),
		"DEREG_MR":           destroyVerb(uapi.CmdDeregMR, o.mr.MRHandle),
		"DESTROY_QP":         destroyVerb(uapi.CmdDestroyQP, o.qp),
		"DESTROY_SRQ":        destroyVerb(uapi.CmdDestroySRQ, o.srq),
		"DESTROY_CQ":         destroyVerb(uapi.CmdDestroyCQ, o.cq2),
		"DEALLOC_PD (EBUSY)": destroyVerb(uapi.CmdDeallocPD, o.pd),
	}
}

// want is what a verb of objects.verbs answers.
func (o *objects) want(name string) error {
	switch name {
	case "DEALLOC_PD (EBUSY)":
		return unix.EBUSY
	case "DETACH_MCAST":
		return unix.EINVAL // not attached
	default:
		return nil
	}
}

// TestEveryCommand: each command, as it should be, in both forms.
func TestEveryCommand(t *testing.T) {
	eachForm(t, func(t *testing.T, u *user, d *Device, engine *rxe.Device) {
		all := &objects{}
		for name := range all.verbs() {
			t.Run(name, func(t *testing.T) {
				u := &user{opened(t, d), u.form}
				o := u.makeAll()
				a, err := u.form.call(u.program, o.verbs()[name])
				if err != o.want(name) {
					t.Fatalf("%v, not %v", err, o.want(name))
				}
				if err == nil && len(a.core) > 0 && name != "POST_SEND" && a.core[0] == 0xee && a.core[len(a.core)-1] == 0xee {
					t.Error("no response")
				}
				u.exit()
				if n := engine.Objects(); n != (rxe.ObjectCounts{}) {
					t.Errorf("left: %+v", n)
				}
			})
		}
	})
}

// TestTruncated: every prefix of every command, with a header that fits, is refused, or
// does no harm where the kernel takes missing bytes for zero. A response that cannot be
// delivered leaves nothing behind.
func TestTruncated(t *testing.T) {
	eachForm(t, func(t *testing.T, u *user, d *Device, engine *rxe.Device) {
		all := &objects{}
		for name := range all.verbs() {
			t.Run(name, func(t *testing.T) {
				u := &user{opened(t, d), u.form}
				o := u.makeAll()
				before := engine.Objects()
				v := o.verbs()[name]
				step := 4
				if v.cmd&uapi.CmdExtended != 0 {
					step = 8
				}
				for n := 0; n < len(v.req); n += step {
					short := v
					short.req = v.req[:n]
					_, err := u.form.call(u.program, short)
					if err == nil && v.cmd&uapi.CmdExtended == 0 {
						t.Errorf("%d of %d bytes accepted", n, len(v.req))
					}
				}
				for n := 0; n < v.resp; n += step {
					short := v
					short.resp, short.uhwResp = n, 0
					if _, err := u.form.call(u.program, short); err == nil && v.cmd&uapi.CmdExtended == 0 {
						t.Errorf("%d of %d bytes of response accepted", n, v.resp)
					}
				}
				if v.cmd&uapi.CmdExtended == 0 {
					if after := engine.Objects(); after != before {
						t.Errorf("objects %+v became %+v", before, after)
					}
				}
				// Each write of the answer fails in turn.
				for fail := 1; fail <= 8 && v.resp+v.uhwResp > 0; fail++ {
					before := engine.Objects()
					u.writes = 0
					u.failing = func(uint64) bool { return u.writes == fail }
					_, err := u.form.call(u.program, v)
					u.failing = nil
					if u.writes < fail {
						break
					}
					if err != unix.EFAULT {
						t.Errorf("write %d failed: %v", fail, err)
					}
					after := engine.Objects()
					if total(after) > total(before) {
						t.Errorf("write %d failed: objects %+v became %+v", fail, before, after)
					}
					if total(after) < total(before) {
						break // it is destroyed all the same
					}
				}
				u.exit()
				if n := engine.Objects(); n != (rxe.ObjectCounts{}) {
					t.Errorf("left: %+v", n)
				}
			})
		}
	})
}

func total(n rxe.ObjectCounts) int { return n.PD + n.MR + n.MW + n.CQ + n.SRQ + n.QP + n.AH }

// TestHandles: wrong, stale and foreign handles, and objects in use.
func TestHandles(t *testing.T) {
	eachForm(t, func(t *testing.T, u *user, d *Device, engine *rxe.Device) {
		o := u.makeAll()
		other := &user{opened(t, d), u.form}
		theirs := other.makeAll()
		var last uint32
		for range 20 {
			last = other.allocPD()
		}
		_ = theirs
		try := func(v verb) error {
			t.Helper()
			_, err := u.form.call(u.program, v)
			return err
		}
		destroyers := map[uint32]uint32{uapi.CmdDeallocPD: o.pd, uapi.CmdDeregMR: o.mr.MRHandle, uapi.CmdDeallocMW: o.mw.MWHandle,
			uapi.CmdDestroyAH: o.ah, uapi.CmdDestroyCQ: o.cq, uapi.CmdDestroyQP: o.qp, uapi.CmdDestroySRQ: o.srq}
		for cmd, own := range destroyers {
			// only the other has that many
			if err := try(destroyVerb(cmd, last)); err != unix.ENOENT {
				t.Errorf("command %d, foreign handle: %v", cmd, err)
			}
			if err := try(destroyVerb(cmd, 1<<31)); err != unix.ENOENT {
				t.Errorf("command %d, no handle: %v", cmd, err)
			}
			for _, h := range destroyers {
				if h == own {
					continue
				}
				if err := try(destroyVerb(cmd, h)); err != unix.EINVAL {
					t.Errorf("command %d on another type: %v", cmd, err)
				}
			}
		}
		for name, v := range map[string]verb{
			"REG_MR":        regMRVerb(o.cq, programData, 1, 1),
			"ALLOC_MW":      {cmd: uapi.CmdAllocMW, req: bytesFrom(uapi.AllocMWReq{PDHandle: o.cq, MWType: 1}), resp: 8},
			"CREATE_AH":     createAHVerb(o.cq, wire.GIDFromAddr(rxedev.Addr)),
			"CREATE_SRQ":    createSRQVerb(uapi.CreateSRQReq{PDHandle: o.cq, MaxWR: 1}),
			"CREATE_QP pd":  createQPVerb(qpReq(rxe.QPRC, o.cq, o.cq)),
			"CREATE_QP cq":  createQPVerb(qpReq(rxe.QPRC, o.pd, o.pd)),
			"QUERY_QP":      {cmd: uapi.CmdQueryQP, req: bytesFrom(uapi.QueryQPReq{QPHandle: o.pd}), resp: uapi.SizeOf[uapi.QueryQPResp]()},
			"MODIFY_QP":     modifyVerb(uapi.ModifyQPReq{QPHandle: o.pd}),
			"POST_SEND":     doorbellVerb(o.pd),
			"RESIZE_CQ":     {cmd: uapi.CmdResizeCQ, req: bytesFrom(uapi.ResizeCQReq{CQHandle: o.pd, CQE: 2}), resp: 8, uhwResp: 16},
			"REQ_NOTIFY_CQ": {cmd: uapi.CmdReqNotifyCQ, req: bytesFrom(uapi.ReqNotifyCQReq{CQHandle: o.pd})},
			"QUERY_SRQ":     {cmd: uapi.CmdQuerySRQ, req: bytesFrom(uapi.QuerySRQReq{SRQHandle: o.pd}), resp: 16},
			"MODIFY_SRQ":    {cmd: uapi.CmdModifySRQ, req: bytesFrom(uapi.ModifySRQReq{SRQHandle: o.pd}), uhw: make([]byte, 8)},
			"ATTACH_MCAST":  {cmd: uapi.CmdAttachMcast, req: bytesFrom(uapi.McastReq{QPHandle: o.pd})},
			"REREG_MR":      {cmd: uapi.CmdReregMR, req: bytesFrom(uapi.ReregMRReq{MRHandle: o.pd, Flags: 4}), resp: 8},
		} {
			if err := try(v); err != unix.EINVAL {
				t.Errorf("%s of another type: %v", name, err)
			}
		}
		// In use.
		for cmd, h := range map[uint32]uint32{uapi.CmdDeallocPD: o.pd, uapi.CmdDestroyCQ: o.cq} {
			if err := try(destroyVerb(cmd, h)); err != unix.EBUSY {
				t.Errorf("command %d in use: %v", cmd, err)
			}
		}
		withSRQ := qpReq(rxe.QPRC, o.pd, o.cq)
		withSRQ.IsSRQ, withSRQ.SRQHandle = 1, o.srq
		qp := core[uapi.CreateQPResp](u.call(createQPVerb(withSRQ)))
		if err := try(destroyVerb(uapi.CmdDestroySRQ, o.srq)); err != unix.EBUSY {
			t.Errorf("SRQ in use: %v", err)
		}
		u.call(destroyVerb(uapi.CmdDestroyQP, qp.QPHandle))
		group := uapi.McastReq{GID: [16]byte{10: 0xff, 11: 0xff, 12: 224, 15: 9}, QPHandle: o.qp}
		u.call(verb{cmd: uapi.CmdAttachMcast, req: bytesFrom(group)})
		if err := try(destroyVerb(uapi.CmdDestroyQP, o.qp)); err != unix.EBUSY {
			t.Errorf("QP in a group: %v", err)
		}
		u.call(verb{cmd: uapi.CmdDetachMcast, req: bytesFrom(group)})
		// In order, and then stale.
		for _, cmd := range []uint32{uapi.CmdDestroyQP, uapi.CmdDestroyCQ, uapi.CmdDestroySRQ, uapi.CmdDestroyAH, uapi.CmdDeallocMW, uapi.CmdDeregMR, uapi.CmdDeallocPD} {
			h := destroyers[cmd]
			u.call(destroyVerb(cmd, h))
			if err := try(destroyVerb(cmd, h)); err != unix.ENOENT {
				t.Errorf("command %d, stale handle: %v", cmd, err)
			}
		}
		// The lowest free handle is next, whatever its type was.
		if h := u.allocPD(); h != min(o.pd, o.cq, o.mr.MRHandle) {
			t.Errorf("handle %d", h)
		}
	})
}
