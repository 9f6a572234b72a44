package uverbs

import (
	"fmt"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/kernel/dispatch"
	"github.com/gorxe/gorxe/internal/kernel/uapi"
	"github.com/gorxe/gorxe/internal/provider/librxe"
	"github.com/gorxe/gorxe/internal/test/librxeclient"
	"github.com/gorxe/gorxe/internal/test/rxedev"
	"github.com/gorxe/gorxe/rxe"
	"github.com/gorxe/gorxe/wire"
)

func TestQueryDevice(t *testing.T) {
	eachForm(t, func(t *testing.T, u *user, d *Device, engine *rxe.Device) {
		a := engine.Attr()
		r := core[uapi.QueryDeviceResp](u.call(verb{cmd: uapi.CmdQueryDevice, req: bytesFrom(uapi.QueryDeviceReq{}), resp: uapi.SizeOf[uapi.QueryDeviceResp]()}))
		if r.FWVer != 1<<32|2<<16|3 || r.MaxQP != a.MaxQP || r.MaxSGE != 32 || r.VendorID != 0xffffff || r.PhysPortCnt != 1 {
			t.Errorf("%+v", r)
		}
		// Programs of all ages: with room for less and for more than there is.
		for _, n := range []int{uapi.SizeOf[uapi.QueryDeviceResp]() + 8, uapi.SizeOf[uapi.ExQueryDeviceResp](), uapi.SizeOf[uapi.ExQueryDeviceResp]() + 64} {
			e := u.call(verb{cmd: uapi.CmdQueryDevice | uapi.CmdExtended, req: bytesFrom(uapi.ExQueryDeviceReq{}), resp: n})
			x := core[uapi.ExQueryDeviceResp](e)
			if x.Base != r || x.ResponseLength != uint32(min(n, uapi.SizeOf[uapi.ExQueryDeviceResp]())) {
				t.Errorf("%d bytes: %+v", n, x)
			}
			if n > uapi.SizeOf[uapi.ExQueryDeviceResp]() && !dispatch.IsZero(e.core[uapi.SizeOf[uapi.ExQueryDeviceResp]():]) {
				t.Errorf("%d bytes: the rest is not zero", n)
			}
			if n >= uapi.SizeOf[uapi.ExQueryDeviceResp]() && (x.DeviceCapFlagsEx != uint64(a.Cap) || x.ODPCaps.GeneralCaps != 3) {
				t.Errorf("%d bytes: %+v", n, x)
			}
		}
	})
}

func TestParseFWVer(t *testing.T) {
	for s, want := range map[string]uint64{"": 0, "1": 1 << 32, "1.2": 1<<32 | 2<<16, "1.2.3": 1<<32 | 2<<16 | 3} {
		if got, err := parseFWVer(s); err != nil || got != want {
			t.Errorf("%q: %#x, %v", s, got, err)
		}
	}
	for _, s := range []string{"x", "1.2.3.4", "1..2", "70000", "-1"} {
		if _, err := parseFWVer(s); err == nil {
			t.Errorf("%q accepted", s)
		}
	}
}

// TestRegMR: rights, ranges, and what is answered for them.
func TestRegMR(t *testing.T) {
	const lw, rw, rr, ra, mwb, zb, od, huge = rxe.AccessLocalWrite, rxe.AccessRemoteWrite, rxe.AccessRemoteRead,
		rxe.AccessRemoteAtomic, rxe.AccessMWBind, rxe.AccessZeroBased, rxe.AccessOnDemand, rxe.AccessHugeTLB
	all := uint64(programSize)
	for _, tc := range []struct {
		name         string
		addr, length uint64
		iova         int64 // from addr
		access       rxe.Access
		want         error
		rkey         bool
	}{
		{"nothing", programBase, 100, 0, 0, nil, false},
		{"local write", programBase, all, 0, lw, nil, false},
		{"remote read", programBase + 5, 1, 0, rr, nil, true},
		{"everything", programBase, 100, 0, lw | rw | rr | ra | mwb | huge, nil, true},
		{"relaxed", programBase, 100, 0, lw | rxe.AccessRelaxed, nil, false},
		{"optional, unknown", programBase, 100, 0, lw | 1<<29, nil, false},
		{"unknown", programBase, 100, 0, lw | 1<<19, unix.EINVAL, false},
		{"beyond optional", programBase, 100, 0, lw | 1<<30, unix.EINVAL, false},
		{"remote write alone", programBase, 100, 0, rw, unix.EINVAL, false},
		{"remote atomic alone", programBase, 100, 0, ra, unix.EINVAL, false},
		{"zero based", programBase, 100, 0, zb | rr, nil, true},
		{"iova elsewhere", programBase + 5, 100, 1 << 20, rr, nil, true},
		{"iova at another offset", programBase + 5, 100, 1, rr, unix.EINVAL, false},
		{"no memory", programBase - 4096, 100, 0, lw, unix.EFAULT, false},
		{"beyond memory", programBase, all + 1, 0, lw, unix.EFAULT, false},
		{"empty at a page", programBase, 0, 0, lw, unix.EINVAL, false},
		{"empty elsewhere", programBase + 1, 0, 0, lw, nil, false},
		{"wraps", 1<<64 - 4096, 8192, 0, lw, unix.EINVAL, false},
		{"ends at the end", 1<<64 - 4096, 4095, 0, lw, unix.EINVAL, false},
		{"on demand, no memory", 4096, 100, 0, od | lw, nil, false},
		{"on demand, everything", 0, 1<<64 - 1, 0, od | lw, nil, false},
		{"on demand, wraps", 4096, 1<<64 - 1, 0, od | lw, unix.EINVAL, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			eachForm(t, func(t *testing.T, u *user, d *Device, engine *rxe.Device) {
				req := uapi.RegMRReq{Start: tc.addr, Length: tc.length, HCAVA: tc.addr + uint64(tc.iova),
					PDHandle: u.allocPD(), AccessFlags: uint32(tc.access)}
				a, err := u.form.call(u.program, verb{cmd: uapi.CmdRegMR, req: bytesFrom(req), resp: uapi.SizeOf[uapi.RegMRResp]()})
				if err != tc.want {
					t.Fatalf("%v, not %v", err, tc.want)
				}
				if err != nil {
					return
				}
				r := core[uapi.RegMRResp](a)
				if (r.RKey != 0) != tc.rkey || r.RKey != 0 && r.RKey != r.LKey || r.LKey == 0 {
					t.Errorf("%+v", r)
				}
			})
		})
	}
}

func TestReregMR(t *testing.T) {
	eachForm(t, func(t *testing.T, u *user, d *Device, engine *rxe.Device) {
		pd, pd2 := u.allocPD(), u.allocPD()
		mr := u.regMR(pd, programData, 4096, rxe.AccessLocalWrite)
		rereg := func(req uapi.ReregMRReq) (uapi.ReregMRResp, error) {
			req.MRHandle = mr.MRHandle
			a, err := u.form.call(u.program, verb{cmd: uapi.CmdReregMR, req: bytesFrom(req), resp: uapi.SizeOf[uapi.ReregMRResp]()})
			return core[uapi.ReregMRResp](a), err
		}
		for _, tc := range []struct {
			req  uapi.ReregMRReq
			want error
		}{
			{uapi.ReregMRReq{}, unix.EINVAL},
			{uapi.ReregMRReq{Flags: 8}, unix.EOPNOTSUPP},
			{uapi.ReregMRReq{Flags: 1, Start: programData, HCAVA: programData + 1}, unix.EINVAL},
			{uapi.ReregMRReq{Flags: 1, Start: 4096, HCAVA: 4096, Length: 1}, unix.EFAULT},
			{uapi.ReregMRReq{Flags: 2, PDHandle: 99}, unix.ENOENT},
			{uapi.ReregMRReq{Flags: 4, AccessFlags: uint32(rxe.AccessRemoteWrite)}, unix.EINVAL},
			{uapi.ReregMRReq{Flags: 4, AccessFlags: uint32(rxe.AccessLocalWrite | rxe.AccessRemoteRead)}, nil},
			{uapi.ReregMRReq{Flags: 2, PDHandle: pd2}, nil},
			{uapi.ReregMRReq{Flags: 7, PDHandle: pd, Start: programData, HCAVA: programData, Length: 9000, AccessFlags: 1}, nil},
		} {
			r, err := rereg(tc.req)
			if err != tc.want {
				t.Errorf("%+v: %v", tc.req, err)
			}
			if err == nil && r.LKey == 0 {
				t.Errorf("%+v: %+v", tc.req, r)
			}
		}
		s := u.f.Status()
		if len(s.MRs) != 1 || s.MRs[0].Length != 9000 || s.MRs[0].RKey != 0 {
			t.Errorf("%+v", s.MRs)
		}
		u.call(destroyVerb(uapi.CmdDeallocPD, pd2))
		// A region with a window on it stays.
		e := newEndpoint(t, u, rxe.QPRC)
		e.connect(e.qp, rxe.QPRC, e.qpn)
		mw := u.allocMW(e.pd, 2)
		e.send.PostSend(&librxeclient.SendWR{SendWR: rxe.SendWR{ID: 1, Op: rxe.WRBindMW, Flags: rxe.SendSignaled},
			MWRKey: mw.RKey, BindRKey: mw.RKey + 1, MRLKey: e.mr.LKey, BindAddr: programData, BindLength: 10, BindAccess: uint32(rxe.AccessRemoteRead)})
		e.call(doorbellVerb(e.qp))
		if _, err := u.form.call(u.program, destroyVerb(uapi.CmdDeregMR, e.mr.MRHandle)); err != unix.EINVAL {
			t.Errorf("dereg under a window: %v", err)
		}
		u.call(destroyVerb(uapi.CmdDeallocMW, mw.MWHandle))
		u.call(destroyVerb(uapi.CmdDeregMR, e.mr.MRHandle))
	})
}

// TestCQ: sizes, and a resize that keeps what waits.
func TestCQ(t *testing.T) {
	eachForm(t, func(t *testing.T, u *user, d *Device, engine *rxe.Device) {
		for _, tc := range []struct{ ask, get uint32 }{{1, 1}, {2, 3}, {3, 3}, {4, 7}, {32767, 32767}} {
			r, mi := u.createCQ(tc.ask, -1, 0)
			if r.CQE != tc.get || mi.Offset == 0 || mi.Size == 0 {
				t.Errorf("%d entries: %+v %+v", tc.ask, r, mi)
			}
			u.call(destroyVerb(uapi.CmdDestroyCQ, r.CQHandle))
		}
		for _, cqe := range []uint32{0, 32768, 1 << 31} {
			if _, err := u.form.call(u.program, createCQVerb(uapi.CreateCQReq{CQE: cqe, CompChannel: -1})); err != unix.EINVAL {
				t.Errorf("%d entries: %v", cqe, err)
			}
		}
		if _, err := u.form.call(u.program, createCQVerb(uapi.CreateCQReq{CQE: 1, CompChannel: 3})); err != unix.EBADF {
			t.Errorf("no channel: %v", err)
		}
		async := uapi.CreateCQReq{CQE: 1, CompChannel: firstFD(u.program)}
		if _, err := u.form.call(u.program, createCQVerb(async)); err != unix.EBADF {
			t.Errorf("asynchronous events for a channel: %v", err)
		}

		e := newEndpoint(t, u, rxe.QPRC)
		e.connect(e.qp, rxe.QPRC, e.qpn)
		for id := range uint64(5) {
			e.send.PostSend(&librxeclient.SendWR{SendWR: rxe.SendWR{ID: id, Op: rxe.WRWrite, RemoteAddr: programData, RKey: wire.RKey(e.mr.RKey)}})
		}
		e.call(doorbellVerb(e.qp))
		resize := func(cqe uint32) (answer, error) {
			req := uapi.ResizeCQReq{CQHandle: e.cq.CQHandle, CQE: cqe}
			return u.form.call(u.program, verb{cmd: uapi.CmdResizeCQ, req: bytesFrom(req), resp: 8, uhwResp: 16})
		}
		for _, cqe := range []uint32{0, 2, 32768} { // 2: five wait
			if _, err := resize(cqe); err != unix.EINVAL {
				t.Errorf("resize to %d: %v", cqe, err)
			}
		}
		a, err := resize(100)
		e.ok(err)
		if r := core[uapi.ResizeCQResp](a); r.CQE != 127 {
			t.Errorf("%+v", r)
		}
		mi := uhw[librxe.MMInfo](a)
		comp := librxeclient.Map(t, u.f.FD(), mi.Offset, mi.Size)
		for id := range uint64(5) {
			if wc, ok := comp.Poll(); !ok || wc.ID != id || wc.Status != 0 {
				t.Fatalf("completion %d: %+v %v", id, wc, ok)
			}
		}
	})
}

func firstFD(p *program) int32 {
	for fd := range p.fds {
		return fd
	}
	return -1
}

// TestSRQ: sizes, resize, and the limit event.
func TestSRQ(t *testing.T) {
	eachForm(t, func(t *testing.T, u *user, d *Device, engine *rxe.Device) {
		pd := u.allocPD()
		for _, tc := range []struct {
			req  uapi.CreateSRQReq
			want error
		}{
			{uapi.CreateSRQReq{MaxWR: 0}, unix.EINVAL}, {uapi.CreateSRQReq{MaxWR: 1<<20 + 1}, unix.EINVAL},
			{uapi.CreateSRQReq{MaxWR: 1, MaxSGE: 28}, unix.EINVAL}, {uapi.CreateSRQReq{MaxWR: 1, MaxSGE: 27}, nil},
		} {
			tc.req.PDHandle = pd
			a, err := u.form.call(u.program, createSRQVerb(tc.req))
			if err != tc.want {
				t.Errorf("%+v: %v", tc.req, err)
			}
			if err == nil {
				u.call(destroyVerb(uapi.CmdDestroySRQ, core[uapi.CreateSRQResp](a).SRQHandle))
			}
		}
		for typ, want := range map[uint32]error{1: unix.EINVAL, 3: unix.EOPNOTSUPP} {
			req := uapi.CreateXSRQReq{SRQType: typ, PDHandle: pd, MaxWR: 1}
			if _, err := u.form.call(u.program, verb{cmd: uapi.CmdCreateXSRQ, req: bytesFrom(req), resp: 16, uhwResp: 24}); err != want {
				t.Errorf("type %d: %v", typ, err)
			}
		}
		srq, mi := u.createSRQ(pd, 10, 0)
		if srq.MaxWR != 15 || srq.MaxSGE != 2 {
			t.Errorf("%+v", srq)
		}
		q := librxeclient.Map(t, u.f.FD(), mi.Offset, mi.Size)
		for id := range uint64(5) {
			q.PostRecv(id)
		}
		modify := func(req uapi.ModifySRQReq, uhw []byte) error {
			req.SRQHandle = srq.SRQHandle
			_, err := u.form.call(u.program, verb{cmd: uapi.CmdModifySRQ, req: bytesFrom(req), uhw: uhw})
			return err
		}
		place := bytesFrom(librxe.ModifySRQCmd{MmapInfoAddr: programData})
		for _, tc := range []struct {
			req  uapi.ModifySRQReq
			uhw  []byte
			want error
		}{
			{uapi.ModifySRQReq{}, nil, unix.EINVAL}, // an old librxe
			{uapi.ModifySRQReq{}, place, nil},
			{uapi.ModifySRQReq{AttrMask: 1, MaxWR: 0}, place, unix.EINVAL},
			{uapi.ModifySRQReq{AttrMask: 1, MaxWR: 3}, place, unix.EINVAL}, // five wait
			{uapi.ModifySRQReq{AttrMask: 1, MaxWR: 100}, bytesFrom(librxe.ModifySRQCmd{MmapInfoAddr: 8}), unix.EFAULT},
			{uapi.ModifySRQReq{AttrMask: 2, SRQLimit: 16}, place, unix.EINVAL},
			{uapi.ModifySRQReq{AttrMask: 3, MaxWR: 100, SRQLimit: 101}, place, unix.EINVAL},
			{uapi.ModifySRQReq{AttrMask: 3, MaxWR: 100, SRQLimit: 100}, place, nil},
			{uapi.ModifySRQReq{AttrMask: 1, MaxWR: 50}, place, unix.EINVAL}, // below the limit
		} {
			if err := modify(tc.req, tc.uhw); err != tc.want {
				t.Errorf("%+v: %v, not %v", tc.req, err, tc.want)
			}
		}
		r := core[uapi.QuerySRQResp](u.call(verb{cmd: uapi.CmdQuerySRQ, req: bytesFrom(uapi.QuerySRQReq{SRQHandle: srq.SRQHandle}), resp: 16}))
		if r.MaxWR != 127 || r.MaxSGE != 2 || r.SRQLimit != 100 {
			t.Errorf("%+v", r)
		}
		moved := uapi.Load[librxe.MMInfo](u.mem.Bytes(programData, 16))
		q = librxeclient.Map(t, u.f.FD(), moved.Offset, moved.Size)
		if n := (q.Producer() - q.Consumer()) & q.Mask(); n != 5 {
			t.Errorf("%d requests wait", n)
		}
	})
}

// TestCreateQP: sizes and types.
func TestCreateQP(t *testing.T) {
	eachForm(t, func(t *testing.T, u *user, d *Device, engine *rxe.Device) {
		pd := u.allocPD()
		cq, _ := u.createCQ(4, -1, 0)
		for _, tc := range []struct {
			name string
			edit func(r *uapi.CreateQPReq)
			want error
		}{
			{"as it should be", func(r *uapi.CreateQPReq) {}, nil},
			{"empty queues", func(r *uapi.CreateQPReq) {
				r.MaxSendWR, r.MaxRecvWR, r.MaxSendSGE, r.MaxRecvSGE, r.MaxInlineData = 0, 0, 0, 0, 0
			}, nil},
			{"send_wr", func(r *uapi.CreateQPReq) { r.MaxSendWR = 1<<20 + 1 }, unix.EINVAL},
			{"recv_wr", func(r *uapi.CreateQPReq) { r.MaxRecvWR = 1<<20 + 1 }, unix.EINVAL},
			{"send_sge", func(r *uapi.CreateQPReq) { r.MaxSendSGE = 33 }, unix.EINVAL},
			{"recv_sge", func(r *uapi.CreateQPReq) { r.MaxRecvSGE = 33 }, unix.EINVAL},
			{"inline", func(r *uapi.CreateQPReq) { r.MaxInlineData = 513 }, unix.EINVAL},
			{"type 0", func(r *uapi.CreateQPReq) { r.QPType = 0 }, unix.EINVAL},
			{"type 1", func(r *uapi.CreateQPReq) { r.QPType = 1 }, unix.EINVAL},
			{"raw packet", func(r *uapi.CreateQPReq) { r.QPType = uapi.QPTypeRawPacket }, unix.EOPNOTSUPP},
			{"XRC ini", func(r *uapi.CreateQPReq) { r.QPType = uapi.QPTypeXRCIni }, unix.EOPNOTSUPP},
			{"XRC tgt", func(r *uapi.CreateQPReq) { r.QPType = uapi.QPTypeXRCTgt }, unix.EINVAL},
			{"driver", func(r *uapi.CreateQPReq) { r.QPType = uapi.QPTypeDriver }, unix.EOPNOTSUPP},
			{"no SRQ", func(r *uapi.CreateQPReq) { r.IsSRQ, r.SRQHandle = 1, 77 }, unix.ENOENT},
			{"no send CQ", func(r *uapi.CreateQPReq) { r.SendCQHandle = 77 }, unix.ENOENT},
			{"no recv CQ", func(r *uapi.CreateQPReq) { r.RecvCQHandle = 77 }, unix.ENOENT},
		} {
			t.Run(tc.name, func(t *testing.T) {
				u.t = t
				req := qpReq(rxe.QPUD, pd, cq.CQHandle)
				tc.edit(&req)
				a, err := u.form.call(u.program, createQPVerb(req))
				if err != tc.want {
					t.Fatalf("%v, not %v", err, tc.want)
				}
				if err != nil {
					return
				}
				r := core[uapi.CreateQPResp](a)
				if r.MaxSendWR < req.MaxSendWR || r.MaxRecvWR < req.MaxRecvWR || r.MaxSendSGE < req.MaxSendSGE ||
					r.MaxRecvSGE < req.MaxRecvSGE || r.MaxInlineData < req.MaxInlineData {
					t.Errorf("%+v for %+v", r, req)
				}
				q := u.queryQP(r.QPHandle)
				if q.MaxSendWR != r.MaxSendWR || q.MaxRecvWR != r.MaxRecvWR || q.MaxSendSGE != r.MaxSendSGE ||
					q.MaxRecvSGE != r.MaxRecvSGE || q.MaxInlineData != r.MaxInlineData || q.SQSigAll != 1 || q.PathMTU != 1 {
					t.Errorf("query %+v, create %+v", q, r)
				}
				u.call(destroyVerb(uapi.CmdDestroyQP, r.QPHandle))
			})
		}
		u.t = t
		for name, v := range map[string]verb{
			"no room for librxe": {cmd: uapi.CmdCreateQP, req: bytesFrom(qpReq(rxe.QPRC, pd, cq.CQHandle)), resp: 32, uhwResp: 24},
			"more from librxe":   {cmd: uapi.CmdCreateQP, req: bytesFrom(qpReq(rxe.QPRC, pd, cq.CQHandle)), resp: 32, uhwResp: 32, uhw: make([]byte, 8)},
		} {
			if _, err := u.form.call(u.program, v); err != unix.EINVAL {
				t.Errorf("%s: %v", name, err)
			}
		}
		for i, want := range []error{unix.EOPNOTSUPP, unix.EINVAL, unix.EINVAL} {
			req := uapi.ExCreateQPReq{PDHandle: pd, SendCQHandle: cq.CQHandle, RecvCQHandle: cq.CQHandle, QPType: uapi.QPTypeUD}
			switch i {
			case 0:
				req.CreateFlags = uapi.QPCreateBlockMulticastLoopback
			case 1:
				req.CompMask = 2
			case 2:
				req.CompMask = uapi.CreateQPMaskIndTable
			}
			if _, err := u.form.call(u.program, verb{cmd: uapi.CmdCreateQP | uapi.CmdExtended, req: bytesFrom(req), resp: 40, uhwResp: 32}); err != want {
				t.Errorf("extended %d: %v", i, err)
			}
		}
	})
}

// TestQPByAttributes: QP_CREATE and the errno of what it checks itself
// (uverbs_std_types_qp.c).
func TestQPByAttributes(t *testing.T) {
	d, _ := newDevice(t)
	u := &user{opened(t, d), forms[1]}
	pd := u.allocPD()
	cq, _ := u.createCQ(4, -1, 0)
	srq, _ := u.createSRQ(pd, 4, 0)
	for _, tc := range []struct {
		name string
		edit func(l []uapi.IoctlAttr) []uapi.IoctlAttr
		want error
	}{
		{"as it should be", func(l []uapi.IoctlAttr) []uapi.IoctlAttr { return l }, nil},
		{"with SRQ", func(l []uapi.IoctlAttr) []uapi.IoctlAttr { return append(l, obj(uapi.AttrCreateQPSRQ, srq.SRQHandle)) }, nil},
		{"signals all", func(l []uapi.IoctlAttr) []uapi.IoctlAttr {
			return append(l, num32(uapi.AttrCreateQPFlags, uapi.QPCreateSQSigAll))
		}, nil},
		{"no PD", func(l []uapi.IoctlAttr) []uapi.IoctlAttr { return l[1:] }, unix.ENOENT},
		{"no send CQ", func(l []uapi.IoctlAttr) []uapi.IoctlAttr { return append(l[:1:1], l[2:]...) }, unix.ENOENT},
		{"no recv CQ", func(l []uapi.IoctlAttr) []uapi.IoctlAttr { return append(l[:2:2], l[3:]...) }, unix.ENOENT},
		{"unknown type", func(l []uapi.IoctlAttr) []uapi.IoctlAttr { l[3].Data = 7; return l }, unix.EINVAL},
		{"huge type", func(l []uapi.IoctlAttr) []uapi.IoctlAttr { l[3].Data = 1<<32 + uapi.QPTypeRC; return l }, unix.EINVAL},
		{"XRC target", func(l []uapi.IoctlAttr) []uapi.IoctlAttr { l[3].Data = uapi.QPTypeXRCTgt; return l }, unix.ENOENT},
		{"XRC domain", func(l []uapi.IoctlAttr) []uapi.IoctlAttr { return append(l, obj(uapi.AttrCreateQPXRCD, 0)) }, unix.EINVAL},
		{"indirection table", func(l []uapi.IoctlAttr) []uapi.IoctlAttr { return append(l, obj(uapi.AttrCreateQPIndTable, 0)) }, unix.EINVAL},
		{"flag for others", func(l []uapi.IoctlAttr) []uapi.IoctlAttr {
			return append(l, num32(uapi.AttrCreateQPFlags, uapi.QPCreateBlockMulticastLoopback))
		}, unix.EINVAL},
		{"unknown flag", func(l []uapi.IoctlAttr) []uapi.IoctlAttr { return append(l, num32(uapi.AttrCreateQPFlags, 1)) }, unix.EINVAL},
		{"source QPN", func(l []uapi.IoctlAttr) []uapi.IoctlAttr { return append(l, num32(uapi.AttrCreateQPSourceQPN, 1)) }, unix.EOPNOTSUPP},
		{"no descriptor", func(l []uapi.IoctlAttr) []uapi.IoctlAttr { return append(l, fdAttr(uapi.AttrCreateQPEventFD, 3)) }, unix.EBADF},
	} {
		t.Run(tc.name, func(t *testing.T) {
			u.t = t
			u.reset()
			qpCaps := uapi.QPCap{MaxSendWR: 4, MaxRecvWR: 4, MaxSendSGE: 1, MaxRecvSGE: 1}
			l := tc.edit([]uapi.IoctlAttr{obj(uapi.AttrCreateQPPD, pd), obj(uapi.AttrCreateQPSendCQ, cq.CQHandle), obj(uapi.AttrCreateQPRecvCQ, cq.CQHandle),
				num(uapi.AttrCreateQPType, uapi.QPTypeRC), newObj(uapi.AttrCreateQPHandle), num(uapi.AttrCreateQPUserHandle, 9),
				u.in(uapi.AttrCreateQPCap, uapi.BytesOf(&qpCaps)), u.out(uapi.AttrCreateQPRespCap, 20), u.out(uapi.AttrCreateQPRespQPNum, 4), u.out(uapi.AttrUHWOut, 32)})
			err := u.ioctlList(uapi.ObjQP, uapi.MethodQPCreate, l)
			if err != tc.want {
				t.Fatalf("%v, not %v", err, tc.want)
			}
			if err != nil {
				return
			}
			if c := get[uapi.QPCap](u.program, l[7]); c.MaxSendWR != 7 || get[uint32](u.program, l[8]) == 0 {
				t.Errorf("%+v", c)
			}
			u.reset()
			out := []uapi.IoctlAttr{obj(uapi.AttrDestroyHandle, uint32(l[4].Data)), u.out(uapi.AttrDestroyResp, 4)}
			u.ok(u.ioctlList(uapi.ObjQP, uapi.MethodQPDestroy, out))
			if n := get[uint32](u.program, out[1]); n != 0 {
				t.Errorf("%d events reported", n)
			}
		})
	}
}

// TestModifyQP: what is refused, and what a query gives back.
func TestModifyQP(t *testing.T) {
	eachForm(t, func(t *testing.T, u *user, d *Device, engine *rxe.Device) {
		pd := u.allocPD()
		cq, _ := u.createCQ(4, -1, 0)
		qp, _ := u.createQP(rxe.QPRC, pd, cq.CQHandle)
		good := connectReqs(qp.QPHandle, rxe.QPRC, 0x1000123)
		try := func(req uapi.ModifyQPReq) error {
			_, err := u.form.call(u.program, modifyVerb(req))
			return err
		}
		for i, edits := range [][]struct {
			name string
			edit func(r *uapi.ModifyQPReq)
			want error
		}{
			{
				{"port", func(r *uapi.ModifyQPReq) { r.PortNum = 2 }, unix.EINVAL},
				{"attribute beyond the known", func(r *uapi.ModifyQPReq) { r.AttrMask |= 1 << 21 }, unix.EOPNOTSUPP},
				{"state beyond", func(r *uapi.ModifyQPReq) { r.QPState = 7 }, unix.EINVAL},
				{"no such step", func(r *uapi.ModifyQPReq) { r.QPState = 3 }, unix.EINVAL},
				{"missing", func(r *uapi.ModifyQPReq) { r.AttrMask &^= uint32(rxe.QPAttrPort) }, unix.EINVAL},
				{"pkey", func(r *uapi.ModifyQPReq) { r.PKeyIndex = 1 }, unix.EINVAL},
				{"cur state beyond", func(r *uapi.ModifyQPReq) { r.AttrMask |= 2; r.CurQPState = 9 }, unix.EINVAL},
				{"", func(r *uapi.ModifyQPReq) { r.QPAccessFlags |= 1 << 31 }, nil},
			}, {
				{"alternate path", func(r *uapi.ModifyQPReq) { r.AttrMask |= uint32(rxe.QPAttrAltPath) }, unix.EINVAL},
				{"no GRH", func(r *uapi.ModifyQPReq) { r.Dest.IsGlobal = 0 }, unix.EINVAL},
				{"port of the address", func(r *uapi.ModifyQPReq) { r.Dest.PortNum = 2 }, unix.EINVAL},
				{"source GID", func(r *uapi.ModifyQPReq) { r.Dest.SGIDIndex = 1 }, unix.ENODATA},
				{"MTU 0", func(r *uapi.ModifyQPReq) { r.PathMTU = 0 }, unix.EINVAL},
				{"MTU 6", func(r *uapi.ModifyQPReq) { r.PathMTU = 6 }, unix.EINVAL},
				{"too many READs", func(r *uapi.ModifyQPReq) { r.MaxDestRdAtomic = 129 }, unix.EINVAL},
				{"", func(r *uapi.ModifyQPReq) { r.RQPSN = 0xff000001 }, nil},
			}, {
				{"timeout", func(r *uapi.ModifyQPReq) { r.Timeout = 32 }, unix.EINVAL},
				{"too many READs", func(r *uapi.ModifyQPReq) { r.MaxRdAtomic = 129 }, unix.EINVAL},
				{"migration", func(r *uapi.ModifyQPReq) { r.AttrMask |= uint32(rxe.QPAttrPathMigState); r.PathMigState = 1 }, unix.EINVAL},
				{"", func(r *uapi.ModifyQPReq) { r.AttrMask |= uint32(rxe.QPAttrPathMigState) }, nil},
			},
		} {
			for _, tc := range edits {
				req := good[i]
				tc.edit(&req)
				if err := try(req); err != tc.want {
					t.Errorf("step %d, %s: %v, not %v", i, tc.name, err, tc.want)
				}
			}
		}
		q := u.queryQP(qp.QPHandle)
		if q.QPState != 3 || q.PathMTU != 3 || q.RQPSN != 1 || q.DestQPNum != 0x123 || q.Timeout != 14 || q.RetryCnt != 7 ||
			q.RNRRetry != 7 || q.MinRNRTimer != 1 || q.MaxRdAtomic != 4 || q.MaxDestRdAtomic != 4 || q.PortNum != 1 {
			t.Errorf("%+v", q)
		}
		if q.Dest != good[1].Dest {
			t.Errorf("destination %+v, not %+v", q.Dest, good[1].Dest)
		}
		// Back to RESET: the queues are empty.
		u.call(modifyVerb(uapi.ModifyQPReq{QPHandle: qp.QPHandle, AttrMask: 1}))
		if q := u.queryQP(qp.QPHandle); q.QPState != 0 {
			t.Errorf("state %d", q.QPState)
		}
		ex := uapi.ExModifyQPReq{Base: good[0]}
		if _, err := u.form.call(u.program, verb{cmd: uapi.CmdModifyQP | uapi.CmdExtended, req: bytesFrom(ex), resp: 8}); err != nil {
			t.Error(err)
		}
		ex.Base.AttrMask |= 1 << 25 // rate limit
		if _, err := u.form.call(u.program, verb{cmd: uapi.CmdModifyQP | uapi.CmdExtended, req: bytesFrom(ex), resp: 8}); err != unix.EOPNOTSUPP {
			t.Error(err)
		}
	})
}

func TestCreateAH(t *testing.T) {
	eachForm(t, func(t *testing.T, u *user, d *Device, engine *rxe.Device) {
		pd := u.allocPD()
		v4 := wire.GIDFromAddr(rxedev.Addr)
		for _, tc := range []struct {
			name string
			attr uapi.AHAttr
			want error
		}{
			{"no GRH", uapi.AHAttr{DGID: v4, PortNum: 1}, unix.EINVAL},
			{"port", uapi.AHAttr{DGID: v4, PortNum: 0, IsGlobal: 1}, unix.EINVAL},
			{"source GID", uapi.AHAttr{DGID: v4, PortNum: 1, IsGlobal: 1, SGIDIndex: 9}, unix.ENODATA},
			{"no destination", uapi.AHAttr{PortNum: 1, IsGlobal: 1}, unix.EINVAL},
			{"other IP version", uapi.AHAttr{DGID: [16]byte{0: 0xfd, 15: 1}, PortNum: 1, IsGlobal: 1}, unix.EINVAL},
			{"multicast", uapi.AHAttr{DGID: [16]byte{10: 0xff, 11: 0xff, 12: 224, 15: 1}, PortNum: 1, IsGlobal: 1}, nil},
		} {
			v := verb{cmd: uapi.CmdCreateAH, req: bytesFrom(uapi.CreateAHReq{PDHandle: pd, Attr: tc.attr}), resp: 4, uhwResp: 8}
			if _, err := u.form.call(u.program, v); err != tc.want {
				t.Errorf("%s: %v, not %v", tc.name, err, tc.want)
			}
		}
		_, num := u.createAH(pd)
		if engine.AH(num) == nil {
			t.Errorf("no handle %d", num)
		}
		// An old librxe has no room for the number.
		v := createAHVerb(pd, v4)
		v.uhwResp = 0
		u.call(v)
	})
}

// TestAsyncEvents: each descriptor gets the events of its objects, and the daemon counts
// those that the program has read.
func TestAsyncEvents(t *testing.T) {
	eachForm(t, func(t *testing.T, u *user, d *Device, engine *rxe.Device) {
		async := u.real(firstFD(u.program))
		other := opened(t, d)
		o := u.makeAll()
		obj := func(h uint32) *dispatch.Object { return u.f.objects.Lookup(h) }
		qp, cq, srq := obj(o.qp).Res.(*qpRes).qp, obj(o.cq).Res.(*cqRes).cq, obj(o.srq).Res.(*srqRes).srq

		d.Event(rxe.Event{Type: rxe.EventQPAccessErr, QP: qp})
		d.Event(rxe.Event{Type: rxe.EventCQErr, CQ: cq})
		d.Event(rxe.Event{Type: rxe.EventSRQLimitReached, SRQ: srq})
		d.Event(rxe.Event{Type: rxe.EventPortErr, Port: 1})
		d.Event(rxe.Event{Type: rxe.EventQPReqErr, QP: qp})
		for i, want := range []struct {
			element uint64
			typ     uint32
		}{{0x99, 3}, {0xc9, 0}, {0x5105, 15}, {1, 10}} {
			var b [16]byte
			if n, err := unix.Read(async, b[:]); n != 16 || err != nil {
				t.Fatalf("event %d: %d %v", i, n, err)
			}
			if e, typ := uapi.Load[uint64](b[:]), uapi.Load[uint32](b[8:]); e != want.element || typ != want.typ {
				t.Errorf("event %d: %#x %d, not %+v", i, e, typ, want)
			}
		}
		// The other program has the port's alone.
		var b [64]byte
		if n, err := unix.Read(other.real(firstFD(other)), b[:]); n != 16 || err != nil || uapi.Load[uint32](b[8:]) != 10 {
			t.Errorf("other: %d %v %x", n, err, b[:16])
		}
		// One of two events of the QP was read.
		if r := core[uapi.DestroyResp](u.call(destroyVerb(uapi.CmdDestroyQP, o.qp))); r.EventsReported != 1 {
			t.Errorf("QP: %+v", r)
		}
		if r := core[uapi.DestroyCQResp](u.call(destroyVerb(uapi.CmdDestroyCQ, o.cq))); r.AsyncEventsReported != 1 || r.CompEventsReported != 0 {
			t.Errorf("CQ: %+v", r)
		}
		if r := core[uapi.DestroyResp](u.call(destroyVerb(uapi.CmdDestroySRQ, o.srq))); r.EventsReported != 1 {
			t.Errorf("SRQ: %+v", r)
		}
		d.Event(rxe.Event{Type: rxe.EventQPFatal, QP: qp}) // late
		if n := len(d.owners); n != 1 {                    // o.cq2
			t.Errorf("%d owners left", n)
		}
	})
}

// TestMTU: every MTU of the enum, and none else.
func TestMTU(t *testing.T) {
	for enum := range 256 {
		m := mtuBytes(uint8(enum))
		if valid := enum >= 1 && enum <= 5; m.Valid() != valid || valid && mtuEnum(m) != uint8(enum) {
			t.Errorf("%d: %d bytes", enum, m)
		}
	}
	if mtuEnum(0) != 1 {
		t.Error(fmt.Sprint(mtuEnum(0)))
	}
}
