package uverbs

import (
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/kernel/uapi"
	"github.com/gorxe/gorxe/internal/test/librxeclient"
	"github.com/gorxe/gorxe/internal/test/rxedev"
	"github.com/gorxe/gorxe/rxe"
	"github.com/gorxe/gorxe/wire"
)

// TestShortDestroyCQ: rdma-core 18 and 19 say that DESTROY_CQ has 16 bytes, and
// mean 24.
func TestShortDestroyCQ(t *testing.T) {
	d, _ := newDevice(t)
	u := &user{opened(t, d), forms[0]}
	cq, _ := u.createCQ(4, -1, 0)
	u.reset()
	out := u.room(8)
	b := append(bytesFrom(uapi.CmdHdr{Command: uapi.CmdDestroyCQ, InWords: 4, OutWords: 2}), bytesFrom(uapi.DestroyReq{Response: out, Handle: cq.CQHandle})...)
	if n, err := u.f.Write(u, u.alloc(b), 16); n != 16 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	if r := uapi.Load[uapi.DestroyCQResp](u.mem.Bytes(out, 8)); r != (uapi.DestroyCQResp{}) {
		t.Errorf("%+v", r)
	}
}

// TestPostSendForm: a POST_SEND with work requests in it is checked and rings
// the doorbell all the same (rxe_post_send for a user's QP).
func TestPostSendForm(t *testing.T) {
	eachForm(t, func(t *testing.T, u *user, d *Device, engine *rxe.Device) {
		e := newEndpoint(t, u, rxe.QPRC)
		post := func(req uapi.PostSendReq, rest []byte) (answer, error) {
			req.QPHandle = e.qp
			return u.form.call(u.program, verb{cmd: uapi.CmdPostSend, req: append(bytesFrom(req), rest...), resp: 4})
		}
		garbage := make([]byte, 64)
		garbage[63] = 1
		for _, tc := range []struct {
			name string
			req  uapi.PostSendReq
			rest []byte
			want error
		}{
			{"doorbell", uapi.PostSendReq{WQESize: 128}, nil, nil},
			{"work request too small", uapi.PostSendReq{WQESize: uapi.SendWRSize - 1}, nil, unix.EINVAL},
			{"work requests missing", uapi.PostSendReq{WQESize: 64, WRCount: 2}, make([]byte, 64), unix.ENOSPC},
			{"very many", uapi.PostSendReq{WQESize: 1 << 31, WRCount: 1 << 31}, make([]byte, 64), unix.ENOSPC},
			{"lists missing", uapi.PostSendReq{WQESize: 64, WRCount: 1, SGECount: 1}, make([]byte, 64), unix.ENOSPC},
			{"all there", uapi.PostSendReq{WQESize: 64, WRCount: 1, SGECount: 1}, make([]byte, 80), nil},
			{"more, zero", uapi.PostSendReq{WQESize: 64}, make([]byte, 64), nil},
			{"more, not zero", uapi.PostSendReq{WQESize: 64}, garbage, unix.EOPNOTSUPP},
		} {
			a, err := post(tc.req, tc.rest)
			if err != tc.want {
				t.Errorf("%s: %v, not %v", tc.name, err, tc.want)
			}
			if err == nil && tc.req.WRCount > 0 && uapi.Load[uint32](a.core) != 0 {
				t.Errorf("%s: bad_wr %x", tc.name, a.core)
			}
		}
		// Before RTS the engine takes none.
		e.send.PostSend(&librxeclient.SendWR{SendWR: rxe.SendWR{Op: rxe.WRWrite, Flags: rxe.SendSignaled}})
		a, err := post(uapi.PostSendReq{WQESize: 64, WRCount: 1}, make([]byte, 64))
		if err != unix.EINVAL || uapi.Load[uint32](a.core) != 1 {
			t.Errorf("in RESET: %v, bad_wr %x", err, a.core)
		}
		// RESET forgets it.
		for _, req := range connectReqs(e.qp, rxe.QPRC, e.qpn)[:1] {
			u.call(modifyVerb(req))
		}
		u.call(modifyVerb(uapi.ModifyQPReq{QPHandle: e.qp, AttrMask: uint32(rxe.QPAttrState)}))
		e.connect(e.qp, rxe.QPRC, e.qpn)
		e.call(doorbellVerb(e.qp))
		if wc, ok := e.comp.Poll(); ok {
			t.Errorf("completion %+v", wc)
		}
	})
}

// TestQueuesReturned: what a queue took is given back when it is destroyed or
// replaced.
func TestQueuesReturned(t *testing.T) {
	eachForm(t, func(t *testing.T, u *user, d *Device, engine *rxe.Device) {
		pieces := u.f.ctx.(interface{ Queues() int }).Queues
		o := u.makeAll() // two CQs, an SRQ, two queues of a QP
		if n := pieces(); n != 5 {
			t.Errorf("%d queues", n)
		}
		u.call(o.verbs()["RESIZE_CQ"])
		u.call(o.verbs()["MODIFY_SRQ"])
		if n := pieces(); n != 5 {
			t.Errorf("%d queues after changing sizes", n)
		}
		for _, v := range []verb{destroyVerb(uapi.CmdDestroyQP, o.qp), destroyVerb(uapi.CmdDestroySRQ, o.srq),
			destroyVerb(uapi.CmdDestroyCQ, o.cq), destroyVerb(uapi.CmdDestroyCQ, o.cq2)} {
			u.call(v)
		}
		if n := pieces(); n != 0 {
			t.Errorf("%d queues left", n)
		}
		// Nor do requests that fail keep any.
		bad := qpReq(rxe.QPRC, o.pd, 77)
		_, _ = u.form.call(u.program, createQPVerb(bad))
		_, _ = u.form.call(u.program, createSRQVerb(uapi.CreateSRQReq{PDHandle: o.pd, MaxWR: 4, SRQLimit: 99}))
		if n := pieces(); n != 0 {
			t.Errorf("%d queues left by failures", n)
		}
	})
}

// TestLaterStructs: a struct from a newer program, whose end is unknown here.
func TestLaterStructs(t *testing.T) {
	d, _ := newDevice(t)
	u := &user{opened(t, d), forms[1]}
	pd := u.allocPD()
	cq, _ := u.createCQ(4, -1, 0)
	for _, last := range []byte{0, 1} {
		u.reset()
		caps := append(bytesFrom(uapi.QPCap{MaxSendWR: 1}), 0, 0, 0, last)
		err := u.ioctl(uapi.ObjQP, uapi.MethodQPCreate, newObj(uapi.AttrCreateQPHandle), obj(uapi.AttrCreateQPPD, pd), obj(uapi.AttrCreateQPSendCQ, cq.CQHandle),
			obj(uapi.AttrCreateQPRecvCQ, cq.CQHandle), num(uapi.AttrCreateQPType, uapi.QPTypeRC), num(uapi.AttrCreateQPUserHandle, 9), u.in(uapi.AttrCreateQPCap, caps),
			u.out(uapi.AttrCreateQPRespCap, 24), u.out(uapi.AttrCreateQPRespQPNum, 4), u.out(uapi.AttrUHWOut, 32))
		if want := map[byte]error{0: nil, 1: unix.EOPNOTSUPP}[last]; err != want {
			t.Errorf("last byte %d: %v", last, err)
		}
	}
}

// TestKeys: a region is found by its present lkey only, a window by its index.
func TestKeys(t *testing.T) {
	d, _ := newDevice(t)
	u := &user{opened(t, d), forms[0]}
	pd := u.allocPD()
	mr, mw := u.regMR(pd, programData, 100, 1), u.allocMW(pd, 2)
	k := &u.f.keys
	if k.mr(mr.LKey) == nil || k.mr(mr.LKey^1) != nil || k.mr(mw.RKey) != nil {
		t.Error("region")
	}
	if k.mw(mw.RKey) == nil || k.mw(mw.RKey^1) == nil || k.mw(mr.LKey) != nil {
		t.Error("window")
	}
	u.call(destroyVerb(uapi.CmdDeregMR, mr.MRHandle))
	u.call(destroyVerb(uapi.CmdDeallocMW, mw.MWHandle))
	if len(k.mrs) != 0 || len(k.mws) != 0 {
		t.Errorf("left: %v %v", k.mrs, k.mws)
	}
}

// TestStatus: all that a program has, as it is.
func TestStatus(t *testing.T) {
	d, engine := newDevice(t)
	u := &user{opened(t, d), forms[0]}
	o := u.makeAll()
	e := newEndpoint(t, u, rxe.QPRC)
	e.connect(e.qp, rxe.QPRC, 0x123)
	group := [16]byte{10: 0xff, 11: 0xff, 12: 224, 15: 9}
	u.call(verb{cmd: uapi.CmdAttachMcast, req: bytesFrom(uapi.McastReq{GID: group, QPHandle: o.qp})})
	s := u.f.Status(100)
	n := engine.Objects()
	if s.PDs != n.PD || s.MWs != n.MW || s.AHs != n.AH || len(s.MRs) != n.MR || len(s.CQs) != n.CQ ||
		len(s.SRQs) != n.SRQ || len(s.QPs) != n.QP || s.Channels != 2 {
		t.Fatalf("%+v, engine %+v", s, n)
	}
	if s.QPs[0].Type != rxe.QPUD || len(s.QPs[0].MulticastGroups) != 1 || s.QPs[0].MulticastGroups[0] != wire.GID(group) {
		t.Errorf("%+v", s.QPs[0])
	}
	if q := s.QPs[1]; q.State != rxe.QPRTS || q.DestQPN != 0x123 || uint32(q.Num) != e.qpn || q.DGID != wire.GIDFromAddr(rxedev.Addr) || len(q.Counters) == 0 {
		t.Errorf("%+v", q)
	}
	if m := s.MRs[1]; m.Addr != programData || m.Length != 128<<10 || m.LKey != e.mr.LKey || m.RKey != e.mr.RKey {
		t.Errorf("%+v", m)
	}
	if s.CQs[0].Entries != 15 || s.SRQs[0].Entries != 15 || s.CQs[0].Waiting != 0 {
		t.Errorf("%+v %+v", s.CQs, s.SRQs)
	}
	if f := s.Fill; f.Send.Size == 0 || f.Recv.Size == 0 || f.CQ.Size < 15 || f.SRQ != (Fill{Size: 15}) || f.Send.Used+f.Recv.Used+f.CQ.Used != 0 {
		t.Errorf("%+v", f)
	}
	few := u.f.Status(3)
	all := LeftOut{MRs: n.MR, CQs: n.CQ, SRQs: n.SRQ, QPs: n.QP}
	if got := few.LeftOut; few.Listed() != 3 || few.MRBytes != s.MRBytes || few.Fill != s.Fill ||
		got.MRs+got.CQs+got.SRQs+got.QPs+len(few.MRs)+len(few.CQs)+len(few.SRQs)+len(few.QPs) != all.MRs+all.CQs+all.SRQs+all.QPs {
		t.Errorf("with room for 3: %+v", few)
	}
	if few := u.f.Status(0); few.LeftOut != all || few.PDs != s.PDs || few.MRBytes == 0 {
		t.Errorf("with no room: %+v", few)
	}
	u.exit()
	if s := u.f.Status(100); s.PDs+len(s.QPs)+s.Channels != 0 {
		t.Errorf("%+v", s)
	}
}
