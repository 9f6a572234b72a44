package uverbs

import (
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/kernel/dispatch"
	"github.com/gorxe/gorxe/internal/kernel/uapi"
	"github.com/gorxe/gorxe/internal/provider/librxe"
	"github.com/gorxe/gorxe/internal/test/librxeclient"
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
		s := u.f.Status(100)
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
		if _, err := u.form.call(u.program, destroyVerb(uapi.CmdDeregMR, e.mr.MRHandle)); err != unix.EBUSY {
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
