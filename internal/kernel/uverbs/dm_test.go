package uverbs

import (
	"bytes"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/kernel/dispatch"
	"github.com/gorxe/gorxe/internal/kernel/uapi"
	"github.com/gorxe/gorxe/internal/provider/mlx5"
	"github.com/gorxe/gorxe/internal/provider/profile"
	"github.com/gorxe/gorxe/internal/test/must"
	"github.com/gorxe/gorxe/internal/test/rxedev"
	"github.com/gorxe/gorxe/rxe"
)

// Numbers of mlx5_ib's part of DM_ALLOC (mlx5_user_ioctl_cmds.h).
const (
	mlx5DMOffset = 1 << 12
	mlx5DMPage   = 1<<12 + 1
)

// mlx5User is a program with a context of a device of libmlx5.
func mlx5User(t testing.TB) (*user, *rxe.Device) {
	t.Helper()
	engine := rxedev.New(t)
	d := must.Get[*Device](t)(NewDevice(Config{Device: engine, Driver: mlx5.New(profile.ConnectX6, nil)}))
	t.Cleanup(d.Close)
	u := &user{newProgram(t, d), forms[1]}
	u.reset()
	u.ok(u.ioctl(uapi.ObjDevice, uapi.MethodGetContext,
		u.in(uapi.AttrUHWIn, bytesFrom(mlx5.AllocContextReq{LibCaps: 3})), u.out(uapi.AttrUHWOut, uapi.SizeOf[mlx5.AllocContextResp]())))
	return u, engine
}

func (u *user) allocDM(size uint64) (handle uint32, err error) {
	u.reset()
	list := []uapi.IoctlAttr{newObj(uapi.AttrAllocDMHandle), num(uapi.AttrAllocDMLength, size), num32(uapi.AttrAllocDMAlignment, 3),
		u.out(mlx5DMOffset, 8), u.out(mlx5DMPage, 2)}
	err = u.ioctlList(uapi.ObjDM, uapi.MethodDMAlloc, list)
	return uint32(list[0].Data), err
}

func (u *user) regDM(pd, dm uint32, offset, length uint64, access rxe.Access) (mr uapi.RegMRResp, err error) {
	u.reset()
	list := []uapi.IoctlAttr{newObj(uapi.AttrRegDMHandle), num(uapi.AttrRegDMOffset, offset), num(uapi.AttrRegDMLength, length),
		obj(uapi.AttrRegDMPD, pd), num32(uapi.AttrRegDMAccess, uint32(access)), obj(uapi.AttrRegDMMemory, dm),
		u.out(uapi.AttrRegDMLKey, 4), u.out(uapi.AttrRegDMRKey, 4)}
	if err := u.ioctlList(uapi.ObjMR, uapi.MethodDMMRReg, list); err != nil {
		return mr, err
	}
	return uapi.RegMRResp{MRHandle: uint32(list[0].Data), LKey: get[uint32](u.program, list[6]), RKey: get[uint32](u.program, list[7])}, nil
}

// TestDeviceMemory: regions of device memory begin at 0, hold what is written, and keep the memory.
// What is freed can be allocated again.
func TestDeviceMemory(t *testing.T) {
	u, engine := mlx5User(t)
	pd := u.allocPD()
	const all = rxe.AccessLocalWrite | rxe.AccessRemoteWrite | rxe.AccessRemoteRead | rxe.AccessRemoteAtomic | rxe.AccessZeroBased
	dm := must.Get[uint32](t)(u.allocDM(8192))
	mr := must.Get[uapi.RegMRResp](t)(u.regDM(pd, dm, 4096, 4096, all))
	if mr.LKey == 0 || mr.RKey != mr.LKey {
		t.Errorf("keys %#x and %#x", mr.LKey, mr.RKey)
	}
	g := u.f.objects.Lookup(mr.MRHandle).Res.(*mrRes).get()
	want, got := []byte("device"), make([]byte, 6)
	must.OK(t, g.space.WriteV([]rxe.Span{{VA: g.start + 8, Buf: want}}))
	whole := u.f.objects.Lookup(dm).Res.(interface{ ReadV([]rxe.Span) error })
	if must.OK(t, whole.ReadV([]rxe.Span{{VA: 4096 + 8, Buf: got}})); !bytes.Equal(got, want) {
		t.Errorf("the memory has %q", got)
	}

	for what, try := range map[string]func() error{
		"not zero based":     func() error { _, err := u.regDM(pd, dm, 0, 8, all&^rxe.AccessZeroBased); return err },
		"behind the end":     func() error { _, err := u.regDM(pd, dm, 4096, 4097, all); return err },
		"a range that wraps": func() error { _, err := u.regDM(pd, dm, 1<<64-8, 16, all); return err },
		"no memory":          func() error { _, err := u.allocDM(0); return err },
		"too much":           func() error { _, err := u.allocDM(1 << 40); return err },
	} {
		if err := try(); err != unix.EINVAL {
			t.Errorf("%s: %v", what, err)
		}
	}
	rereg := uapi.ReregMRReq{MRHandle: mr.MRHandle, Flags: uint32(rxe.ReregAccess), AccessFlags: uint32(all)}
	u.wantErr("reregistration", verb{cmd: uapi.CmdReregMR, req: bytesFrom(rereg), resp: 8}, unix.EOPNOTSUPP)
	if _, err := u.regDM(pd, pd, 0, 8, all); err != unix.EINVAL {
		t.Errorf("of a protection domain: %v", err)
	}

	free := func() error {
		u.reset()
		return u.ioctl(uapi.ObjDM, uapi.MethodDMFree, obj(uapi.AttrDestroyHandle, dm))
	}
	if err := free(); err != unix.EBUSY {
		t.Errorf("with a region: %v", err)
	}
	u.call(verb{cmd: uapi.CmdDeregMR, req: bytesFrom(uapi.HandleReq{Handle: mr.MRHandle})})
	must.OK(t, free())
	for range 20 {
		dm = must.Get[uint32](t)(u.allocDM(100 << 10))
		if _, err := u.allocDM(100 << 10); err != unix.ENOMEM {
			t.Fatalf("more than there is: %v", err)
		}
		must.OK(t, free())
	}
	must.Get[uint32](t)(u.allocDM(64))
	checkLife(t, u, engine)
}

// TestSameKeys: a region of libmlx5 has an rkey that becomes useful with reregistration.
func TestSameKeys(t *testing.T) {
	u, _ := mlx5User(t)
	reg := uapi.RegMRReq{Start: programData, Length: 64, HCAVA: programData, PDHandle: u.allocPD(), AccessFlags: uint32(rxe.AccessLocalWrite)}
	mr := core[uapi.RegMRResp](u.call(verb{cmd: uapi.CmdRegMR, req: bytesFrom(reg), resp: uapi.SizeOf[uapi.RegMRResp]()}))
	rereg := uapi.ReregMRReq{MRHandle: mr.MRHandle, Flags: uint32(rxe.ReregAccess),
		AccessFlags: uint32(rxe.AccessLocalWrite | rxe.AccessRemoteWrite)}
	again := core[uapi.ReregMRResp](u.call(verb{cmd: uapi.CmdReregMR, req: bytesFrom(rereg), resp: uapi.SizeOf[uapi.ReregMRResp]()}))
	if mr.RKey == 0 || mr.RKey != mr.LKey || again.RKey != mr.RKey {
		t.Errorf("lkey %#x, rkey %#x, then %#x", mr.LKey, mr.RKey, again.RKey)
	}
}

// FuzzMLX5Methods feeds the methods that only libmlx5's driver has with attributes.
func FuzzMLX5Methods(f *testing.F) {
	for key, m := range (mlx5.Driver{}).Methods() {
		var attrs []uapi.IoctlAttr
		for i := range m.Attrs {
			s := &m.Attrs[i]
			a := uapi.IoctlAttr{AttrID: s.ID, Len: uint16(s.Min), Data: 1}
			if s.Kind == dispatch.KindOut {
				a.Data = programBase
			}
			attrs = append(attrs, a)
		}
		f.Add(fuzzStep(ioctlBytes(key.Object, key.Method, attrs)))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		u, engine := mlx5User(t)
		u.allocPD()
		must.Get[uint32](t)(u.allocDM(4096))
		for _, b := range fuzzSteps(data) {
			u.reset()
			u.room(4096)
			_, _ = u.f.Ioctl(u, uapi.RDMAVerbsIoctl, u.alloc(b)) // any errno will do
		}
		checkLife(t, u, engine)
	})
}

// TestModifyCQ: a device of libmlx5 takes EX_MODIFY_CQ, and one of librxe does not.
func TestModifyCQ(t *testing.T) {
	u, _ := mlx5User(t)
	private := bytesFrom(mlx5.CreateCQReq{BufAddr: programData, DBAddr: programData + 4096, CQESize: 64})
	cq := core[uapi.CreateCQResp](u.call(verb{cmd: uapi.CmdCreateCQ, req: bytesFrom(uapi.CreateCQReq{CQE: 7, CompChannel: -1}),
		resp: uapi.SizeOf[uapi.CreateCQResp](), uhw: private, uhwResp: 8})).CQHandle
	modify := func(mask uint32, count, period uint16) verb {
		return verb{cmd: uapi.CmdExModifyCQ | uapi.CmdExtended,
			req: bytesFrom(uapi.ModifyCQReq{CQHandle: cq, AttrMask: mask, CQCount: count, CQPeriod: period})}
	}
	u.call(modify(1, 10, 20))
	u.wantErr("no attribute", modify(0, 10, 20), unix.EINVAL)
	u.wantErr("another attribute", modify(2, 10, 20), unix.EOPNOTSUPP)
	u.wantErr("a period that is too long", modify(1, 10, 5000), unix.ERANGE)
	cq++
	u.wantErr("another queue", modify(1, 10, 20), unix.ENOENT)

	d, _ := newDevice(t)
	rxe := &user{opened(t, d), forms[0]}
	rxe.wantErr("librxe", modify(1, 10, 20), unix.EOPNOTSUPP)
}
