package uverbs

import (
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/kernel/dispatch"
	"github.com/gorxe/gorxe/internal/kernel/uapi"
	"github.com/gorxe/gorxe/internal/provider"
	"github.com/gorxe/gorxe/internal/test/must"
	"github.com/gorxe/gorxe/internal/test/rxedev"
	"github.com/gorxe/gorxe/rxe"
)

// A register is an object of a type that only plainDriver has (UVERBS_ID_NS_SHIFT), with methods
// of its own.
const (
	plainRegister   = 1 << 12
	plainMethodNew  = 1 << 12
	plainMethodFree = 1<<12 + 1
	plainMethodSum  = 1<<12 + 2

	plainAttrHandle = 1 << 12
	plainAttrCookie = 1<<12 + 1
	plainAttrPD     = 1<<12 + 2
	plainAttrMemory = 1<<12 + 3
)

type register struct {
	c      *plainContext
	cookie uint64
}

func (r *register) Destroy(*dispatch.Object, bool) error {
	r.c.ended = append(r.c.ended, r.cookie)
	return nil
}

// makeRegister makes an object with the cookie of the request.
func makeRegister(c provider.Context, k *dispatch.Call) error {
	k.Attrs.Object(plainAttrHandle).Res = &register{c.(*plainContext), k.Attrs.U64(plainAttrCookie)}
	return nil
}

// plainMethods has methods of the driver's own type of objects, and of a type that rdma_rxe lacks.
// It adds a method to protection domains, and replaces one of the device.
var plainMethods = provider.Methods{
	{Object: plainRegister, Method: plainMethodNew}: {
		Name: "REGISTER_NEW", Handle: makeRegister,
		Attrs: []dispatch.AttrSpec{
			dispatch.Required(dispatch.Handle(plainAttrHandle, plainRegister, dispatch.AccessNew)),
			dispatch.Required(dispatch.Constant(plainAttrCookie)),
		},
	},
	{Object: plainRegister, Method: plainMethodFree}: {
		Name: "REGISTER_FREE", Destroys: true, Handle: func(provider.Context, *dispatch.Call) error { return nil },
		Attrs: []dispatch.AttrSpec{dispatch.Required(dispatch.Handle(uapi.AttrDestroyHandle, plainRegister, dispatch.AccessDestroy))},
	},
	{Object: uapi.ObjDM, Method: 0}: {
		Name: "DM_ALLOC", Handle: makeRegister,
		Attrs: []dispatch.AttrSpec{
			dispatch.Required(dispatch.Handle(plainAttrHandle, uapi.ObjDM, dispatch.AccessNew)),
			dispatch.Required(dispatch.Constant(plainAttrCookie)),
		},
	},
	{Object: uapi.ObjPD, Method: plainMethodSum}: {
		Name: "PD_SUM",
		Attrs: []dispatch.AttrSpec{
			dispatch.Required(dispatch.Handle(plainAttrPD, uapi.ObjPD, dispatch.AccessRead)),
			dispatch.Required(dispatch.Handle(plainAttrMemory, uapi.ObjDM, dispatch.AccessRead)),
			dispatch.Required(dispatch.Output(plainAttrCookie, 8)),
		},
		Handle: func(c provider.Context, k *dispatch.Call) error {
			m := k.Attrs.Object(plainAttrMemory).Res.(*register)
			return dispatch.Put(k, plainAttrCookie, m.cookie+c.(*plainContext).pds)
		},
	},
	{Object: uapi.ObjDevice, Method: uapi.MethodQueryPort}: {
		Name:  "QUERY_PORT",
		Attrs: []dispatch.AttrSpec{dispatch.Required(dispatch.Output(plainAttrCookie, 8))},
		Handle: func(c provider.Context, k *dispatch.Call) error {
			return dispatch.Put(k, plainAttrCookie, c.(*plainContext).pds)
		},
	},
}

// plainUser is a program without a context, on a device of plainDriver.
func plainUser(t *testing.T, fm form) (*user, *plainContext) {
	t.Helper()
	d := must.Get[*Device](t)(NewDevice(Config{Device: rxedev.New(t), Driver: plainDriver{}}))
	t.Cleanup(d.Close)
	u := &user{newProgram(t, d), fm}
	return u, u.f.ctx.(*plainContext)
}

// TestDriverHooks: the private parts of GET_CONTEXT, ALLOC_PD, QUERY_DEVICE and MODIFY_QP reach the
// driver, and its answers the program. A work request in the program's memory reaches the driver.
func TestDriverHooks(t *testing.T) {
	for _, fm := range forms {
		t.Run(fm.name, func(t *testing.T) {
			u, ctx := plainUser(t, fm)
			get := verb{cmd: uapi.CmdGetContext, req: bytesFrom(uapi.GetContextReq{}), resp: uapi.SizeOf[uapi.GetContextResp](),
				uhw: bytesFrom(plainContextReq{Magic: 1}), uhwResp: uapi.SizeOf[plainContextResp]()}
			if err := u.try(get); err != unix.EINVAL {
				t.Errorf("get_context with a private request that the driver refuses: %v", err)
			}
			if err := u.try(verb{cmd: uapi.CmdAllocPD, req: bytesFrom(uapi.AllocPDReq{}), resp: 4}); err != unix.EINVAL || len(u.fds) != 0 {
				t.Errorf("after that: alloc_pd %v, and the program has %d descriptors", err, len(u.fds))
			}
			get.uhw = bytesFrom(plainContextReq{plainMagic, 7})
			if got := uhw[plainContextResp](u.call(get)); got != (plainContextResp{7, 12}) || len(u.fds) != 1 {
				t.Errorf("get_context: private response %+v, %d descriptors", got, len(u.fds))
			}
			if err := u.try(get); err != unix.EINVAL {
				t.Errorf("a second context: %v", err)
			}
			if ctx.space != rxe.Memory(u.mem) {
				t.Error("the driver has another address space than the program")
			}

			a := u.call(verb{cmd: uapi.CmdAllocPD, req: bytesFrom(uapi.AllocPDReq{}), resp: 4, uhwResp: 8})
			if got := uhw[plainPDResp](a); got.Number != 1 {
				t.Errorf("alloc_pd: private response %+v", got)
			}
			pd := core[uapi.AllocPDResp](a).PDHandle

			plain := core[uapi.QueryDeviceResp](u.call(verb{cmd: uapi.CmdQueryDevice, req: bytesFrom(uapi.QueryDeviceReq{}), resp: uapi.SizeOf[uapi.QueryDeviceResp]()}))
			a = u.call(verb{cmd: uapi.CmdQueryDevice | uapi.CmdExtended, req: bytesFrom(uapi.ExQueryDeviceReq{}),
				resp: uapi.SizeOf[uapi.ExQueryDeviceResp](), uhwResp: uapi.SizeOf[plainQueryResp]()})
			if ex := core[uapi.ExQueryDeviceResp](a); plain.VendorID != plainVendor || ex.Base != plain || uhw[plainQueryResp](a).Caps != 0xca95 {
				t.Errorf("query_device: vendor %#x, private response %+v", plain.VendorID, uhw[plainQueryResp](a))
			}
			u.modifyOwn(t, ctx, pd)
		})
	}
}

// modifyOwn changes a queue pair, with private parts, and sends from a queue in the program's
// memory.
func (u *user) modifyOwn(t *testing.T, ctx *plainContext, pd uint32) {
	cq := core[uapi.CreateCQResp](u.call(verb{cmd: uapi.CmdCreateCQ, req: bytesFrom(uapi.CreateCQReq{CQE: 10, CompChannel: -1}),
		resp: uapi.SizeOf[uapi.CreateCQResp](), uhw: bytesFrom(plainCreateCQReq{plainMagic, 1}), uhwResp: uapi.SizeOf[plainCreateCQResp]()}))
	newQP := createQPVerb(qpReq(rxe.QPRC, pd, cq.CQHandle))
	newQP.uhw, newQP.uhwResp = bytesFrom(plainCreateQPReq{programData}), uapi.SizeOf[plainCreateQPResp]()
	qp := core[uapi.CreateQPResp](u.call(newQP))

	steps := connectReqs(qp.QPHandle, rxe.QPRC, qp.QPN)
	modify := verb{cmd: uapi.CmdModifyQP | uapi.CmdExtended, req: bytesFrom(uapi.ExModifyQPReq{Base: steps[0]}),
		resp: uapi.SizeOf[uapi.ExModifyQPResp](), uhw: bytesFrom(plainModifyReq{1, 9}), uhwResp: uapi.SizeOf[plainModifyResp]()}
	if err := u.try(modify); err != unix.EINVAL {
		t.Errorf("modify_qp with a private request that the driver refuses: %v", err)
	}
	if state := u.queryQP(qp.QPHandle).QPState; state != uint8(rxe.QPReset) {
		t.Errorf("after that the queue pair is in state %d", state)
	}
	modify.uhw = bytesFrom(plainModifyReq{plainMagic, 9})
	if got := uhw[plainModifyResp](u.call(modify)); got != (plainModifyResp{9, steps[0].AttrMask}) {
		t.Errorf("modify_qp: private response %+v", got)
	}
	for _, step := range steps[1:] {
		u.call(modifyVerb(step)) // the plain form has no private part
	}
	copy(u.mem.Bytes(programData, 8), bytesFrom(uint64(0xabcd)))
	u.call(doorbellVerb(qp.QPHandle))
	sent := func(wc rxe.WC) bool { return wc.ID == 0xabcd && wc.Status == rxe.WCSuccess }
	if mem := u.f.objects.Lookup(cq.CQHandle).Res.(*cqRes).mem.(*plainCQ); !slices.ContainsFunc(mem.wcs, sent) {
		t.Errorf("completions of the request in the program's memory: %+v", mem.wcs)
	}
}

// TestDriverContextByIoctl: the ioctl form of GET_CONTEXT reaches the driver, too.
func TestDriverContextByIoctl(t *testing.T) {
	u, ctx := plainUser(t, forms[1])
	try := func(magic uint32) (uapi.IoctlAttr, error) {
		u.reset()
		list := []uapi.IoctlAttr{u.in(uapi.AttrUHWIn, bytesFrom(plainContextReq{magic, 3})), u.out(uapi.AttrUHWOut, uapi.SizeOf[plainContextResp]())}
		return list[1], u.ioctlList(uapi.ObjDevice, uapi.MethodGetContext, list)
	}
	if _, err := try(1); err != unix.EINVAL {
		t.Errorf("a private request that the driver refuses: %v", err)
	}
	out, err := try(plainMagic)
	if got := uapi.Load[plainContextResp](u.mem.Bytes(out.Data, int(out.Len))); err != nil || got != (plainContextResp{3, 12}) || ctx.space == nil {
		t.Errorf("%v, private response %+v, address space %v", err, got, ctx.space)
	}
}

// TestDriverMethods: a driver's own methods work on its own objects and on those of the verbs, and
// those objects end with the file. Another driver's device does not have them.
func TestDriverMethods(t *testing.T) {
	u, ctx := plainUser(t, forms[1])
	u.begin()
	pd := u.allocPD()
	made := func(object uapi.ObjectType, method uint16, cookie uint64) uint32 {
		t.Helper()
		u.reset()
		list := []uapi.IoctlAttr{newObj(plainAttrHandle), num(plainAttrCookie, cookie)}
		u.ok(u.ioctlList(object, method, list))
		return uint32(list[0].Data)
	}
	first := made(plainRegister, plainMethodNew, 11)
	made(plainRegister, plainMethodNew, 12)
	memory := made(uapi.ObjDM, 0, 40)

	ask := func(object uapi.ObjectType, method uint16, list ...uapi.IoctlAttr) (uint64, error) {
		u.reset()
		list = append(list, u.out(plainAttrCookie, 8))
		if err := u.ioctlList(object, method, list); err != nil {
			return 0, err
		}
		return get[uint64](u.program, list[len(list)-1]), nil
	}
	if sum, err := ask(uapi.ObjPD, plainMethodSum, obj(plainAttrPD, pd), obj(plainAttrMemory, memory)); sum != 41 || err != nil {
		t.Errorf("a method of a common object: %d, %v", sum, err)
	}
	if n, err := ask(uapi.ObjDevice, uapi.MethodQueryPort); n != 1 || err != nil {
		t.Errorf("a method in place of a common one: %d, %v", n, err)
	}
	u.reset()
	// of another type
	u.want(u.ioctl(plainRegister, plainMethodFree, obj(uapi.AttrDestroyHandle, memory)), unix.EINVAL)
	u.ok(u.ioctl(plainRegister, plainMethodFree, obj(uapi.AttrDestroyHandle, first)))
	u.want(u.ioctl(plainRegister, plainMethodFree, obj(uapi.AttrDestroyHandle, first)), unix.ENOENT)
	u.f.Close()
	if slices.Sort(ctx.ended); !slices.Equal(ctx.ended, []uint64{11, 12, 40}) {
		t.Errorf("objects that ended: %v", ctx.ended)
	}

	d, _ := newDevice(t)
	rxe := opened(t, d)
	for key, m := range plainMethods {
		rxe.reset()
		err := rxe.ioctl(key.Object, key.Method)
		if want := map[bool]error{true: unix.EINVAL, false: unix.EPROTONOSUPPORT}[key.Object == uapi.ObjDevice]; err != want {
			t.Errorf("%s on a device of librxe: %v, want %v", m.Name, err, want)
		}
	}
}
