package uverbs

import (
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/kernel/uapi"
	"github.com/gorxe/gorxe/internal/test/must"
	"github.com/gorxe/gorxe/internal/test/rxedev"
	"github.com/gorxe/gorxe/rxe"
)

// TestAnotherProvider: uverbs serves a provider that is not librxe. Requests name its
// number, its private structs reach it and come from it, and its queues carry data.
func TestAnotherProvider(t *testing.T) {
	for _, fm := range forms {
		t.Run(fm.name, func(t *testing.T) {
			d := must.Get[*Device](t)(NewDevice(Config{Device: rxedev.New(t), Driver: plainDriver{}}))
			t.Cleanup(d.Close)
			u := &user{opened(t, d), fm}
			ctx := u.f.ctx.(*plainContext)

			u.reset()
			query := ioctlBytes(uapi.ObjDevice, uapi.MethodQueryContext, nil)
			for id, want := range map[uint32]error{plainDriverID: unix.EOPNOTSUPP, uapi.DriverRXE: unix.EINVAL} {
				copy(query[16:], uapi.BytesOf(&id)) // ib_uverbs_ioctl_hdr.driver_id
				if _, err := u.f.Ioctl(u.program, uapi.RDMAVerbsIoctl, u.alloc(query)); err != want {
					t.Errorf("a request for driver %d: %v, want %v", id, err, want)
				}
			}

			create := verb{cmd: uapi.CmdCreateCQ, req: bytesFrom(uapi.CreateCQReq{CQE: 10, CompChannel: -1}),
				resp: uapi.SizeOf[uapi.CreateCQResp](), uhwResp: uapi.SizeOf[plainCreateCQResp]()}
			if err := u.try(create); err != unix.EINVAL {
				t.Errorf("create_cq without the private request: %v", err)
			}
			create.uhw = bytesFrom(plainCreateCQReq{Magic: plainMagic, Scale: 3})
			a := u.call(create)
			cq := core[uapi.CreateCQResp](a)
			if got, want := uhw[plainCreateCQResp](a), (plainCreateCQResp{0xc0c0, 30, cq.CQHandle}); got != want || cq.CQE != 30 {
				t.Errorf("create_cq: %d entries, private response %+v, want %+v", cq.CQE, got, want)
			}
			mem := u.f.objects.Lookup(cq.CQHandle).Res.(*cqRes).mem.(*plainCQ)

			newQP := createQPVerb(qpReq(rxe.QPRC, u.allocPD(), cq.CQHandle))
			newQP.uhwResp = uapi.SizeOf[plainCreateQPResp]()
			a = u.call(newQP)
			qp := core[uapi.CreateQPResp](a)
			if got := uhw[plainCreateQPResp](a); got.Cookie != 0x9797 {
				t.Errorf("create_qp: private response %+v", got)
			}
			u.connect(qp.QPHandle, rxe.QPRC, qp.QPN)
			u.call(doorbellVerb(qp.QPHandle))
			ids := make(map[uint64]rxe.WCStatus)
			for _, wc := range mem.wcs {
				ids[wc.ID] = wc.Status
			}
			if status, sent := ids[5]; !sent || status != rxe.WCSuccess || len(mem.wcs) != 2 {
				t.Errorf("completions after a doorbell: %+v", mem.wcs)
			}

			u.call(destroyVerb(uapi.CmdDestroyQP, qp.QPHandle))
			if !slices.Equal(ctx.ending, []rxe.QPState{rxe.QPRTS}) {
				t.Errorf("the driver heard of the ends of queue pairs in %v, want one that could send", ctx.ending)
			}
			u.call(destroyVerb(uapi.CmdDestroyCQ, cq.CQHandle))
			if ctx.live != 0 {
				t.Errorf("%d queues of the driver are left", ctx.live)
			}
		})
	}
}
