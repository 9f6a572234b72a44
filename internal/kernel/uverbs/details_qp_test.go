package uverbs

import (
	"fmt"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/kernel/dispatch"
	"github.com/gorxe/gorxe/internal/kernel/uapi"
	"github.com/gorxe/gorxe/internal/test/rxedev"
	"github.com/gorxe/gorxe/rxe"
	"github.com/gorxe/gorxe/wire"
)

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
		m := rxe.MTUOf(uint8(enum))
		if valid := enum >= 1 && enum <= 5; m.Valid() != valid || valid && mtuEnum(m) != uint8(enum) {
			t.Errorf("%d: %d bytes", enum, m)
		}
	}
	if mtuEnum(0) != 1 {
		t.Error(fmt.Sprint(mtuEnum(0)))
	}
}

// TestPrivilegedQKey: only a program that may send raw packets gives its queue pair a Q_Key with
// the top bit, such as that of queue pair 1. Others keep the Q_Key that they have.
func TestPrivilegedQKey(t *testing.T) {
	eachForm(t, func(t *testing.T, u *user, d *Device, engine *rxe.Device) {
		pd := u.allocPD()
		cq, _ := u.createCQ(4, -1, 0)
		qp, _ := u.createQP(rxe.QPUD, pd, cq.CQHandle)
		steps := connectReqs(qp.QPHandle, rxe.QPUD, 0)
		modify := func(req uapi.ModifyQPReq, qkey uint32, want error) {
			t.Helper()
			req.QKey = qkey
			if _, err := u.form.call(u.program, modifyVerb(req)); err != want {
				t.Errorf("Q_Key %#x in state %d: %v, not %v", qkey, req.QPState, err, want)
			}
		}
		modify(steps[0], 1<<31, unix.EPERM)
		modify(steps[0], rxe.GSIQKey, unix.EPERM)
		modify(steps[0], 1<<31-1, nil)
		again := steps[1] // RTR, which may change it
		again.AttrMask |= uint32(rxe.QPAttrQKey)
		modify(again, rxe.GSIQKey, unix.EPERM)
		modify(steps[1], rxe.GSIQKey, nil) // the mask leaves it out
		if q := u.queryQP(qp.QPHandle); q.QKey != 1<<31-1 {
			t.Errorf("Q_Key %#x", q.QKey)
		}
		u.raw = true
		again = steps[2]
		again.AttrMask |= uint32(rxe.QPAttrQKey)
		modify(again, rxe.GSIQKey, nil)
		if q := u.queryQP(qp.QPHandle); q.QKey != rxe.GSIQKey {
			t.Errorf("Q_Key %#x", q.QKey)
		}
	})
}
