package uverbs

import (
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/kernel/uapi"
	"github.com/gorxe/gorxe/rxe"
)

// limitCalls counts the calls that a limit has refused.
type limitCalls map[rxe.Limit]int

func (c limitCalls) Compared(l rxe.Limit, refused bool) {
	if refused {
		c[l]++
	}
}

// TestLowerLimits: two opens of a user with lower limits share them, and get the errnos of the
// device's own limits. Another user has the device's.
func TestLowerLimits(t *testing.T) {
	eachForm(t, func(t *testing.T, other *user, d *Device, engine *rxe.Device) {
		calls := make(limitCalls)
		sub, err := engine.Subdevice(map[rxe.Limit]uint64{rxe.LimitPD: 2, rxe.LimitQP: 2, rxe.LimitCQE: 100, rxe.LimitSGE: 2,
			rxe.LimitSRQWR: 9, rxe.LimitMemory: 8192}, calls)
		if err != nil {
			t.Fatal(err)
		}
		open := func() *user { return &user{openedAs(t, d, sub), other.form} }
		one, two := open(), open()
		allocPD := verb{cmd: uapi.CmdAllocPD, req: bytesFrom(uapi.AllocPDReq{}), resp: 4}
		for _, u := range []*user{one, two} {
			pd := u.allocPD()
			cq, _ := u.createCQ(100, -1, 1)
			u.createQP(rxe.QPRC, pd, cq.CQHandle)
			u.regMR(pd, programData, 4096, rxe.AccessLocalWrite)
			for i, c := range []struct {
				v     verb
				errno unix.Errno
			}{
				{createCQVerb(uapi.CreateCQReq{CQE: 101, CompChannel: -1}), unix.EINVAL},
				{createSRQVerb(uapi.CreateSRQReq{PDHandle: pd, MaxWR: 10, MaxSGE: 1}), unix.EINVAL},
				{createQPVerb(uapi.CreateQPReq{PDHandle: pd, SendCQHandle: cq.CQHandle, RecvCQHandle: cq.CQHandle,
					QPType: uint8(rxe.QPRC), MaxSendWR: 1, MaxRecvWR: 1, MaxSendSGE: 3}), unix.EINVAL},
				{regMRVerb(pd, programData, 8193, rxe.AccessLocalWrite), unix.ENOMEM},
			} {
				if err := u.try(c.v); err != c.errno {
					t.Errorf("call %d: %v, want %v", i, err, c.errno)
				}
			}
			if u == two {
				for i, v := range []verb{createQPVerb(qpReq(rxe.QPRC, pd, cq.CQHandle)), allocPD, regMRVerb(pd, programData, 1, rxe.AccessLocalWrite)} {
					if err := u.try(v); err != unix.ENOMEM {
						t.Errorf("one object too many, %d: %v", i, err)
					}
				}
			}
		}
		want := limitCalls{rxe.LimitPD: 1, rxe.LimitQP: 1, rxe.LimitCQE: 2, rxe.LimitSGE: 2, rxe.LimitSRQWR: 2, rxe.LimitMemory: 3}
		for l, n := range want {
			if calls[l] != n {
				t.Errorf("%v refused %d calls, want %d", l, calls[l], n)
			}
		}
		seen := func(u *user) uapi.QueryDeviceResp {
			return core[uapi.QueryDeviceResp](u.call(verb{cmd: uapi.CmdQueryDevice, req: bytesFrom(uapi.QueryDeviceReq{}), resp: uapi.SizeOf[uapi.QueryDeviceResp]()}))
		}
		if a := seen(one); a.MaxQP != 2 || a.MaxPD != 2 || a.MaxCQE != 100 || a.MaxSGE != 2 {
			t.Errorf("the user sees %+v", a)
		}
		other.makeAll()
		if a := seen(other); a.MaxQP != 1<<20 || a.MaxCQE != 1<<15-1 {
			t.Errorf("another user sees %+v", a)
		}
	})
}
